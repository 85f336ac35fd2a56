"""What vLLM gives, with the versions of its weights; vLLM itself is in tests/engines."""

from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from mars_env.models.vllm_engines import generated


@dataclass
class Of32:
    token_ids: tuple
    weight_versions: list | None = None


@dataclass
class Of29:
    token_ids: tuple


def output(completion):
    return SimpleNamespace(outputs=[completion])


def test_versions_are_those_that_vllm_notes():
    spans = [SimpleNamespace(version="1", start=0, end=2), SimpleNamespace(version="2", start=2, end=3)]
    assert generated(output(Of32((5, 6, 7), spans)), 9).versions == ((1, 2), (2, 1))


@pytest.mark.parametrize(
    ("completion", "versions"),
    [(Of29((5, 6, 7)), ((9, 3),)), (Of32((5, 6, 7)), ((9, 3),)), (Of29(()), ())],
)
def test_where_vllm_notes_none_they_are_the_engine_s(completion, versions):
    assert generated(output(completion), 9).versions == versions
