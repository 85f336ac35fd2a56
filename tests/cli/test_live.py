"""The live views of `evaluate` and `train`, at 80 and 120 columns."""

import io
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.live import Live

from mars_env.cli.live import TrainingView, run_view
from mars_env.cli.screen import Screen
from mars_env.evaluation.counters import Share, Snapshot
from mars_env.loggers import ConsoleLogger

SHARES = st.integers(1, 10**6).flatmap(lambda n: st.builds(Share, st.integers(0, n), st.just(n)))
REASONS = st.dictionaries(st.text("ab[\x1b", min_size=1, max_size=200), st.integers(1, 10**6), max_size=5)


def shown(view, width):
    file = io.StringIO()
    Screen(file=file, width=width, color_system=None).print(view)
    return file.getvalue()


@settings(max_examples=25)
@given(SHARES, REASONS, st.integers(0, 10**4), st.integers(0, 10**6))
@pytest.mark.parametrize("width", [80, 120])
def test_a_run_is_shown_within_the_columns_of_a_terminal(width, share, reasons, cost, number):
    snapshot = Snapshot(
        episodes=number, total=10**6, turns=number, read_tokens=number, sampled_tokens=number, cost=cost,
        accuracy=share, correct={"solver": share}, accepts={"verifier": share}, faults=reasons,
        unknown=reasons, seconds=100.0, turns_per_second=12.5, tokens_per_second=4000.0, seconds_left=3600.0,
    )  # fmt: skip
    text = shown(run_view(snapshot), width)
    assert all(len(line) <= width for line in text.splitlines()) and "1:00:00 left" in text
    assert f"{share.value:.1%} right" in text and "accept" in text and "cost $" in text
    assert text.count("discarded") == text.count("UNKNOWN") == min(3, len(reasons))


@pytest.mark.parametrize("width", [80, 120])
def test_the_lines_of_a_training_stand_above_its_view(width):
    terminal = Screen(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    view = TrainingView(steps=2)
    with Live(get_renderable=lambda: view, console=terminal, auto_refresh=False) as live:
        for step in (1, 2):
            for logger in (view, ConsoleLogger()):
                logger.log(step, {"role/solver/reward": 0.5})
            live.refresh()
    drawn = re.split(r"\x1b\[[^A-Za-z]*[A-Za-z]", terminal.file.getvalue())
    lines = [line.rstrip() for text in drawn for line in text.splitlines() if "solver reward" in line]
    assert lines == [f"step {step}  solver reward 0.500" for step in (1, 2)]
