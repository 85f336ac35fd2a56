import json
from dataclasses import replace

import pytest
from small_runs import episode

from benchmarks.soak import compared
from mars_env.rollout import write_run

TREES = [episode("p", 0, "S- Vw C+ Vc"), episode("q", 0, "S+ Vc")]


def found(tmp_path, trees):
    """What a comparison finds in a run of these trees, beside one of `TREES` whose texts a server sent."""
    log = tmp_path / "log"
    log.write_text("".join(json.dumps(turn.text) + "\n" for tree in TREES for turn in tree.turns))
    for name, each in (("whole", TREES), ("run", trees)):
        write_run(tmp_path / name, each, {})
    figures = compared(tmp_path / "whole", tmp_path / "run", [log])
    return {name: count for name, count in figures.items() if count and name not in ("trees", "turns")}


def changed(**values):
    last = TREES[1].turns[-1]
    return [TREES[0], replace(TREES[1], turns=(TREES[1].turns[0], replace(last, **values)))]


@pytest.mark.parametrize(
    ("trees", "expected"),
    [
        (TREES, {}),
        (TREES[:1], {"lost": 2}),
        ([TREES[0], replace(TREES[1], turns=TREES[1].turns[:1])], {"wrong": 1}),
        (changed(reward=0.5), {"wrong": 1}),
        (
            changed(action=replace(TREES[1].turns[-1].action, text="?")),
            {"wrong": 1, "not sent by a server": 1},
        ),
    ],
    ids=["same", "lost", "short", "reward", "text"],
)
def test_a_run_that_differs_is_found(tmp_path, trees, expected):
    assert found(tmp_path, trees) == expected
