"""No reference leaks into a search at test time."""

import asyncio
import json
import random
from dataclasses import asdict, is_dataclass, replace

import pytest

import mars_env
from mars_env.envs import make_game, spec
from mars_env.envs.selection import Choice
from mars_env.envs.visibility import public_tests
from mars_env.errors import ConfigError
from mars_env.players import assign_agents
from mars_env.problems.code import code_problem_from_row
from mars_env.rollout import Job, collect
from mars_env.types import Action, Completion, Grade, Problem, Ratings, role_of

MATHS = [Problem(f"m{i}", f"What is {i} + {i}?", str(2 * i)) for i in range(4)]
CODE = [
    code_problem_from_row({
        "id": f"c{i}", "prompt": f"Return x + {i} for x < 3 and 0 for larger ones.", "public_tests": 2,
        "mode": "function_call", "fn_name": "f",
        "inputs": [[0], [1], [7], [9]], "outputs": [i, i + 1, 0, 0],
    })
    for i in range(2)
]  # fmt: skip


class Guesser:
    policy = "guesser"

    async def act(self, observation, n, seed):
        rng = random.Random(seed)
        if observation.get("kind") == "code":
            tail = rng.choice(["", " if x < 3 else 0", " if x < 8 else 0"])
            return [Action(f"```python\ndef f(x):\n    return x + {rng.randrange(3)}{tail}\n```")]
        return [Action(f"\\boxed{{{rng.randrange(8)}}}")]


class Doubter:
    """A verifier that looks at the solution alone, and keeps whether it was cut off."""

    policy = "doubter"

    def __init__(self):
        self.truncated = []

    async def act(self, observation, n, seed):
        self.truncated.append(observation["truncated"])
        said = ["Fine.\nCorrectness: Correct", "Not so.\nCorrectness: Wrong"]
        cost = (Completion("", completion_tokens=3),)
        return [Action(said[(len(observation["solution"]) + seed + i) % 2], cost) for i in range(n)]


class ByText:
    """A reward model that likes some texts more than others, and keeps what it was asked."""

    def __init__(self):
        self.asked = []

    async def rate(self, statement, texts, seed):
        self.asked.append(list(texts))
        return Ratings(tuple(random.Random(text).random() for text in texts), tokens=2 * len(texts))


def choices(problems, **settings):
    """Everything that a search decided, and the grades, which may change."""
    game = make_game(spec("arithmetic-tree-search", agents=2, nodes=12, **settings), kind=problems[0].kind)
    trees = asyncio.run(
        collect(game, assign_agents(game.rules, Guesser()), [Job(p) for p in problems], seed=2)
    )
    decided = [
        ([(t.id, t.agent, t.text, t.search_score, t.reward, dict(t.info)) for t in tree.turns], tree.final)
        for tree in trees
    ]
    return decided, [turn.grade.verdict for tree in trees for turn in tree.turns]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"verifier": Doubter(), "verdicts": 2},
        {"reward_model": ByText()},
        {"verifier": Doubter(), "reward_model": ByText(), "early_stop": False},
    ],
    ids=["vote", "verifier", "reward-model", "both"],
)
def test_references_of_mathematics_change_no_choice(settings):
    mixed = [replace(p, reference=q.reference) for p, q in zip(MATHS, MATHS[1:] + MATHS[:1], strict=True)]
    decided, grades = choices(MATHS, **settings)
    changed, other_grades = choices(mixed, **settings)
    assert decided == changed and grades != other_grades


@pytest.mark.parametrize(
    "settings", [{}, {"score": "fraction", "reward_model": ByText()}], ids=["plain", "t-plus"]
)
def test_private_tests_change_no_choice(settings):
    def private(problem, change):
        tests = problem.reference["tests"]
        kept = [test for test in tests if test["public"]]
        return replace(problem, reference={**problem.reference, "tests": kept + change(tests[len(kept) :])})

    decided, grades = choices(CODE, **settings)
    swapped = [private(p, lambda tests: [{**t, "accept": [5]} for t in tests[::-1]]) for p in CODE]
    changed, other_grades = choices(swapped, **settings)
    assert decided == changed
    assert grades != other_grades
    without = [private(p, lambda tests: []) for p in CODE]
    assert choices(without, **settings)[0] == decided


def test_a_selection_that_fails_leaves_the_nodes_and_no_answer():
    class Failing:
        async def choose(self, problem, candidates, seed):
            raise RuntimeError("seen")

    game = make_game(spec("arithmetic-tree-search", nodes=3))
    game = replace(game, visibility=replace(game.visibility, selection=Failing()))
    (tree,) = asyncio.run(collect(game, assign_agents(game.rules, Guesser()), [Job(MATHS[1])], seed=0))
    assert tree.fault == "the final choice: RuntimeError: seen" and tree.final is None
    assert len(tree.turns) == 3


SECRET = "4711-is-secret"
SECRETIVE = Problem("s", "What is 1 + 1?", SECRET, metadata={"solution": SECRET})
SECRETIVE_CODE = replace(
    CODE[0],
    reference={
        **CODE[0].reference,
        "tests": [*public_tests(CODE[0]), {"arguments": [SECRET], "accept": [SECRET], "public": False}],
        "solutions": [f"# {SECRET}"],
        "editorial": SECRET,
    },
    metadata={"source": SECRET},
)


class Eavesdropper:
    """Stands in every place that acts, judges for a search or chooses, and keeps all that it is given."""

    policy = "eavesdropper"

    def __init__(self):
        self.heard = []

    def hear(self, what, *values):
        plain = json.dumps([asdict(v) if is_dataclass(v) else v for v in values], default=repr)
        self.heard.append((what, plain))

    async def act(self, observation, n, seed):
        self.hear("agent" if "kind" in observation else "verifier", dict(observation))
        return [Action("```python\ndef f(x):\n    return x\n``` \\boxed{2} Correctness: Wrong")] * n

    async def grade(self, problem, text):
        self.hear("grader", problem)
        return Grade.wrong("no", score=0.5, feedback="Look again.")

    async def rate(self, statement, texts, seed):
        self.hear("reward model", statement, *texts)
        return Ratings((0.5,) * len(texts))

    async def choose(self, problem, candidates, seed):
        self.hear("selection", problem, *candidates)
        return Choice(candidates[0].id)


def failing_reward(turn, path, problem):
    raise ValueError(f"expected {problem.reference}")


@pytest.mark.parametrize("problem", [SECRETIVE, SECRETIVE_CODE], ids=["math", "code"])
@pytest.mark.parametrize("sees", ["grader", "verifier", "reward-model"])
def test_no_secret_reaches_anything_that_acts_searches_or_chooses(problem, sees):
    ear = Eavesdropper()
    settings = {"verifier": ear, "reward_model": ear, "search_grader": ear, "sees": sees}
    settings |= {"nodes": 4, "wave": 1}
    game = make_game(spec("arithmetic-tree-search", **settings), kind=problem.kind)
    game = replace(
        game,
        grader=Truth(),
        rewards={role_of(agent): failing_reward for agent in game.rules.possible_agents},
        visibility=replace(game.visibility, selection=ear),
    )
    (tree,) = asyncio.run(collect(game, assign_agents(game.rules, ear), [Job(problem)], seed=2))
    assert tree.final is not None and all(SECRET in turn.grade.reason for turn in tree.turns)
    assert all(SECRET in turn.info["reward_fault"] for turn in tree.turns)
    places = {"grader": "grader", "verifier": "verifier", "reward-model": "reward model"}
    assert {what for what, _ in ear.heard} == {"agent", "selection", places[sees]}
    assert not [what for what, plain in ear.heard if SECRET in plain]


class Truth:
    """A grader whose words give the secret away, as a user's may."""

    async def grade(self, problem, text):
        return Grade.wrong(f"it is {SECRET}", feedback=f"It is {SECRET}.")


def evaluated(problems, **settings):
    return mars_env.evaluate(
        "arithmetic-tree-search", agents=Guesser(), problems=problems, nodes=3, **settings
    )


HIDDEN = [{**test, "public": False} for test in CODE[1].reference["tests"]]
BARE = [CODE[0], replace(CODE[1], reference={**CODE[1].reference, "tests": HIDDEN})]


@pytest.mark.parametrize(
    ("problems", "settings"), [(MATHS, {"final": "first"}), (MATHS, {"schedule": "training"}), (BARE, {})]
)
def test_an_evaluation_that_sees_the_truth_or_nothing_is_refused(problems, settings):
    with pytest.raises(ConfigError):
        evaluated(problems, **settings)
    report = evaluated(problems, **{**settings, "oracle": True})
    assert any("ORACLE" in note for note in report.notes) and "ORACLE" in report.markdown()


def test_a_search_that_sees_no_grade_is_no_oracle():
    assert not any("ORACLE" in note for note in evaluated(MATHS, final="vote").notes)


@pytest.mark.parametrize("ended", ["length", "stop"])
async def test_a_verifier_is_told_that_a_solution_was_cut_off(ended):
    verifier = Doubter()
    game = make_game(spec("arithmetic-tree-search", sees="verifier", verifier=verifier))
    state = game.rules.start(MATHS[1])
    action = Action("\\boxed{2}", (Completion("\\boxed{2}", finish_reason=ended),))
    await game.grades(state, action)
    assert verifier.truncated == [int(ended == "length")]
