"""What is compared of a sampler's weights, and what a probe must show."""

import pytest

from mars_env.errors import ModelError
from mars_env.models.checksums import Checksum
from mars_env.trainers.proof import WeightProof

A, B, C = (Checksum("float32", (2,), value) for value in (1, 2, 3))


@pytest.mark.parametrize(
    ("sampled", "share"),
    [
        ({"a": A, "b": B, "tied": A}, 1),
        ({"a": A}, 2 / 3),
        ({"a": A, "more": C}, 2 / 3),
        ({"b": B}, 1 / 3),
        ({}, 0),
    ],
)
def test_tensors_that_cannot_be_read_are_counted_unless_they_are_tied(sampled, share):
    proof = WeightProof("it")
    assert proof.compare({"a": A, "b": B, "tied": A}, sampled) is (share == 1)
    assert proof.share_read == pytest.approx(share)


@pytest.mark.parametrize("sampled", [{"a": A, "b": A}, {"a": B, "b": A}, {"a": A, "b": C}, {"b": A}])
def test_another_tensor_is_a_fault(sampled):
    with pytest.raises(ModelError):
        WeightProof("it").compare({"a": A, "b": B}, sampled)


def test_the_probe_changes_whenever_the_weights_have_changed():
    proof = WeightProof("it")

    def probed(checksum, values):
        proof.compare({"a": checksum}, {})
        proof.compare_probe(values)

    probed(A, [-1.0, -2.0])
    probed(A, [-1.0, -2.0])  # an update that was left out
    probed(B, [-1.0, -2.1])
    with pytest.raises(ModelError):
        probed(C, [-1.0, -2.1])
    with pytest.raises(ModelError):
        probed(A, [float("nan")])
