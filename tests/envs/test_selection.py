import pytest
from sandboxes import need_a_sandbox

from mars_env.envs.selection import Choice, Highest, Vote, answer_key, candidates
from mars_env.envs.visibility import visible_problem
from mars_env.errors import ModelError, SandboxError
from mars_env.grading import grader_for
from mars_env.grading.code.grader import CodeGrader
from mars_env.problems.code import code_problem_from_row
from mars_env.types import Action, Problem, Ratings, Turn

PROBLEM = Problem("p", "What is 2 + 2?", None)


def turns(*texts, scores=None):
    scores = scores or [1.0] * len(texts)
    return [
        Turn("p#0", str(i), None, "p#0", "solver_0", "", "p", Action(text), None, score, None, {"call": i})
        for i, (text, score) in enumerate(zip(texts, scores, strict=True))
    ]


class Table:
    def __init__(self, scores, tokens=0):
        self.scores, self.tokens, self.asked = scores, tokens, []

    async def rate(self, statement, texts, seed):
        self.asked.append(list(texts))
        return Ratings(tuple(self.scores[text] for text in texts), self.tokens)


def test_candidates_are_the_best_in_the_order_of_asking():
    some = turns("a", "b", "c", "d", scores=[0.5, 1.0, None, 1.0])
    assert [turn.id for turn in candidates(some[::-1])] == ["1", "3"]
    assert candidates(turns("a", scores=[None])) == candidates([]) == []


@pytest.mark.parametrize(
    ("texts", "chosen"),
    [
        ([r"\boxed{5}", r"\boxed{4}", r"so it is \boxed{04}"], "1"),
        ([r"\boxed{5}", r"\boxed{4}"], "0"),  # equals: the earliest
        (["no idea whatsoever, sorry", r"\boxed{4}"], "1"),
        (["nothing at all here", "nor is there here"], "0"),
        ([r"\boxed{x+1}", r"\boxed{ x + 1 }", r"\boxed{4}"], "0"),
    ],
)
async def test_votes(texts, chosen):
    assert (await Vote().choose(PROBLEM, turns(*texts), 0)).turn == chosen


async def test_programs_vote_by_their_text():
    problem = Problem("c", "Print 1.", None, "code")
    texts = ["```python\nprint(2)\n```", "```python\nprint(1)\n```", "Here:\n```python\nprint(1)  \n\n```"]
    assert (await Vote().choose(problem, turns(*texts), 0)).turn == "1"
    assert answer_key("code", "<think>hm") is None
    asked = Problem("c", "Return 1.", {"entry_point": "f"}, "code")
    texts = [f"```python\ndef f(): return {n}\n```\nSo:\n```python\nf()\n```" for n in (2, 1, 1)]
    assert (await Vote().choose(asked, turns(*texts), 0)).turn == "1"


ROW = {"id": "c", "prompt": "Double.", "public_tests": 2}
READS = {**ROW, "mode": "stdin", "tests": [{"input": str(n), "output": str(2 * n)} for n in (1, 2, 3)]}
CALLED = {**ROW, "mode": "function_call", "fn_name": "f"}
CALLED |= {"inputs": [[1], [2], [3]], "outputs": [[2], [4], [6]]}

TWICE = [
    *["print(1)"] * 2,
    "print(int(input()) * 2)",
    "n = int(input())\nprint(n + n, ' ')",
    "print(2 * int(input()))",
    *["1 / 0"] * 9,
]
GIVEN_TWICE = [
    *["def f(x): return [1]"] * 2,
    "def f(x): return [x * 2]",
    "def f(x): return (x + x,)",
    "def f(x):\n    return [2 * x]",
    *["def f(x): return f"] * 9,
]


@pytest.mark.parametrize(("row", "texts"), [(READS, TWICE), (CALLED, GIVEN_TWICE)], ids=["stdin", "call"])
async def test_programs_vote_by_what_they_give_for_public_inputs(row, texts):
    """Programs that do the same vote alike however they are written; those that fail have no vote."""
    need_a_sandbox()
    problem = code_problem_from_row(row)
    shown = visible_problem(problem)
    assert (await Vote().choose(shown, turns(*texts), 0)).turn == "2"
    hidden = Problem("c", "Double.", {**problem.reference, "tests": []}, "code")
    assert (await Vote().choose(hidden, turns(*texts[:5]), 0)).turn == "0"  # no inputs: by their text
    await grader_for("code").aclose()


async def test_programs_that_cannot_be_run_have_no_vote_by_chance(monkeypatch):
    async def lost(self, problem, text):
        raise SandboxError("no sandbox today")

    monkeypatch.setattr(CodeGrader, "outputs", lost)
    with pytest.raises(ModelError):
        await Vote().choose(code_problem_from_row(READS), turns("print(1)", "print(2)"), 0)


async def test_the_reward_model_rates_each_text_once():
    model = Table({"a": 0.2, "b": 0.7, "c": None}, tokens=9)
    assert await Highest(model).choose(PROBLEM, turns("c", "a", "b", "a", "b"), 0) == Choice("2", 9)
    assert model.asked == [["c", "a", "b"]]
    assert await Highest(model).choose(PROBLEM, turns("c"), 0) == Choice("0")  # no choice, nothing asked
    assert len(model.asked) == 1
