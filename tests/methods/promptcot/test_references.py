"""References by vote and by tests."""

import json

import pytest

from mars_env.agents import FunctionAgent, Solver
from mars_env.errors import ModelError
from mars_env.grading import agrade
from mars_env.methods.promptcot.references import Majority, WrittenTests, plurality, with_reference
from mars_env.models import ScriptedModel
from mars_env.types import Problem, Sampling, Verdict


@pytest.mark.parametrize(
    ("votes", "threshold", "found"),
    [
        ([7, 7, 7, 3], 0.5, (7, 0.75)),
        ([7, 7, 3, 3], 0.5, (None, 0.5)),  # a tie
        ([7, 7, 3, None], 0.5, (7, 0.5)),
        ([7, 7, 3, None], 0.51, (None, 0.5)),
        ([7, None, None, None], 0.25, (7, 0.25)),
        ([None, None], 0.1, (None, 0.0)),
        ([7], 1.0, (7, 1.0)),
    ],
)
def test_votes_by_hand(votes, threshold, found):
    assert plurality(votes, threshold) == found


def solver(*texts, tokens=4096):
    def said(prompt, sample, seed):
        return texts[sample % len(texts)]

    return Solver(ScriptedModel(said, name="teacher"), sampling=Sampling(max_tokens=tokens))


async def test_equal_numbers_are_one_vote_and_the_count_is_recorded():
    voter = solver(r"\boxed{07}", r"so it is \boxed{7}", r"\boxed{7.0}", "I do not know.")
    reference = await Majority(voter, voters=4)("3 + 4?", 0)
    assert reference.value == "7" and reference.agreement == reference.made["agreement"] == 0.75
    assert (reference.made["votes"], reference.made["threshold"]) == ({"7": 3}, 0.5)


@pytest.mark.parametrize(("written", "wrong"), [(r"2\pi r", r"2\pi"), (r"\text{no solution}", "0")])
async def test_an_answer_stays_as_it_was_written(written, wrong):
    spaced = written.replace(" ", "  ")
    reference = await Majority(solver(rf"\boxed{{{written}}}", rf"\boxed{{{spaced}}}"), voters=4)("What?", 0)
    assert reference.agreement == 1.0 and reference.made["votes"] == {written: 4}
    problem = Problem("made", "What?", reference.value)
    assert (await agrade(problem, rf"\boxed{{{written}}}")).verdict is Verdict.CORRECT
    assert (await agrade(problem, rf"\boxed{{{wrong}}}")).verdict is Verdict.WRONG


@pytest.mark.parametrize("text", ["I do not know.", r"It is \boxed{7} or it may be something else entirely"])
async def test_what_is_not_boxed_or_was_cut_off_is_no_vote_even_if_all_agree(text):
    assert (await Majority(solver(text, tokens=9), voters=4)("3 + 4?", 0)).value is None


async def test_an_answer_that_nothing_can_be_compared_with_is_no_reference():
    tower = r"\boxed{5^{5^{5^{5^5}}}}"
    reference = await Majority(solver(tower), voters=4)("How many?", 0)
    assert reference.value is None and reference.agreement == 1.0
    assert "larger than the limit" in reference.made["fault"]


async def test_a_failing_voter_is_no_disagreement():
    def fails(observation):
        raise ModelError("gone")

    with pytest.raises(ModelError):
        await Majority(FunctionAgent(fails))("3 + 4?", 0)


def author(outputs, *, broken=()):
    """Asks for the numbers 0, 1, 2 ... to be doubled, and answers with given outputs of each input."""

    def script(prompt, sample, seed):
        text = prompt[-1]["content"]
        if "There are already" in text or "Write one small input" in text:
            return json.dumps({"input": f"{text.count(chr(10) + chr(34))}\n"})
        number = int(json.loads(text.partition("as JSON: ")[2].partition("\n")[0]))
        if number in broken:
            return ["{", "[1]", '{"output": 3}', '{"output": "0"} or so'][sample % 4]
        return "I think.\n" + json.dumps({"output": outputs[number][sample % len(outputs[number])]})

    return ScriptedModel(script, name="author")


async def test_tests_are_settled_by_vote_and_graded_with():
    tests = WrittenTests(author([["0\n"], ["2"], ["4", "4", "4", "5"], ["6", "7"]]), voters=4, threshold=0.75)
    reference = await tests("Double the number.", 0)
    assert [t["input"] for t in reference.value["tests"]] == ["0\n", "1\n", "2\n"]
    assert [t["output"].strip() for t in reference.value["tests"]] == ["0", "2", "4"]
    assert (reference.agreement, reference.kind) == (0.75, "code")
    assert (reference.made["by"], reference.made["author"]) == ("tests", "author")
    assert (reference.made["inputs"], reference.made["kept"]) == (4, 3)
    problem = with_reference(Problem("p", "Double the number."), reference)
    for program, verdict in (("print(2 * int(input()))", Verdict.CORRECT), ("print(0)", Verdict.WRONG)):
        assert (await agrade(problem, f"```python\n{program}\n```")).verdict is verdict


async def test_too_few_settled_tests_are_no_reference():
    tests = WrittenTests(author([["0"], ["2"], ["4"], ["6"]], broken=(1, 2)), voters=4)
    reference = await tests("Double the number.", 0)
    assert reference.value is None and reference.agreement == 0.0 and reference.made["kept"] == 2
    problem = with_reference(Problem("p", "Double."), reference)
    assert problem.kind == "code"
    assert (await agrade(problem, "```python\nprint(0)\n```")).verdict is Verdict.UNKNOWN
