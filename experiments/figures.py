"""How the figures of the experiments look.

Drawn with matplotlib into a file, without a screen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path

from matplotlib.figure import Figure

Line = Sequence[tuple[float, float]]
_COLOURS = {"IOP": "#b2182b", "OOP": "#2166ac", "OOP(sf)": "#1b7837"}
_STYLES = ("-", "--", ":")


def draw_lines(path: Path, lines: Mapping[str, Line], title: str, across: str, up: str) -> None:
    """Draws lines by name; what stands before the last `-` of a name decides its colour, what follows its style.

    Args:
        path: of the PNG.
        lines: name -> points (x, y).
        title: of the figure, `across` and `up` of its axes.
    """
    figure = Figure(figsize=(7.5, 4.6), layout="constrained")
    axes = figure.subplots()
    others = cycle(("#555555", "#888888"))
    kinds = list(dict.fromkeys(name.rpartition("-")[2] for name in lines))
    colours: dict[str, str] = {}
    for name, points in lines.items():
        family, _, kind = name.rpartition("-")
        colour = colours.setdefault(family, _COLOURS.get(family) or next(others))
        style = _STYLES[kinds.index(kind) % len(_STYLES)]
        axes.plot([x for x, _ in points], [y for _, y in points], style, color=colour, marker="o", ms=4, label=name)
    axes.set(title=title, xlabel=across, ylabel=up, ylim=(0, None))
    axes.set_xticks([x for x, _ in next(iter(lines.values()))])
    axes.grid(alpha=0.3)
    axes.legend(ncols=max(1, len(colours)), fontsize="small")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130, metadata={"Software": None})
