"""The studies of tools: what is shown of a turn with calls is what the loop of a turn would write."""

import random

import pytest

pytest.importorskip("torch")

from mars_env.miniature.model import build_model, build_tokenizer
from mars_env.miniature.protocol import END, SPECIAL
from mars_env.models import HFModel
from mars_env.types import Completion
from studies.common.subset_sum import GRADER
from studies.sums import protocol
from studies.sums.warm_start import spoilt
from studies.tools_verify import agents
from studies.tools_verify.warm_start import SET, demonstrate

PROBLEM = SET(seed=5)[0]


class Telling(HFModel):
    """Writes given messages, one after the other."""

    def tell(self, *messages):
        self.messages = iter(messages)
        return self

    async def complete(self, prompt, n, sampling):
        return [self.written(self.encode(prompt), next(self.messages))]


@pytest.fixture(scope="module")
def model():
    tokenizer = build_tokenizer(agents.VOCABULARY, SPECIAL, agents.PATTERN)
    return Telling((build_model(0, len(agents.VOCABULARY)), tokenizer), device="cpu", name="sums")


def whole(model, done: Completion):
    return model.tokenizer.decode([*done.prompt_ids, *done.token_ids])


async def test_a_report_is_shown_as_it_is_played(model):
    text, numbers = PROBLEM.statement, PROBLEM.metadata["numbers"][:2]
    seen = {"problem": text, "solution": protocol.shown(protocol.stream(numbers))}
    asked, said = agents.call(text, numbers), agents.report(text, numbers)
    [action] = await agents.agent("verifier_0", model.tell(asked, said)).act(seen, 1, 0)
    assert action.calls[0].result == agents.subtract(protocol.stream([PROBLEM.metadata["target"], *numbers]))
    assert whole(model, action.completions[1]) == (
        f"{protocol.prompt('verifier', seen)}{agents.result(asked)}{said}{END}"
    )


@pytest.mark.parametrize("number", range(20))
def test_demonstrations_are_right(model, number):
    problem = SET(seed=number)[0]
    right = [int(one) for one in problem.reference.split(", ")]
    wrong = spoilt(problem.statement, right, random.Random(number))
    rows = {name: [] for name in ("solver", "call", "report", "corrector", "alone")}
    demonstrate(rows, problem.statement, right, [protocol.stream(wrong)], random.Random(0))
    for text in [written for role in ("solver", "corrector") for _, written in rows[role]]:
        assert GRADER.grade_sync(problem, protocol.shown(text)).verdict == "CORRECT"
    assert [written.endswith("Correct") for _, written in rows["report"]] == [False, True]
    pad = model.tokenizer.pad_token_id
    assert not any(
        pad in model.tokenizer(read + written)["input_ids"] for row in rows.values() for read, written in row
    )
