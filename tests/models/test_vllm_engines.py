"""What vLLM gives, with the versions of its weights; vLLM itself is in tests/engines."""

from types import SimpleNamespace

import pytest

from mars_env.models.vllm_engines import generated


def output(token_ids, **more):
    return SimpleNamespace(outputs=[SimpleNamespace(token_ids=token_ids, **more)])


def test_versions_are_those_that_vllm_notes():
    spans = [SimpleNamespace(version="1", start=0, end=2), SimpleNamespace(version="2", start=2, end=3)]
    assert generated(output((5, 6, 7), weight_versions=spans), 9).versions == ((1, 2), (2, 1))


@pytest.mark.parametrize(
    ("completion", "versions"),
    [
        (output((5, 6, 7)), ((9, 3),)),
        (output((5, 6, 7), weight_versions=None), ((9, 3),)),
        (output(()), ()),
    ],
)
def test_where_vllm_notes_none_they_are_the_engine_s(completion, versions):
    assert generated(completion, 9).versions == versions
