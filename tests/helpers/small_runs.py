"""Trees written in one line each, so that a test shows everything that its figures come from."""

from itertools import zip_longest

import pytest
from turns import turn

from mars_env.evaluation.report import RunDescription
from mars_env.types import Completion, Grade, Problem, Tree

ROLES = {"S": "solver_0", "V": "verifier_0", "C": "corrector_0"}
GRADES = {
    "+": Grade.correct(),
    "-": Grade.wrong("not the reference"),
    "?": Grade.unknown("the worker was lost"),
}

ABOUT = RunDescription(title="t", problem_set="s", generated=False)


def problem_of(name):
    return Problem(name, f"The statement of {name}.", "7")


def episode(problem, sample, script, *, final=None, tokens=10, fault="", truncated=(), answers=None):
    """An episode from a script such as ``"S- Vw C+ Vc"``.

    S and C are followed by their grade (+ - ?), V by its verdict (c, w, or m for malformed). `final`
    is the index of the turn that is the team's answer (by default the last graded one); `tokens` a
    number for every turn or a list; `answers` the texts of the graded turns.
    """
    turns = []
    texts = iter(answers or ())
    for i, word in enumerate(script.split()):
        kind, mark = word
        info = {"round": i}
        if kind == "V":
            info |= {"verdict": "Correct" if mark == "c" else "Wrong", "malformed": mark == "m"}
        text = next(texts, f"{word} of {problem}") if kind != "V" else word
        n = tokens if isinstance(tokens, int) else tokens[i]
        completion = Completion(
            text, "length" if i in truncated else "stop", prompt_tokens=5, completion_tokens=n
        )
        grade = GRADES[mark] if kind != "V" else None
        names = {"tree": f"{problem}#{sample}", "group": "", "policy": "policy", "problem": problem}
        reward, id = float(mark == "+"), "0" + ".0" * i
        turns.append(turn(id, reward, completion, agent=ROLES[kind], grade=grade, info=info, **names))
    graded = [t.id for t in turns if t.grade is not None]
    chosen = None if fault or not graded else graded[-1] if final is None else turns[final].id
    return Tree(f"{problem}#{sample}", problem_of(problem), tuple(turns), final=chosen, fault=fault)


def graded_tree(problem, sample, *grades, rewards=()):
    """A tree of first turns with these grades, and the text ``<problem><place>``."""
    tree = f"{problem.id}#{sample}"
    turns = [
        turn(str(i), reward, Completion(f"{problem.id}{i}"), grade=grade, tree=tree, problem=problem.id)
        for i, (grade, reward) in enumerate(zip_longest(grades, rewards))
    ]
    return Tree(tree, problem, tuple(turns))


@pytest.fixture(name="episode")
def _episode():
    return episode


@pytest.fixture
def run():
    """A small run: three problems, two samples each; figures are easily counted by hand."""
    return [
        episode("p1", 0, "S- Vw C+ Vc"),
        episode("p1", 1, "S+ Vc"),
        episode("p2", 0, "S- Vc"),
        episode("p2", 1, "S- Vm C- Vw C+ Vc", truncated=(2,)),
        episode("p3", 0, "S+ Vw C- Vc"),
        episode("p3", 1, "S+ Vc"),
    ]
