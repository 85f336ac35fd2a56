"""The second MarsRL study: its rows are the plan's and its page is made of rows."""

import re

import studies.marsrl_robustness.study as study


def test_the_rows_are_those_of_the_plan():
    plan = study.STUDY.plan.read_text(encoding="utf-8")
    arms = dict(re.findall(r"^\| `([^`]+)` \| [^|]*\|([^|]*\|[^|]*)\|$", plan, re.MULTILINE))
    arms = {name: cells for name, cells in arms.items() if "to" in cells}
    assert {row.arm.name for row in study.ROWS.values()} == arms.keys()
    for row in study.ROWS.values():
        seeds = f"{row.seeds[0]} to {row.seeds[-1]}"
        where, when = arms[row.arm.name].split("|")
        assert "all four" in where or row.start is study.POOR
        assert seeds in when
    assert sum(len(row.seeds) for row in study.ROWS.values()) == 6 * 10 + 3 * 3 * 5 + 3 * 5
