"""How the figures of the experiments look: ours as lines, the points that a paper prints as hollow markers.

Drawn with matplotlib into a file, without a screen. Lines differ in grey, style and marker, so that a print without
colours can be read.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.frame import Panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LOOKS = (
    ("#b2182b", "-", "o"),
    ("#08306b", "--", "s"),
    ("#4a9c4a", ":", "^"),
    ("#e08214", "-.", "D"),
    ("#6a51a3", (0, (5, 1)), "v"),
    ("#333333", (0, (1, 1)), "x"),
    ("#41b6c4", (0, (3, 1, 1, 1)), "P"),
    ("#8c6d31", (0, (7, 3)), "<"),
    ("#d66ba0", (0, (2, 2)), ">"),
)
_PAPER = ("*", "P", "X", "d")


def draw(path: Path, panels: Sequence[Panel]) -> None:
    """Draws panels side by side, two in a row.

    Args:
        path: of the PNG.
        panels: at least one.
    """
    from matplotlib.figure import Figure  # a second of imports

    wide = min(2, len(panels))
    high = -(-len(panels) // wide)
    figure = Figure(figsize=(7.4 if wide == 1 else 12.4, 4.6 * high), layout="constrained")
    grid = figure.subplots(high, wide, squeeze=False)
    for at, axes in enumerate(grid.flat):
        if at < len(panels):
            _draw(axes, panels[at])
        else:
            axes.axis("off")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110, metadata={"Software": None})


def _draw(axes: Axes, panel: Panel) -> None:
    ours = [curve for curve in panel.curves if not curve.paper]
    for curve, (colour, style, marker) in zip(ours, _LOOKS * len(ours), strict=False):
        xs, ys = zip(*curve.points, strict=True) if curve.points else ((), ())
        axes.plot(xs, ys, linestyle=style, color=colour, marker=marker, ms=5, label=curve.name)
    for curve, marker in zip([c for c in panel.curves if c.paper], _PAPER * 4, strict=False):
        xs, ys = zip(*curve.points, strict=True)
        axes.plot(xs, ys, linestyle="", marker=marker, ms=13, mfc="none", mec="black", mew=1.4, label=curve.name)
    axes.set(title=panel.title, xlabel=panel.across, ylabel=panel.up)
    if panel.log_across:
        axes.set_xscale("log")
    if panel.log_up:
        axes.set_yscale("log")
    else:
        axes.set_ylim(0, None)
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
