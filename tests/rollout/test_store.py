import asyncio
import json
import math
import os
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from full_disk import full_disk
from hypothesis import given, settings
from hypothesis import strategies as st
from sums_team import game, script, sums

from mars_env import make
from mars_env.agents import make_agents
from mars_env.envs import GroupedSettings, grouped
from mars_env.errors import StoreError
from mars_env.models import ScriptedModel
from mars_env.rollout import Job, Store, play, read_run, row_files
from mars_env.rollout.engine import at_most
from mars_env.rollout.records import turn_from_row, turn_to_row
from mars_env.types import Action, Completion, Grade, Problem, Tree, Turn

PROBLEMS = sums(4)
TREE = "sum/0#0"
CONFIG = {"seed": 1}
GROUPED = replace(game(), grower=grouped(GroupedSettings(group=3)))


def turn(id="0", text="4", **fields):
    """A turn by hand."""
    above = id.rpartition(".")[0] or None
    return Turn(TREE, id, above, "g", "solver_0", "", PROBLEMS[0].id, Action(text), **fields)


def tree(*turns, final="0", **fields):
    return Tree(TREE, PROBLEMS[0], turns, final, **fields)


@pytest.mark.parametrize("sync", ["0", "1"])
def test_a_tree_is_on_the_disk_after_its_turns_if_so_set(tmp_path, monkeypatch, sync):
    synced = []
    monkeypatch.setenv("MARS_ENV_SYNC", sync)
    monkeypatch.setattr(
        os, "fsync", lambda file: synced.append(Path(f"/proc/self/fd/{file}").readlink().name)
    )
    with Store(tmp_path, CONFIG, PROBLEMS[:1]) as store:
        store.write_problems([PROBLEMS[1]])
        problems = synced.pop()
        synced.clear()
        store.write_turns([turn()])
        store.write_tree(tree(turn()), {})
    assert problems == "problems.jsonl"
    assert synced == ["turns.jsonl", "trees.jsonl"] * (sync == "1")


def test_a_directory_that_is_no_run_is_refused(tmp_path):
    (tmp_path / "turns.jsonl").write_text("{}\n")
    with pytest.raises(StoreError):
        Store(tmp_path, CONFIG, PROBLEMS)
    with pytest.raises(StoreError):
        read_run(tmp_path / "nowhere")


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
    action = Action(text, (completion,))
    made = replace(turn("0.1"), action=action, grade=verdict, reward=reward)
    assert turn_from_row(json.loads(json.dumps(turn_to_row(made)))) == made
    path = tmp_path_factory.mktemp("run")
    with Store(path, CONFIG, []) as store:
        store.write_turns([made])
        assert store.turns_of(TREE) == {"0.1": made}
    with Store(path, CONFIG, []) as store:
        assert store.turns_of(TREE) == {"0.1": made}


def test_only_references_hold_what_json_has_not(tmp_path):
    infinite = Problem("p9", "Largest?", {"accept": [math.inf, -math.inf]})
    with Store(tmp_path, CONFIG, [*PROBLEMS[:1], infinite]) as store:
        with pytest.raises(StoreError):
            store.write_turns([turn(info={"x": math.nan})])
        store.write_turns([turn()])
        store.write_tree(tree(turn()), {})
    with pytest.raises(StoreError):  # closed
        store.write_turns([turn()])
    assert [tree.turns[0].info for tree in read_run(tmp_path).trees] == [{}]
    assert read_run(tmp_path).problems["p9"] == infinite
    for line in (tmp_path / "problems.jsonl").read_text().splitlines():
        json.loads(line, parse_constant=pytest.fail)


def test_problems_that_become_known_later_are_kept_and_a_torn_line_is_cut_off(tmp_path):
    with Store(tmp_path, CONFIG, PROBLEMS[:1]) as store:
        store.write_problems([PROBLEMS[1]])
    with (tmp_path / "problems.jsonl").open("a") as file:
        file.write('{"id": "half')
    assert [*read_run(tmp_path).problems.values()] == PROBLEMS[:2]
    with Store(tmp_path, CONFIG, PROBLEMS[:1]) as store:
        store.write_problems([PROBLEMS[2]])
    assert [*read_run(tmp_path).problems.values()] == PROBLEMS[:3]


class Fails(ScriptedModel):
    """Fails once, at a call of this number or a later one; answers in an order of its own by chance."""

    def __init__(self, at, chance):
        super().__init__(script, ids=True)
        self.at, self.calls, self.chance = at, 0, random.Random(chance)

    async def complete(self, prompt, n, sampling):
        for _ in range(self.chance.randrange(5)):
            await asyncio.sleep(0)
        if 0 < self.at <= self.calls + 1:  # others may have called meanwhile
            self.at = 0
            raise RuntimeError("gone")
        self.calls += 1
        return await super().complete(prompt, n, sampling)


SETTINGS = {"agents": 2, "nodes": 12, "as_completed": True, "oracle": True, "early_stop": False}
SEARCH = make("arithmetic-tree-search", problems=PROBLEMS[:1], **SETTINGS).game


@pytest.mark.parametrize("game", [GROUPED, SEARCH], ids=["grouped", "as completed"])
@pytest.mark.parametrize("chance", range(3))
async def test_a_resumed_tree_that_takes_other_branches_is_read_as_it_was_played(tmp_path, game, chance):
    async def played(model):
        agents = make_agents(model, game.rules.possible_agents)
        with Store(tmp_path, CONFIG, PROBLEMS[:1]) as store:
            assert not store.finished  # a tree with a fault is taken up again
            return await play(game, agents, Job(PROBLEMS[0]), seed=chance, journal=store, gate=at_most(4))

    failures = (5, 1) if game is SEARCH else (2, 1)
    faulty = [await played(Fails(at, chance + at)) for at in failures]
    assert all(tree.fault for tree in faulty)
    tree = await played(Fails(0, chance))
    assert not tree.fault and read_run(tmp_path).trees == (tree,)
    if game is SEARCH:
        assert sorted(turn.info["call"] for turn in tree.turns) == list(range(12))
    else:
        assert len(tree.turns) <= 3 + 4 * 2 * 3


def test_a_run_can_be_read_while_new_problems_and_their_trees_are_written(tmp_path, monkeypatch):
    rows, news = row_files.rows_of, [Tree("sum/1#0", PROBLEMS[1], ())]

    def rows_and_then_news(path):
        yield from rows(path)
        if path.name == "problems.jsonl" and news:
            tree = news.pop()
            store.write_problems([tree.problem])
            store.write_tree(tree, {})

    with Store(tmp_path, CONFIG, PROBLEMS[:1]) as store:
        monkeypatch.setattr(row_files, "rows_of", rows_and_then_news)
        assert read_run(tmp_path).trees == ()
        assert [tree.id for tree in read_run(tmp_path).trees] == ["sum/1#0"]


async def test_a_turn_that_was_played_again_replaces_what_grew_from_the_earlier_one(tmp_path):
    with Store(tmp_path, CONFIG, PROBLEMS) as store:
        for each in (turn("0", "a"), turn("0.0", "b"), turn("1", "c"), turn("0", "d")):
            store.write_turns([each])
    with Store(tmp_path, CONFIG, PROBLEMS) as store:
        assert {t.id: t.text for t in store.turns_of(TREE).values()} == {"0": "d", "1": "c"}
        store.write_tree(tree(), {})
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
        with pytest.raises(StoreError):
            Store(tmp_path, {}, [])
        first.kill()
        first.wait()
    with Store(tmp_path, {}, []) as store:
        assert not store.finished
        with pytest.raises(StoreError):
            Store(tmp_path / "." / "../" / tmp_path.name, {}, [])  # in this process
    Store(tmp_path, {}, []).close()


def test_a_write_that_fails_leaves_the_files_as_they_were(tmp_path):
    """A server goes on with the same store."""
    with Store(tmp_path, CONFIG, PROBLEMS[:1]) as store:
        with full_disk(1000), pytest.raises(StoreError):
            store.write_turns([turn(text="x" * 5000)])
        assert (tmp_path / "turns.jsonl").read_bytes() == b""
        store.write_turns([turn()])
        store.write_tree(tree(turn()), {})
    assert [t.text for t in read_run(tmp_path).trees[0].turns] == ["4"]
