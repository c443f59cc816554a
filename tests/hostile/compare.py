"""Runs the cases of a world through the command line and holds the files that come out against the oracle."""

from __future__ import annotations

import csv
import math
import random
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lowwater.cli.main import cli
from tests.hostile.cases import Case, draw
from tests.hostile.traffic import World, make_world

CASES_OF_A_WORLD = 16
SHEDDING = 3
"""Every so many worlds sheds load (O5); which packets that leaves only the reference engine can say."""


@dataclass(frozen=True)
class Difference:
    """A case whose rows are not those that it should have."""

    world: int
    number: int
    case: Case
    missing: list[tuple[Any, ...]]
    surplus: list[tuple[Any, ...]]

    def __str__(self) -> str:
        shown = f"missing {self.missing[:5]} ({len(self.missing)}), surplus {self.surplus[:5]} ({len(self.surplus)})"
        return f"world {self.world}, case {self.number}, {self.case.family}:\n{self.case.text}\n{shown}"


def run_world(seed: int, engine: str, folder: Path, numbers: range | None = None) -> tuple[int, list[Difference]]:
    """Evaluates the cases of a world once; gives the number of rows compared and what differs."""
    rng = random.Random(f"run {seed} {engine}")
    world = make_world(seed, folder / "captures")
    cases = {number: draw(seed, sorted(world.files), number) for number in numbers or range(CASES_OF_A_WORLD)}
    given = write_queries(cases, folder)
    lengths = ("7s", "10s", "1 min") if engine == "reference" else ("1 min", "2 min")
    settings = ["--interval", rng.choice(lengths)] if rng.random() < 0.6 else []
    settings += ["--heartbeat", rng.choice(("1s", "100ms", "13s", "none", "data-driven", "on-demand"))]
    shed = engine != "reference" and seed % SHEDDING == 0
    own = _links(world, folder) if shed else []
    _run(given, world, engine, folder / engine, [*settings, *own])
    if engine != "reference":
        _run(given, world, "reference", folder / "reference", own)
    compared, different = 0, []
    for number, case in cases.items():
        found = rows_of(folder / engine / f"q{number}.csv")
        wanted = [rows_of(folder / "reference" / f"q{number}.csv")] if engine != "reference" else []
        if case.oracle and not shed:
            wanted.append(Counter(tuple(map(plain, row)) for row in case.oracle(world)))
        for rows in wanted:
            compared += rows.total()
            missing, surplus = apart(rows - found, found - rows)
            if missing or surplus:
                different.append(Difference(seed, number, case, missing, surplus))
    return compared, different


def write_queries(cases: dict[int, Case], folder: Path) -> list[str]:
    """Writes the query files; gives the arguments that name them."""
    arguments = []
    for number, case in cases.items():
        name = f"q{number}"
        text = case.text if "DEFINE" in case.text else f"DEFINE {{ query_name 'NAME'; }}\n{case.text}"
        (folder / f"{name}.gsql").write_text(text.replace("FOLDER", str(folder)).replace("NAME", name) + "\n")
        for file, content in case.files.items():
            (folder / file.replace("NAME", name)).write_text(content.replace("NAME", name))
        arguments.append(str(folder / f"{name}.gsql"))
        options = [each.replace("NAME", str(folder / name)) for each in case.options]
        arguments += options
    return arguments


def _links(world: World, folder: Path) -> list[str]:
    """A file of links that take five packets of a second at most, as arguments."""
    path = folder / "links.toml"
    path.write_text(
        "".join(f"[links.{link}]\nsampling = true\nshed = 5\nunmarked_estimates = true\n" for link in world.files)
    )
    return ["--links", str(path)]


def _run(given: list[str], world: World, engine: str, out: Path, settings: list[str]) -> None:
    captures = [f"--capture={link}={path}" for link, paths in world.files.items() for path in paths]
    skews = [f"--skew={link}={world.skews[link]}ns" for link in world.files]
    chosen = ["--spark", "local[*]"] if engine == "spark" else ["--engine", engine]
    cli.main(["run", *given, *captures, *skews, *chosen, "--out", str(out), *settings], standalone_mode=False)


def rows_of(path: Path) -> Counter[tuple[Any, ...]]:
    """The rows of a CSV file, each value as `plain` gives it."""
    with path.open(newline="") as file:
        reader = csv.reader(file)
        next(reader)
        return Counter(tuple(row) for row in reader)


def plain(value: Any) -> str:
    """A value as the results write it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value) if isinstance(value, float) else str(value)


def apart(missing: Counter[tuple[Any, ...]], surplus: Counter[tuple[Any, ...]]) -> tuple[list[Any], list[Any]]:
    """What is left when rows that differ only in the rounding of floats are taken for equal."""
    left, right = sorted(missing.elements()), sorted(surplus.elements())
    if len(left) == len(right):
        pairs = [(a, b) for a, b in zip(left, right, strict=True) if not all(map(_near, a, b))]
        return [a for a, _ in pairs], [b for _, b in pairs]
    return left, right


def _near(one: str, two: str) -> bool:
    if one == two:
        return True
    try:
        return math.isclose(float(one), float(two), rel_tol=1e-9)
    except ValueError:
        return False
