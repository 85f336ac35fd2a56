"""Training curves as SVG (matplotlib, from the extra ``plots``)."""

import io
from collections.abc import Mapping, Sequence
from typing import Any

from mars_env.errors import ConfigError
from mars_env.lazy import needs

# After Okabe and Ito, for colour-blind readers; the blue is lighter, to be legible on black too.
COLOURS = ("#2A85C8", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9")
INK = "#808080"


def training_curves(
    curves: Mapping[str, Sequence[tuple[float, float]]], *, ylabel: str, xlabel: str = "training step"
) -> bytes:
    """Lines of (step, value), at most six, by their names."""
    if not 0 < len(curves) <= len(COLOURS):
        raise ConfigError(f"a plot shows 1 to {len(COLOURS)} curves, got {len(curves)}")
    with needs("plots", "plots need matplotlib"):
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    figure = Figure(figsize=(6.4, 3.2), layout="constrained")  # outside pyplot: no global state, no window
    axes = figure.subplots()
    figure.patch.set_alpha(0)
    axes.patch.set_alpha(0)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(INK)
    axes.tick_params(colors=INK)
    axes.grid(axis="y", color=INK, alpha=0.25, linewidth=0.6)
    axes.set_axisbelow(True)
    for colour, (name, points) in zip(COLOURS, curves.items(), strict=False):
        line: dict[str, Any] = {"color": colour, "linewidth": 1.8, "marker": "o", "markersize": 2.5}
        axes.plot(*zip(*points, strict=True), label=_plain(name), **line)
    axes.set_xlabel(_plain(xlabel), color=INK)
    axes.set_ylabel(_plain(ylabel), color=INK)
    axes.legend(frameon=False, loc="best", labelcolor=INK).set_in_layout(True)
    buffer = io.BytesIO()
    # Equal data give equal bytes: no date, and ids from a fixed salt.
    with rc_context({"svg.hashsalt": "mars_env"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()


def _plain(text: str) -> str:
    """No dollar is read as mathematics by matplotlib."""
    return text.replace("$", r"\$")
