import asyncio
import json
import math
import os
import random
import resource
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from messages import raises

from mars_env import make
from mars_env.envs import Game, GroupedSettings, SolveVerifyCorrect, grouped, team_outcome
from mars_env.envs.solve_verify_correct import TRAINING
from mars_env.errors import StoreError
from mars_env.players import assign_agents
from mars_env.rollout import Job, Store, collect, play, play_all, read_run, row_files
from mars_env.rollout.engine import at_most
from mars_env.rollout.records import turn_from_row, turn_to_row
from mars_env.types import Action, Completion, Grade, Problem, Tree, Turn

PROBLEMS = [Problem(f"p{i}", f"What is {i} + {i}?", str(2 * i), metadata={"level": i}) for i in range(4)]
CONFIG = {"seed": 1, "rules": "solve-verify-correct"}


class ExactGrader:
    async def grade(self, problem, text):
        return Grade.correct() if text == problem.reference else Grade.wrong("another number")


class Killed(BaseException):
    """Ends the process of a run, as a signal does."""


class Guesser:
    policy = "guesser"

    def __init__(self, lives=10**9):
        self.lives = lives
        self.acts = 0

    async def act(self, observation, n, seed):
        await asyncio.sleep(0)
        self.acts += 1
        if self.acts > self.lives:
            raise Killed
        rng = random.Random(seed)
        actions = []
        for _ in range(n):
            text = rng.choice(["0", "2", "4", "6"])
            if "solution" in observation and "report" not in observation:
                text = f"{text}\nCorrectness: {rng.choice(['Correct', 'Wrong'])}"
            ids = tuple(rng.randrange(100) for _ in range(3))
            completion = Completion(
                text, "stop", (1, 2), ids, (-0.1, rng.random(), -3.0), 0.7, ((4, 2), (5, 1)), 2, 3
            )
            actions.append(Action(text, (completion,)))
        return actions


GAME = Game(
    SolveVerifyCorrect(TRAINING),
    ExactGrader(),
    team_reward=team_outcome,
    grower=grouped(GroupedSettings(group=3)),
)
JOBS = [Job(problem, sample) for sample in range(2) for problem in PROBLEMS]


def timeless(trees):
    return [replace(tree, turns=tuple(replace(turn, seconds=0.0) for turn in tree.turns)) for tree in trees]


async def run(path, agent):
    with Store(path, CONFIG, PROBLEMS) as store:
        owed = [job for job in JOBS if job.tree_id not in store.finished]
        async for _ in play_all(
            GAME, assign_agents(GAME.rules, agent), owed, seed=1, concurrency=3, journal=store
        ):
            pass


async def expected():
    trees = timeless(await collect(GAME, assign_agents(GAME.rules, Guesser()), JOBS, seed=1))
    return sorted(trees, key=lambda tree: (tree.problem.id, tree.id))


async def test_what_is_written_is_read_back_exactly(tmp_path):
    await run(tmp_path / "run", Guesser())
    stored = read_run(tmp_path / "run")
    assert timeless(stored.trees) == await expected()
    assert stored.manifest["config"] == CONFIG
    assert stored.manifest["versions"]["mars-env"]
    again = Guesser()
    await run(tmp_path / "run", again)
    assert again.acts == 0


@pytest.mark.parametrize("lives", [1, 2, 7, 20, 50])
async def test_an_interrupted_run_resumes_without_losing_or_repeating_a_turn(tmp_path, lives):
    with pytest.raises(Killed):
        await run(tmp_path / "run", Guesser(lives))
    before = (tmp_path / "run" / "turns.jsonl").read_text()
    await run(tmp_path / "run", Guesser())
    after = (tmp_path / "run" / "turns.jsonl").read_text()
    assert after.startswith(before)
    ids = [(row["tree"], row["id"]) for row in map(json.loads, after.splitlines())]
    assert len(set(ids)) == len(ids)
    assert timeless(read_run(tmp_path / "run").trees) == await expected()


@pytest.mark.parametrize("cut", [1, 40, 1000])
async def test_a_torn_last_line_is_played_again(tmp_path, cut):
    await run(tmp_path / "run", Guesser())
    for name in ("turns.jsonl", "trees.jsonl"):
        path = tmp_path / "run" / name
        path.write_bytes(path.read_bytes()[:-cut])
    await run(tmp_path / "run", Guesser())
    assert timeless(read_run(tmp_path / "run").trees) == await expected()


@pytest.mark.parametrize("kept", [0.3, 0.9, 0.999])
@pytest.mark.parametrize("zeros", [0, 4096])
async def test_turns_lost_by_a_power_failure_are_noticed_and_played_again(tmp_path, kept, zeros):
    run_path, turns = tmp_path / "run", tmp_path / "run" / "turns.jsonl"
    await run(run_path, Guesser())
    lines = turns.read_bytes().splitlines(keepends=True)
    turns.write_bytes(b"".join(lines[: int(kept * len(lines))]) + bytes(zeros))
    with raises(StoreError):
        read_run(run_path)
    await run(run_path, Guesser())
    assert timeless(read_run(run_path).trees) == await expected()


@pytest.mark.parametrize(
    "change",
    [
        lambda lines: [*lines, lines[-1]],
        lambda lines: [lines[0].replace(b'"reward":', b'"reward": '), *lines[1:]],
        lambda lines: [line.replace(b'"problem":"p1"', b'"problem":"p2"') for line in lines],
    ],
    ids=["twice", "changed", "of another problem"],
)
async def test_turns_that_are_not_those_of_a_finished_tree_are_refused(tmp_path, change):
    await run(tmp_path / "run", Guesser())
    turns = tmp_path / "run" / "turns.jsonl"
    turns.write_bytes(b"".join(change(turns.read_bytes().splitlines(keepends=True))))
    with raises(StoreError):
        read_run(tmp_path / "run")
    with raises(StoreError):
        Store(tmp_path / "run", CONFIG, PROBLEMS)


@pytest.mark.parametrize("sync", ["0", "1"])
def test_a_tree_is_on_the_disk_after_its_turns_if_so_set(tmp_path, monkeypatch, sync):
    synced = []
    monkeypatch.setenv("MARS_ENV_SYNC", sync)
    monkeypatch.setattr(
        os, "fsync", lambda file: synced.append(Path(f"/proc/self/fd/{file}").readlink().name)
    )
    turn = Turn("p0#0", "0", None, "g", "solver_0", "", "p0", Action("4"))
    with Store(tmp_path, CONFIG, PROBLEMS[:1]) as store:
        store.write_problem(PROBLEMS[1])
        problems = synced.pop()
        synced.clear()
        store.write_turns([turn])
        store.write_tree(Tree("p0#0", PROBLEMS[0], (turn,), "0"), {})
    assert problems == "problems.jsonl"
    assert synced == ["turns.jsonl", "trees.jsonl"] * (sync == "1")


def test_an_answer_is_no_turn_that_judges(tmp_path):
    turn = Turn("p0#0", "0", None, "g", "solver_0", "", "p0", Action("4"), info={"verdict": "Correct"})
    with Store(tmp_path, CONFIG, PROBLEMS[:1]) as store:
        store.write_turns([turn])
        store.write_tree(Tree("p0#0", PROBLEMS[0], (turn,), "0"), {})
    with raises(StoreError):
        read_run(tmp_path)


async def test_a_tree_with_a_fault_is_taken_up_again(tmp_path):
    class Faulty(Guesser):
        async def act(self, observation, n, seed):
            if "report" in observation:
                raise RuntimeError("gone")
            return await super().act(observation, n, seed)

    await run(tmp_path / "run", Faulty())
    assert any(tree.fault for tree in read_run(tmp_path / "run").trees)
    await run(tmp_path / "run", Guesser())
    assert timeless(read_run(tmp_path / "run").trees) == await expected()


async def test_another_configuration_is_refused_with_the_difference(tmp_path):
    await run(tmp_path / "run", Guesser())
    with raises(StoreError):
        Store(tmp_path / "run", {**CONFIG, "seed": 2}, PROBLEMS)


def test_a_directory_that_is_no_run_is_refused(tmp_path):
    (tmp_path / "turns.jsonl").write_text("{}\n")
    with raises(StoreError):
        Store(tmp_path, CONFIG, PROBLEMS)
    with raises(StoreError):
        read_run(tmp_path / "nowhere")


async def test_a_broken_row_in_the_middle_is_named(tmp_path):
    await run(tmp_path / "run", Guesser())
    path = tmp_path / "run" / "turns.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([lines[0], "{broken\n", *lines[1:]]))
    with raises(StoreError):
        read_run(tmp_path / "run")


texts = st.text(st.characters(), max_size=20)  # surrogates included: a model may emit anything
numbers = st.integers(0, 2**40)


@settings(max_examples=50)
@given(
    text=texts,
    ids=st.lists(numbers, max_size=4),
    logprobs=st.lists(st.floats(-50, 0), max_size=4),
    reward=st.none() | st.floats(-1, 1),
    verdict=st.sampled_from([None, Grade.correct(seconds=0.5), Grade.wrong("é"), Grade.unknown("lost")]),
)
def test_any_turn_survives_the_store(tmp_path_factory, text, ids, logprobs, reward, verdict):
    completion = Completion(text, "length", tuple(ids), tuple(ids), tuple(logprobs))
    turn = Turn(
        "t#0", "0.1", "0", "g", "solver_0", "x", "t", Action(text, (completion,)), verdict, None, reward
    )
    assert turn_from_row(json.loads(json.dumps(turn_to_row(turn)))) == turn
    path = tmp_path_factory.mktemp("run")
    with Store(path, CONFIG, []) as store:
        store.write_turns([turn])
    with Store(path, CONFIG, []) as store:
        assert store.turns_of("t#0") == {"0.1": turn}


def test_only_references_hold_what_json_has_not(tmp_path):
    infinite = Problem("p9", "Largest?", math.inf)
    turn = Turn("p0#0", "0", None, "g", "solver_0", "", "p0", Action("4"), info={"x": math.nan})
    with Store(tmp_path, CONFIG, [*PROBLEMS[:1], infinite]) as store:
        with pytest.raises(StoreError):
            store.write_turns([turn])
        store.write_turns([replace(turn, info={})])
        store.write_tree(Tree("p0#0", PROBLEMS[0], (turn,), "0"), {})
    with pytest.raises(StoreError):  # closed
        store.write_turns([replace(turn, info={})])
    assert [tree.turns[0].info for tree in read_run(tmp_path).trees] == [{}]
    assert read_run(tmp_path).problems["p9"] == infinite


def test_problems_that_become_known_later_are_kept_and_a_torn_line_is_cut_off(tmp_path):
    with Store(tmp_path, CONFIG, PROBLEMS[:1]) as store:
        store.write_problem(PROBLEMS[1])
    with (tmp_path / "problems.jsonl").open("a") as file:
        file.write('{"id": "half')
    assert [*read_run(tmp_path).problems.values()] == PROBLEMS[:2]
    with Store(tmp_path, CONFIG, PROBLEMS[:1]) as store:
        store.write_problem(PROBLEMS[2])
    assert [*read_run(tmp_path).problems.values()] == PROBLEMS[:3]


class Fails(Guesser):
    """Raises in its last life; acts in an order of its own by chance."""

    def __init__(self, fails_at, chance):
        super().__init__()
        self.fails_at, self.chance = fails_at, random.Random(chance)

    async def act(self, observation, n, seed):
        for _ in range(self.chance.randrange(5)):
            await asyncio.sleep(0)
        if 0 < self.fails_at <= self.acts + 1:  # others may have acted meanwhile
            self.fails_at = 0
            raise RuntimeError("gone")
        return await super().act(observation, n, seed)


SETTINGS = {"agents": 2, "nodes": 12, "as_completed": True, "oracle": True, "early_stop": False}
SEARCH = make("arithmetic-tree-search", problems=PROBLEMS[:1], **SETTINGS).game


@pytest.mark.parametrize("game", [replace(GAME, team_reward=None), SEARCH], ids=["grouped", "as completed"])
@pytest.mark.parametrize("chance", range(6))
async def test_a_resumed_tree_that_takes_other_branches_is_read_as_it_was_played(tmp_path, game, chance):
    async def played(agent):
        with Store(tmp_path, CONFIG, PROBLEMS[:1]) as store:
            return await play(
                game, assign_agents(game.rules, agent), JOBS[0], seed=chance, journal=store, gate=at_most(4)
            )

    faulty = [
        await played(Fails(fails_at, chance + fails_at)) for fails_at in (5 if game is SEARCH else 2, 1)
    ]
    assert all(tree.fault for tree in faulty)
    tree = await played(Fails(0, chance))
    assert not tree.fault and read_run(tmp_path).trees == (tree,)
    if game is SEARCH:
        assert sorted(turn.info["call"] for turn in tree.turns) == list(range(12))
    else:
        assert len(tree.turns) <= 3 + 4 * 2 * 3


def test_a_tree_that_grows_on_from_a_turn_left_out_before_can_be_read_meanwhile(tmp_path):
    def turn(id):
        return Turn("p0#0", id, id.rpartition(".")[0] or None, "g", "solver_0", "", "p0", Action("4"))

    with Store(tmp_path, CONFIG, PROBLEMS) as store:
        store.write_turns([*map(turn, ("0", "1", "1.0", "2"))])
        left_out = {"left_out": ["1", "1.0", "2"]}
        store.write_tree(Tree("p0#0", PROBLEMS[0], (), None, "lost", left_out), {})
    with Store(tmp_path, CONFIG, PROBLEMS) as store:
        assert {*store.turns_of("p0#0")} == {"0", "1", "1.0", "2"}
        assert [t.id for t in read_run(tmp_path).trees[0].turns] == ["0"]
        store.write_turns([turn("1.0.0")])
        assert [t.id for t in read_run(tmp_path).trees[0].turns] == ["0", "1", "1.0", "1.0.0"]


def test_a_run_can_be_read_while_new_problems_and_their_trees_are_written(tmp_path, monkeypatch):
    rows, news = row_files.rows_of, [Tree("p1#0", PROBLEMS[1], ())]

    def rows_and_then_news(path):
        yield from rows(path)
        if path.name == "problems.jsonl" and news:
            tree = news.pop()
            store.write_problem(tree.problem)
            store.write_tree(tree, {})

    with Store(tmp_path, CONFIG, PROBLEMS[:1]) as store:
        monkeypatch.setattr(row_files, "rows_of", rows_and_then_news)
        assert read_run(tmp_path).trees == ()
        assert [tree.id for tree in read_run(tmp_path).trees] == ["p1#0"]


async def test_a_turn_that_was_played_again_replaces_what_grew_from_the_earlier_one(tmp_path):
    def turn(id, text):
        return Turn("p0#0", id, id.rpartition(".")[0] or None, "g", "solver_0", "", "p0", Action(text))

    with Store(tmp_path, CONFIG, PROBLEMS) as store:
        for each in (turn("0", "a"), turn("0.0", "b"), turn("1", "c"), turn("0", "d")):
            store.write_turns([each])
    with Store(tmp_path, CONFIG, PROBLEMS) as store:
        assert {t.id: t.text for t in store.turns_of("p0#0").values()} == {"0": "d", "1": "c"}
        store.write_tree(Tree("p0#0", PROBLEMS[0], (), "0"), {})
    assert [t.text for t in read_run(tmp_path).trees[0].turns] == ["d", "c"]


WRITER = """
import sys
from mars_env.rollout import Store
with Store(sys.argv[1], {}, []):
    print("open", flush=True)
    sys.stdin.read()
"""


def test_a_second_writer_of_a_run_is_refused_until_the_first_has_ended(tmp_path):
    writer = [sys.executable, "-c", WRITER, str(tmp_path)]
    with subprocess.Popen(writer, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as first:
        assert first.stdout.readline() == b"open\n"
        with raises(StoreError):
            Store(tmp_path, {}, [])
        first.kill()
        first.wait()
    with Store(tmp_path, {}, []) as store:
        assert not store.finished
        with raises(StoreError):
            Store(tmp_path / "." / "../" / tmp_path.name, {}, [])  # in this process
    Store(tmp_path, {}, []).close()


def test_a_write_that_fails_leaves_the_files_as_they_were(tmp_path):
    """A limit on the size of files takes the place of a full disk; a server goes on with the same store."""

    def turn(text):
        return Turn("p0#0", "0", None, "g", "solver_0", "", "p0", Action(text))

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with Store(tmp_path, CONFIG, PROBLEMS[:1]) as store:
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
            with pytest.raises(StoreError):
                store.write_turns([turn("x" * 5000)])
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert (tmp_path / "turns.jsonl").read_bytes() == b""
        store.write_turns([turn("4")])
        store.write_tree(Tree("p0#0", PROBLEMS[0], (turn("4"),), "0"), {})
    assert [t.text for t in read_run(tmp_path).trees[0].turns] == ["4"]
