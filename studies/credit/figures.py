"""The figures of the comparison: learning curves of every rule, and all rules on all games."""

from __future__ import annotations

import io
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

from matplotlib import rc_context
from matplotlib.figure import Figure

from mars_env.viewer.plots import COLOURS, INK
from studies.common.ledger import LedgerRow, SeedEstimate, over_seeds

PARTS: Final = 10
"""A learning curve has this many points: means over equal parts of the sampled tokens."""

Curve = list[tuple[float, SeedEstimate]]


def learning_curve(rows: Sequence[LedgerRow], role: str) -> Curve:
    """Thousands of sampled tokens, and a role's mean reward over seeds, in equal parts of the runs.

    Seeds weigh alike; a part in which the role never acted is left out.
    """
    by_part: defaultdict[int, list[float]] = defaultdict(list)
    for row in rows:
        total, own = row.detail["sampled"][-1], defaultdict[int, list[float]](list)
        for reward, sampled in zip(row.detail["rewards"][role], row.detail["sampled"], strict=True):
            if reward is not None:
                own[min(PARTS - 1, sampled * PARTS // total)].append(reward)
        for part, rewards in own.items():
            by_part[part].append(sum(rewards) / len(rewards))
    total = sum(row.detail["sampled"][-1] for row in rows) / len(rows)
    return [
        ((part + 0.5) / PARTS * total / 1000, over_seeds(values)) for part, values in sorted(by_part.items())
    ]


def curves(panels: Mapping[str, Mapping[str, Sequence[LedgerRow]]], bases: Mapping[str, str]) -> bytes:
    """Learning curves of the first role of each game: a row for each game, a panel for each of its rules.

    `panels` has the rows by game and rule. The band is the 95% t-interval over seeds; the dashed line is the
    rule of the game's paper.
    """
    columns = max(map(len, panels.values()))
    figure = Figure(figsize=(1.55 * columns, 1.75 * len(panels)), layout="constrained")
    axes = figure.subplots(len(panels), columns, squeeze=False, sharey="row")
    figure.patch.set_alpha(0)
    for line, (game, rules) in zip(axes, panels.items(), strict=True):
        role = next(iter(next(iter(rules.values()))[0].detail["rewards"])) if rules else ""
        base = learning_curve(rules[bases[game]], role) if bases[game] in rules else []
        for place, panel in enumerate(line):
            if place >= len(rules):
                panel.set_visible(False)
                continue
            rule, rows = list(rules.items())[place]
            _draw_curve(panel, learning_curve(rows, role), base)
            panel.set_title(rule, color=INK, fontsize=8)
        line[0].set_ylabel(f"{game}: {role}", color=INK, fontsize=8)
    figure.supxlabel("thousand sampled tokens", color=INK, fontsize=8)
    return _svg(figure)


def _draw_curve(panel: Any, curve: Curve, base: Curve) -> None:
    """One panel: a line with its band, and the line that it is compared with."""
    _prepare(panel)
    points = [(tokens, estimate) for tokens, estimate in curve if estimate.low is not None]
    panel.fill_between(
        [tokens for tokens, _ in points],
        [estimate.low for _, estimate in points],
        [estimate.high for _, estimate in points],
        color=COLOURS[0], alpha=0.25, linewidth=0,
    )  # fmt: skip
    panel.plot([x for x, _ in base], [e.mean for _, e in base], color=INK, linewidth=1, linestyle="--")
    panel.plot([x for x, _ in curve], [e.mean for _, e in curve], color=COLOURS[0], linewidth=1.5)


def comparison(effects: Mapping[str, Mapping[str, SeedEstimate]], titles: Mapping[str, str]) -> bytes:
    """All rules on all games: points of the System above the rule of the game's paper, with 95% t-intervals.

    `effects` has the differences as shares by game and rule, `titles` the title of each game's panel.
    """
    rules = list(dict.fromkeys(rule for game in effects.values() for rule in game))
    figure = Figure(figsize=(2.6 * len(effects), 0.9 + 0.28 * len(rules)), layout="constrained")
    axes = figure.subplots(1, len(effects), squeeze=False, sharey=True)[0]
    figure.patch.set_alpha(0)
    for panel, (game, differences) in zip(axes, effects.items(), strict=True):
        _prepare(panel)
        panel.axvline(0, color=INK, linewidth=0.8, linestyle="--")
        for rule, found in differences.items():
            height = len(rules) - 1 - rules.index(rule)
            if found.low is not None and found.high is not None:
                panel.plot([100 * found.low, 100 * found.high], [height] * 2, color=COLOURS[0], linewidth=1.5)
            panel.plot([100 * found.mean], [height], "o", color=COLOURS[0], markersize=4)
        panel.set_title(titles[game], color=INK, fontsize=9)
        panel.set_yticks(range(len(rules)), rules[::-1], color=INK)
    figure.supxlabel("System, points above the rule of the game's paper", color=INK, fontsize=9)
    return _svg(figure)


def _prepare(panel: Any) -> None:
    panel.patch.set_alpha(0)
    for side, spine in panel.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(INK)
    panel.tick_params(colors=INK, labelsize=7)
    panel.grid(color=INK, alpha=0.2, linewidth=0.5)


def _svg(figure: Figure) -> bytes:
    """The figure as bytes; equal data give equal bytes: no date, and ids from a fixed salt."""
    buffer = io.BytesIO()
    with rc_context({"svg.hashsalt": "mars_env"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()
