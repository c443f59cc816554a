"""The frame of an experiment: what a module states, how it is run from the command line, the JSON of its result.

Below every experiment. A module has `EXPERIMENT`; rows are measured once and written, verdicts and figures are computed
from rows, so that the page can be made again without measuring.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import resource
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "experiments" / "results"
IMAGES = ROOT / "docs" / "images" / "experiments"

Cell = str | int | float | bool | None
Measurement = dict[str, Cell]
"""One row of a result: named parameters and measured values."""


class Size(StrEnum):
    """How much an experiment measures: seconds, minutes, or at the rates and lengths of the paper."""

    QUICK = "quick"
    DEFAULT = "default"
    FULL = "full"


@dataclass(frozen=True)
class Verdict:
    """One claim of a paper beside what was measured.

    Attributes:
        claim: what the paper says.
        ours: what the rows say.
        holds: whether the claim holds; None where it was not measured.
        cause: measured reason of a claim that does not hold, or what is to be known of one that does.
    """

    claim: str
    ours: str
    holds: bool | None
    cause: str = ""

    @property
    def word(self) -> str:
        """The verdict as a reader sees it."""
        return {True: "holds", False: "does not hold", None: "not measured"}[self.holds]


@dataclass(frozen=True)
class Curve:
    """Points of a figure: a line where they are measured here, markers alone where the paper prints them.

    Attributes:
        name: in the legend.
        points: (x, y).
        paper: whether the paper prints them.
    """

    name: str
    points: Sequence[tuple[float, float]]
    paper: bool = False


@dataclass(frozen=True)
class Panel:
    """One pair of axes.

    Attributes:
        title: above the axes; `across` and `up` name the axes, with units.
        curves: ours and those of the paper.
        log_across: whether the x axis is logarithmic; `log_up` whether the y axis is.
    """

    title: str
    across: str
    up: str
    curves: Sequence[Curve]
    log_across: bool = False
    log_up: bool = False


@dataclass(frozen=True)
class Experiment:
    """One figure or claim of a paper.

    Attributes:
        id: `H1`; the module is `experiments.h1`.
        title: of its section.
        source: paper, section and figure.
        claim: what the paper says, one sentence.
        about: Markdown: what is measured, parameters and their reasons, scaling. Lines of a paragraph are joined.
        seed: of everything random in it.
        measure: rows of a size.
        verdicts: from rows.
        panels: of the figure, from rows; empty for no figure.
        columns: column of the rows -> heading with unit, for the table of the page.
        printed: whether the paper prints a figure, or numbers that it measured; otherwise it says what a system does.
        spark: whether it needs a JVM.
        shown: the rows that the page shows, where they are too many for a table.
    """

    id: str
    title: str
    source: str
    claim: str
    about: str
    seed: int
    measure: Callable[[Size], list[Measurement]]
    verdicts: Callable[[Sequence[Measurement]], list[Verdict]]
    panels: Callable[[Sequence[Measurement]], list[Panel]]
    columns: Mapping[str, str]
    printed: bool = True
    spark: bool = False
    shown: Callable[[Sequence[Measurement]], Sequence[Measurement]] | None = None

    @property
    def command(self) -> str:
        """What measures it."""
        return f"python -m experiments.{self.id.lower()}"


def result(experiment: Experiment, size: Size) -> dict[str, Any]:
    """Measures an experiment: its rows, and under which conditions they were found."""
    before = _processor_seconds()
    rows = experiment.measure(size)
    return {
        "id": experiment.id,
        "size": size.value,
        "seed": experiment.seed,
        "command": experiment.command + ("" if size == Size.DEFAULT else f" --{size}"),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "processor_seconds": round(_processor_seconds() - before, 1),
        "sources": digest(),
        "rows": rows,
    }


def digest() -> str:
    """Digest of the sources that a result depends on."""
    found = hashlib.sha256()
    for folder in ("experiments", "lowwater"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            found.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    return found.hexdigest()[:16]


def write(found: Mapping[str, Any], folder: Path) -> Path:
    """Writes a result, a row a line; gives its path. A reader sees the whole file or none."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{str(found['id']).lower()}.json"
    head = json.dumps({name: value for name, value in found.items() if name != "rows"}, indent=2)[:-2]
    rows = ",\n".join(f"    {json.dumps(row, allow_nan=False)}" for row in found["rows"])
    beside = path.with_suffix(".part")
    beside.write_text(f'{head},\n  "rows": [\n{rows}\n  ]\n}}\n')
    beside.replace(path)
    return path


def main(experiment: Experiment, arguments: Sequence[str] | None = None) -> None:
    """Measures one experiment from the command line; prints its rows and verdicts, writes its JSON."""
    parser = argparse.ArgumentParser(description=f"{experiment.id}: {experiment.title} ({experiment.source})")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_const", const=Size.QUICK, dest="size", help="seconds: for tests")
    size.add_argument(
        "--full", action="store_const", const=Size.FULL, dest="size", help="the paper's rates and lengths"
    )
    parser.add_argument("--out", type=Path, default=RESULTS, metavar="FOLDER", help="of the JSON")
    parser.set_defaults(size=Size.DEFAULT)
    given = parser.parse_args(arguments)
    found = result(experiment, given.size)
    for row in found["rows"]:
        print(", ".join(f"{name} {value}" for name, value in row.items()))
    for verdict in experiment.verdicts(found["rows"]):
        print(f"{experiment.id} {verdict.word}: {verdict.claim}: {verdict.ours}")
    print(write(found, given.out), flush=True)


def _processor_seconds() -> float:
    """Seconds of the processor that this process and its ended children have used."""
    spent = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in spent)
