"""A stored run is data: whatever its files hold, one sentence, no link followed, nothing imported."""

import copy
import json
import os
import sys
import zlib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rows import read_rows
from small_runs import ABOUT
from sums_team import sums

from mars_env.agents import make_agents
from mars_env.cli.stored import stored_game
from mars_env.envs import Game, self_refine
from mars_env.errors import ConfigError, MarsError, StoreError
from mars_env.evaluation import build_report
from mars_env.grading import grader_for
from mars_env.models import ScriptedModel
from mars_env.rollout import Job, Store, play_all, read_run
from mars_env.rollout.store import finished_trees
from mars_env.viewer import render_page, write_page

PROBLEMS = sums(2)
CONFIG = {"title": "arithmetic-self-refine", "settings": {}}
FILES = ("turns", "trees", "problems")
NO_COUNTS = [None, "x", 1.5, -1, 10**30, float("nan"), [1]]
TOO_LARGE = {"token_ids": [1], "logprobs": [-(10**400)]}


@pytest.fixture
async def run(tmp_path):
    game = Game(self_refine(revisions=1), grader_for("math"))
    agents = make_agents(ScriptedModel([r"\boxed{4}"]), game.rules.possible_agents)
    with Store(tmp_path / "run", CONFIG, PROBLEMS) as store:
        async for _ in play_all(game, agents, map(Job, PROBLEMS), seed=0, journal=store):
            pass
    return tmp_path / "run"


def write_rows(run, name, rows):
    """Write a file of a run; the rows of its trees state what then stands in the file of the turns."""
    (run / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    if name == "turns":
        trees = read_rows(run / "trees.jsonl")
        write_rows(run, "trees", [{**row, **stated(run, row["tree"])} for row in trees])


def change_manifest(run, **changes):
    file = run / "manifest.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


def stated(run, tree):
    lines = (run / "turns.jsonl").read_bytes().splitlines(keepends=True)
    lines = [line for line in lines if isinstance(row := json.loads(line), dict) and row.get("tree") == tree]
    return {"turns": len(lines), "checksum": zlib.crc32(b"".join(lines))}


@pytest.mark.parametrize(
    "change",
    [
        lambda row: {**row, "parent": row["id"]},
        lambda row: {**row, "parent": "9"},
        lambda row: {**row, "reward": "1.0"},
        lambda row: {**row, "reward": float("nan")},
        lambda row: {**row, "info": [1]},
        lambda row: {**row, "info": json.loads('{"a":' * 200 + "1" + "}" * 200)},
        lambda row: {**row, "completions": [{**row["completions"][0], "completion_tokens": "9"}]},
        lambda row: {**row, "grade": {**row["grade"], "score": "x"}},
        lambda row: {**row, "grade": {**row["grade"], "verdict": "X"}},
        lambda row: {**row, "grade": {**row["grade"], "evil": 1}},
        lambda row: {**row, "completions": [{**row["completions"][0], "evil": 1}]},
        lambda row: {**row, "completions": [{**row["completions"][0], **TOO_LARGE}]},
        *(lambda row, field=f: {k: v for k, v in row.items() if k != field} for f in ("seconds", "reward")),
        *(lambda row, n=n: {**row, "info": {"search_tokens": n}} for n in NO_COUNTS),
    ],
)
async def test_rows_that_are_no_turn(run, change):
    turns = read_rows(run / "turns.jsonl")
    write_rows(run, "turns", [change(turns[0]), *turns[1:]])
    with pytest.raises(StoreError):
        read_run(run)


@pytest.mark.parametrize(
    "text",
    [
        *("", "[1]", "{", "null", '{"format": 3, "must_match": []}', "[" * 5000),
        '{"must_match": ' + '{"a":' * 90 + "1" + "}" * 91,
        *({"format": 0}, {"format": None}, {"format": "1", "versions": []}),
    ],
)
async def test_a_manifest_that_is_none_is_refused(run, text):
    if isinstance(text, dict):
        change_manifest(run, **text)
    else:
        (run / "manifest.json").write_text(text)
    for reads in (lambda: read_run(run), lambda: Store(run, CONFIG, PROBLEMS)):
        with pytest.raises(StoreError):
            reads()


async def test_trees_of_problems_and_turns_that_are_not_stored_are_refused(run):
    trees = read_rows(run / "trees.jsonl")
    infos = [{"left_out": "0"}, *({"choice_tokens": number} for number in NO_COUNTS)]
    rows = [{"problem": "other"}, {"problem": "sum/1"}, {"tree": "sum/0#x"}, {"tree": "sum/0"}]
    rows += [{"final": "9.9"}]
    rows += [{"turns": None}, {"turns": 1.0}, {"checksum": -1}, {"checksum": 0}, {"turns": 1}, {"turns": 3}]
    for wrong in rows + [{"info": info} for info in infos]:
        write_rows(run, "trees", [{**trees[0], **wrong}, *trees[1:]])
        with pytest.raises(StoreError):
            read_run(run)
    write_rows(run, "trees", trees)
    lines = (run / "turns.jsonl").read_bytes().splitlines(keepends=True)
    for wrong in ([*lines, lines[-1]], [lines[0].replace(b'"reward":', b'"reward": '), *lines[1:]]):
        (run / "turns.jsonl").write_bytes(b"".join(wrong))
        for reads in (lambda: read_run(run), lambda: Store(run, CONFIG, PROBLEMS)):
            with pytest.raises(StoreError):
                reads()


@pytest.mark.parametrize("file", ["manifest.json", "problems.jsonl", "turns.jsonl", "trees.jsonl"])
@pytest.mark.parametrize("target", ["victim", "/dev/zero", "pipe"])
async def test_no_link_pipe_or_device_in_a_run_is_opened(run, tmp_path, file, target):
    victim = tmp_path / "victim"
    victim.write_text("precious, and no end of a line")
    (run / file).unlink()
    if target == "pipe":
        os.mkfifo(run / file)
    else:
        (run / file).symlink_to(victim if target == "victim" else target)
    with pytest.raises(StoreError):
        read_run(run)
    if file != "problems.jsonl":  # it is not read by a run that is resumed
        with pytest.raises(StoreError):
            Store(run, CONFIG, PROBLEMS)
    assert victim.read_text() == "precious, and no end of a line"


async def test_a_page_replaces_a_link_and_leaves_its_target(run, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (run / "report.html").symlink_to(victim)
    write_page(run / "report.html", read_run(run).trees, title="t")
    assert victim.read_text() == "precious"
    assert not (run / "report.html").is_symlink() and "<html" in (run / "report.html").read_text()


async def test_no_module_is_imported_because_a_run_names_it(run, tmp_path, monkeypatch):
    (tmp_path / "evil_module.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    change_manifest(run, must_match={"title": "evil_module:arithmetic-self-refine"})
    with pytest.raises(ConfigError):
        stored_game(read_run(run), None, {})
    assert "evil_module" not in sys.modules
    assert stored_game(read_run(run), "arithmetic-self-refine", {}).rules.possible_agents


@pytest.mark.parametrize("settings", [[], "x", {"rounds": "[[[[["}, {"revisions": {"a": []}}, {1: 2}, None])
async def test_settings_of_a_manifest_are_data(run, settings):
    change_manifest(run, may_change={"settings": settings})
    try:
        assert stored_game(read_run(run), None, {}).rules
    except MarsError as error:
        assert "\n" not in str(error)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def places(value, path=()):
    """Where a value can be changed: the keys on the way to each part of it."""
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inner:
        yield from places(part, (*path, key))


def changed(value, path, new):
    """The value with one part of it replaced."""
    if not path:
        return new
    copied = copy.copy(value)
    copied[path[0]] = changed(value[path[0]], path[1:], new)
    return copied


def read_or_refused(run):
    """What a reader, a page and a resumed run make of it: trees, or one sentence."""
    try:
        trees = read_run(run).trees
        finished_trees(run)
        render_page(trees, title="t")
        build_report(trees, ABOUT).json_text()
    except MarsError as error:
        assert "\n" not in str(error) and len(str(error)) < 1000


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data(), name=st.sampled_from(FILES))
def test_any_part_of_a_row_may_be_anything(run, data, name):
    rows = read_rows(run / f"{name}.jsonl")
    number = data.draw(st.integers(0, len(rows) - 1))
    path = data.draw(st.sampled_from(list(places(rows[number]))))
    before = {file: file.read_bytes() for file in run.glob("*.jsonl")}
    write_rows(run, name, [*rows[:number], changed(rows[number], path, data.draw(JSON)), *rows[number + 1 :]])
    try:
        read_or_refused(run)
    finally:
        for file, content in before.items():
            file.write_bytes(content)


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data(), name=st.sampled_from([f"{name}.jsonl" for name in FILES] + ["manifest.json"]))
def test_damaged_files_are_read_or_refused(run, data, name):
    before = (run / name).read_bytes()
    start = data.draw(st.integers(0, len(before)))
    end = data.draw(st.integers(start, min(len(before), start + 40)))
    (run / name).write_bytes(before[:start] + data.draw(st.binary(max_size=8)) + before[end:])
    try:
        read_or_refused(run)
    finally:
        (run / name).write_bytes(before)
