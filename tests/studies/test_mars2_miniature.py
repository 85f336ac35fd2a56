"""The miniature of MARS2: its language, its grader, its warm start and its experiment."""

import asyncio
import random
from dataclasses import replace

import pytest
from sandboxes import need_a_sandbox
from turns import turn

import mars_env
import studies.mars2.study as study
from mars_env import load_problems
from mars_env.envs.selection import Highest
from mars_env.envs.tree_search import T_PLUS
from mars_env.evaluation.provenance import provenance
from mars_env.grading.code.grader import CodeGrader
from mars_env.types import Action, Completion, Grade, Problem, Tree, Verdict
from studies.common.study import Run
from studies.mars2 import protocol
from studies.mars2.experiment import (
    ARMS,
    CHOICES,
    REWARD_MODEL,
    TrainedTeam,
    choices_left,
    chosen_by,
    diversity,
    evaluate_team,
    evaluation_game,
    held_out,
    right_diversity,
    training_game,
)
from studies.mars2.grader import NibbleGrader
from studies.mars2.protocol import Pair
from studies.mars2.recipe import RECIPE, Mars2Recipe
from studies.mars2.warm_start import WarmStart, coder_tokenizer

TINY = Mars2Recipe(
    warm_start=WarmStart(shape=(32, 64, 1), updates=25, rows=48),
    steps=2,
    problems_per_step=4,
    problems=6,
    tokens=24,
    cuts=(8,),
    diversity_nodes=4,
)


def pairs():
    return load_problems("nibbles", registers=2, level=(1, 3), seed=5, split="test")


def test_a_prompt_is_one_token_a_piece_and_a_program_goes_there_and_back():
    tokenizer, unknown = coder_tokenizer(), 0
    problems = pairs()[:20]
    assert len(problems) == 20
    for problem in problems:
        solution = problem.reference["solutions"][0]
        pair = protocol.read_program(solution)
        assert pair is not None and pair.program == solution
        for mode, old, feedback in (
            ("generate", "", ""),
            ("refine", solution, ""),
            ("refine", solution, "All 12 tests passed."),
            ("refine", "no program", "3 tests passed. The first failure: wrong answer.\nCall: f(9, 1)\n..."),
        ):
            seen = {"problem": problem.statement, "mode": mode, "solution": old, "feedback": feedback}
            ids = tokenizer(protocol.prompt(seen, role=1))["input_ids"]
            tokens = tokenizer.convert_ids_to_tokens(ids)
            assert unknown not in ids and len([t for t in tokens if t in protocol.EXAMPLES]) == 12
            assert tokens[-1] == ("<|generate 1|>" if mode == "generate" else "<|refine 1|>")
            assert ("f(9, 1) fails\n" in tokens) == ("f(9, 1)" in feedback)
        assert tokenizer.decode(tokenizer("".join(pair.lines))["input_ids"]) == "".join(pair.lines)


def test_an_edit_replaces_the_registers_that_it_writes():
    old = Pair(("inc", "cap"), ("xor5",))
    assert protocol.edited(old, "") == old
    assert protocol.edited(old, "v = v | 2\nv = v & 13\n") == Pair(("inc", "cap"), ("or2", "and13"))
    assert protocol.edited(old, "u = u // 2\nv = v | 2\n") == Pair(("half",), ("or2",))
    assert protocol.edited(old, "import os\nu = u // 2\n") == Pair(("half",), ("xor5",))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "def f(x, r):\n    return 7",
        "def f(x, r):\n    u = v = x\n    u = eval('1')\n    return (u, v)[r]\n",
        "import os\ndef f(x, r):\n    u = v = x\n    return (u, v)[r]\n",
        "def f(x, r):\n    u = v = x\n" + "    u = u // 2\n" * 200 + "    return (u, v)[r]\n",
    ],
)
def test_what_is_not_in_the_language_is_wrong_and_never_run(text):
    assert protocol.read_program(text) is None
    grade = asyncio.run(NibbleGrader().grade(pairs()[0], text))
    assert grade.score == 0.0 and grade.feedback


def spoilt(problem, rng):
    """Programs for a problem: right, wrong in either register or both, right on what is shown alone."""
    pair = protocol.read_program(problem.reference["solutions"][0])
    u, v = (tuple(rng.choices(protocol.OPERATIONS, k=2)) for _ in range(2))
    return [pair, Pair(u, pair.v), Pair(pair.u, v), Pair(u, v), Pair((), pair.v)]


@pytest.mark.parametrize("options", [{}, {"tests": "public"}, {"score": "fraction"}])
def test_it_grades_as_the_sandbox_does(options):
    need_a_sandbox()
    reference, fast, rng = CodeGrader(**options), NibbleGrader(**options), random.Random(0)
    seen = set()

    async def both():
        for problem in pairs()[:3]:
            for pair in spoilt(problem, rng):
                wanted = await reference.grade(problem, pair.program)
                found = await fast.grade(problem, pair.program)
                seen.add(wanted.verdict)
                assert (found.verdict, found.score, found.reason, found.feedback) == (
                    wanted.verdict,
                    wanted.score,
                    wanted.reason,
                    wanted.feedback,
                )
        await reference.aclose()

    asyncio.run(both())
    assert seen == {Verdict.CORRECT, Verdict.WRONG}


def test_every_arm_gives_each_model_the_same_nodes_but_the_control_that_has_twice_as_many():
    for arm in (arm for arm in ARMS if arm.trained):
        game = training_game(arm, RECIPE)
        nodes = game.rules.settings.nodes / len(arm.models)
        assert nodes == (16 if arm.name == "homogeneous x2" else 8)
        assert len(game.rules.possible_agents) == (1 if arm.stage == "single" else 2)
        assert game.visibility.sees == "grade" and not game.rules.settings.early_stop
    assert evaluation_game(RECIPE.searched(), 2).visibility.sees == "grader"


class Scripted:
    """Knows the public outputs' program: the reference solution, by the statement."""

    policy = "script"

    def __init__(self):
        self._solutions = {p.statement: p.reference["solutions"][0] for p in held_out(0, TINY)}

    async def act(self, observation, n, seed):
        text = self._solutions[observation["problem"]] if seed % 3 == 0 else Pair(("inc",), ()).program
        return [Action(text, (Completion(text, token_ids=(1,) * 4, completion_tokens=4),)) for _ in range(n)]


RIGHT, WRONG = Grade.correct(), Grade.wrong("no")


def searched(*nodes):
    """A search by best-of-n: text, agent, grade and score of each program."""
    turns = []
    for i, (text, agent, grade, score) in enumerate(nodes):
        found = {"grade": grade, "search_score": score, "info": {"call": i}}
        turns.append(turn(str(i), None, Completion(text), agent=agent, tree="p#0", **found))
    return Tree("p#0", Problem("p", "?", None, "code"), tuple(turns))


def test_diversity_counts_functions_texts_and_agents():
    right = Pair(("xor5",), ("inc",)).program
    same = Pair(("xor10", "xor10", "xor5"), ("inc",)).program
    wrong = Pair(("inc",), ()).program
    programs = [(right, RIGHT), (same, RIGHT), (wrong, WRONG), (wrong, WRONG)]
    two = searched(*((text, f"coder_{i % 2}", grade, 0.0) for i, (text, grade) in enumerate(programs)))
    assert diversity([two], nodes=4) == {
        "pass@1": 0.5, "distinct": 0.5, "distinct_right": 2.0, "different": 0.5, "disagree": 0.5,
    }  # fmt: skip
    found = diversity([searched(*((text, "coder_0", grade, 0.0) for text, grade in programs))], nodes=4)
    assert found["different"] == pytest.approx(4 / 6) and found["disagree"] == pytest.approx(4 / 6)


def test_the_choices_choose_among_what_passes_best():
    long, short = Pair(("xor5", "inc"), ("inc",)), Pair(("inc",), ("inc",))
    scored = (Pair((), ()), 0.5), (long, 1.0), (short, 1.0), (long, 1.0)
    tree = replace(searched(*((pair.program, "coder_0", None, score) for pair, score in scored)), final="1")
    for name, final in (("vote", "1"), ("shortest", "2")):
        (chosen,) = asyncio.run(chosen_by(CHOICES[name], [tree]))
        assert chosen.final == final


def test_t_plus_is_the_preset_that_users_run():
    """What the study sets is said here and on its page; the rest is the preset's."""
    studied = RECIPE.t_plus(REWARD_MODEL)
    own = {"nodes": 384, "tokens": 96, "wave": 2, "score": "fraction", "reward_model": REWARD_MODEL}
    assert studied == T_PLUS.model_copy(update=own)
    users = mars_env.make("nibbles-tree-search", schedule="t-plus", agents=2, **own).game
    game = evaluation_game(studied, 2)
    assert game.rules.possible_agents == users.rules.possible_agents
    assert game.rules.settings.model_copy(update={"search_grader": None}) == users.rules.settings
    assert (
        isinstance(game.visibility.selection, Highest)
        and game.visibility.selection == users.visibility.selection
    )
    assert users.visibility.sees == "public"  # which `NibbleGrader` judges as the sandbox does


def test_the_study_runs_t_plus_with_its_own_final_choice():
    agents = {"coder_0": Scripted(), "coder_1": Scripted()}
    found = asyncio.run(evaluate_team(TrainedTeam(agents), 0, TINY))
    for name in ("t-plus", "depth", "preset", "search", "no-feedback"):
        assert found[f"{name}_nodes"] > 1 and found[f"{name}_tokens"] >= TINY.tokens
    assert found["t-plus_nodes"] == found["depth_nodes"]  # the same searches, another final choice
    assert found["t-plus_solved"] == found["t-plus stopped_solved"] > 0
    assert found["t-plus_one candidate"] <= found["t-plus stopped_one candidate"]


def test_a_search_that_stops_early_leaves_fewer_candidates():
    one, other = Pair(("inc",), ("inc",)), Pair(("inc", "xor5", "xor5"), ("inc",))

    def tree(*passing):
        return searched(*((pair.program, "coder_0", None, score) for pair, score in passing))

    trees = [
        tree((one, 0.5), (one, 1.0), (other, 0.5), (other, 1.0)),  # a second one in the next wave of 2
        tree((one, 1.0), (other, 1.0)),  # two in one wave
        tree((one, 1.0), (one, 1.0), (one, 1.0)),  # the same again and again
        tree((one, 0.5), (other, 0.75)),  # none
    ]
    assert choices_left(trees) == {"solved": 0.75, "one candidate": pytest.approx(1 / 3)}
    assert choices_left(trees, wave=2) == {"solved": 0.75, "one candidate": pytest.approx(2 / 3)}
    assert choices_left(trees[3:]) == {"solved": 0.0}


def fresh_programs(*programs):
    """Of programs of which is known whether they are right."""
    return searched(*((text, agent, RIGHT if right else WRONG, 0.0) for text, agent, right in programs))


def test_diversity_of_right_programs_counts_no_wrong_ones():
    a, b = "coder_0", "coder_1"
    varied = fresh_programs(("w1", a, False), ("w2", b, False), ("r", a, True), ("w3", b, False))
    assert right_diversity([varied], 4) == {"solved": 1.0, "right_pairs": 0.0, "distinct_share": 1.0}
    several = fresh_programs(("r", a, True), ("r", b, True), ("s", b, True), ("w", a, False))
    assert right_diversity([several], 4) == {
        "solved": 1.0,
        "right_pairs": 1.0,
        "distinct_share": pytest.approx(2 / 3),
        "different_right": 0.5,  # of coder_0's with coder_1's: r, r and r, s
    }
    alone = fresh_programs(("r", a, True), ("r", a, True), ("s", a, True), ("w", a, False))
    assert right_diversity([alone], 4)["different_right"] == pytest.approx(2 / 3)
    hopeless = fresh_programs(("w1", a, False), ("w2", b, False))
    assert right_diversity([hopeless], 4) == {"solved": 0.0, "right_pairs": 0.0}
    both = right_diversity([several, hopeless], 4)
    assert both["solved"] == both["right_pairs"] == 0.5 and both["different_right"] == 0.5
    assert right_diversity([several], 2)["different_right"] == 0.0  # of the first two programs alone


def test_a_small_seed_of_the_study_from_warm_start_to_page(tmp_path):
    origin = provenance()
    run = Run(0, TINY, tmp_path)
    rows = [row for arm in ARMS for row in study.STUDY.made([arm.name], run, origin, None)]
    by_name = {row.arm: row for row in rows}
    sampled = {name: row.figures["sampled"] for name, row in by_name.items()}
    assert sampled["single"] == sampled["homogeneous"] == 2 * 4 * 8
    assert sampled["heterogeneous"] == sampled["equal pair"] == sampled["homogeneous x2"] == 2 * 4 * 16
    assert sampled["untrained"] == 0 and by_name["untrained"].detail["trained"] == {}
    for row in rows:
        assert all(row.figures[f"{name}_tokens"] >= TINY.tokens for name in ("best-of-n", "search"))
        assert row.figures["best-of-n_depth"] == 1.0 and row.figures["refinement_depth"] > 2
        assert row.figures["search_pass@1 at 8"] <= row.figures["search_pass@n"]
        assert (row.commit, row.versions) == (origin.commit, origin.versions)
        assert row.figures["search_pass@1"] <= row.figures["search_pass@n"]
    more = [row.model_copy(update={"seed": 1}) for row in rows]
    page = study.STUDY.page([*rows, *more])
    assert "heterogeneous above homogeneous" in page and "| homogeneous x2 | 0, 1 |" in page
