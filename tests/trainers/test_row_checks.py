"""Rows of real runs are right, and each planted fault is found, in its row and field."""

import copy
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toy_training import tiny_model, toy_groups
from typer.testing import CliRunner

from mars_env.cli import app
from mars_env.trainers import TrainConfig
from mars_env.trainers.advantages import ESTIMATORS
from mars_env.trainers.row_checks import check_rows
from mars_env.trainers.sample_files import sample_to_row
from mars_env.trainers.samples import turn_samples

RULES = sorted(ESTIMATORS)
GROUPS = toy_groups(tiny_model(), 0, problems=2, size=6)
ROWS = {
    rule: [sample_to_row(sample) for sample in turn_samples(GROUPS, TrainConfig(advantage=rule))]
    for rule in RULES
}


def problems_of(rows, rule):
    return list(check_rows([json.dumps(row).encode() for row in rows], rule))


def masked(row):
    """A token that was read and not sampled has a log-probability."""
    row["completion_mask"] = [1 for _ in row["completion_ids"]] + [0, 1]
    row["completion_ids"] += [1, 1]
    row["logprobs"] += [-1.0, -1.0]
    row["versions"] = []


def changed(field, change):
    def plant(row):
        row[field] = change(row[field])

    return plant


FAULTS = {
    "schema": [changed("schema", lambda _: "mars-env.samples/0"), lambda row: row.pop("schema")],
    "tree_id": [changed("tree_id", lambda _: 7)],
    "role": [changed("role", lambda role: role + "_of_another")],
    "prompt_ids": [changed("prompt_ids", lambda _: []), changed("prompt_ids", lambda ids: [*ids, -1])],
    "completion_ids": [
        changed("completion_ids", lambda _: []),
        changed("completion_ids", lambda ids: [*ids[:-1], 0.5]),
        changed("completion_ids", lambda ids: [*ids[:-1], True]),
    ],
    "completion_mask": [
        changed("completion_mask", lambda mask: [*mask, 1]),
        changed("completion_mask", lambda mask: [2, *mask[1:]]),
        changed("completion_mask", lambda mask: [0, *mask[1:]]),
    ],
    "logprobs": [
        masked,
        changed("logprobs", lambda values: values[:-1]),
        *(
            changed("logprobs", lambda values, wrong=wrong: [wrong, *values[1:]])
            for wrong in (0.5, math.nan, -math.inf, None, -9999.0)
        ),
    ],
    "temperature": [changed("temperature", lambda _: 0.0)],
    "versions": [
        changed("versions", lambda _: [[0, 1_000]]),
        changed("versions", lambda _: [[-1, 3]]),
        changed("versions", lambda _: [[0]]),
    ],
    "truncated": [changed("truncated", lambda _: 0)],
    "reward": [changed("reward", lambda _: math.inf)],
    "score": [changed("score", lambda _: 1.5)],
    "advantage": [
        changed("advantage", lambda _: math.nan),
        changed("advantage", lambda _: "1"),
        changed("advantage", lambda value: value + 0.1),
        changed("advantage", lambda value: value - 0.7),
    ],
}
PLANTED = [(field, plant) for field, plants in FAULTS.items() for plant in plants]


@pytest.mark.parametrize("rule", RULES)
def test_rows_of_a_run_are_right(rule):
    assert ROWS[rule]
    assert problems_of(ROWS[rule], rule) == []


@given(st.sampled_from(RULES), st.sampled_from(PLANTED), st.integers(0))
def test_a_planted_fault_is_found(rule, planted, place):
    field, plant = planted
    rows = copy.deepcopy(ROWS[rule])
    number = place % len(rows)
    plant(rows[number])
    problems = problems_of(rows, rule)
    assert {problem.field for problem in problems} >= {field}
    first = {row["group_id"]: index for index, row in reversed([*enumerate(rows, 1)])}
    assert {problem.row for problem in problems} & {number + 1, first[rows[number]["group_id"]]}


@given(st.sampled_from(RULES), st.sampled_from(["group_id", "agent", "policy", "reward", "advantage"]))
def test_rows_of_one_turn_agree(rule, field):
    again = copy.deepcopy(ROWS[rule][0])
    again[field] = again[field] + 1.0 if isinstance(again[field], float) else "other_0"
    again["role"] = "other" if field == "agent" else again["role"]
    [problem] = problems_of([*ROWS[rule], again], rule)
    assert (problem.row, problem.field) == (len(ROWS[rule]) + 1, field)


def test_advantages_of_another_rule_are_found():
    for rule in RULES:
        for other in set(RULES) - {rule}:
            assert {problem.field for problem in problems_of(ROWS[rule], other)} == {"advantage"}
            assert problems_of(ROWS[rule], "any") == []


@given(st.lists(st.binary(max_size=30), max_size=5))
def test_bytes_that_are_no_rows_are_named_by_their_line(lines):
    is_blank = [not line.strip() for line in lines]
    rows = {problem.row for problem in check_rows(lines)}
    assert rows == {number for number, blank in enumerate(is_blank, 1) if not blank}


def test_the_command(tmp_path):
    path = tmp_path / "samples.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS["mean_centred"]), encoding="utf-8")
    called = ["check-rows", str(path)]
    assert CliRunner().invoke(app, [*called, "--advantage", "mean_centred"]).exit_code == 0
    other = CliRunner().invoke(app, called)
    assert other.exit_code == 1 and "row 1, advantage: " in other.output
