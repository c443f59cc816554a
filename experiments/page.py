"""The page of the experiments and its figures, made from the results: `python -m experiments.page`.

Beside the experiments: nothing is measured here. Verdicts and figures are computed from the rows of
`experiments/results/*.json`.
"""

from __future__ import annotations

import argparse
import importlib
import json
import pkgutil
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import experiments
from experiments.figures import draw
from experiments.frame import IMAGES, RESULTS, ROOT, Cell, Experiment, Size, Verdict

PAGE = ROOT / "docs" / "experiments.md"
_ORDER = "HXGNT"
_ID = re.compile(r"[a-z]\d+$")

HEAD = """
Each experiment is a module of `experiments/` and repeats one figure or claim of a paper. `make experiments` measures
all of them and makes this page from `experiments/results/*.json`; `make experiments FULL=1` does it at the rates and
lengths of the papers; `python -m experiments.page` makes the page again without measuring. Verdicts are computed from
the rows of a result, and figures are drawn from them.

Memory of the model is that of the reference engine's operators, in tuples and in bytes of their values (8 a number).
The high level on Spark has no such operators: it keeps no state between slices of these queries, and a slice reads rows
of the low level from files ([49](adr/0049-slices-of-time.md)). H1, H2, G2 and N3 count the rows of the largest slice
beside the model, with the code that a run calls, in one process and without a JVM. H5 has the slow operators of the
model, and the traces of Lowwater's own two levels.

Times are seconds of the processor, not of the clock. Lines of a figure are ours, hollow markers are points that a
paper prints; where it prints none, the curve itself is not known to us.
"""

QUICK = "**Of the quick size**: this result is that of the tests (`--quick`), not of the sizes that the text names."


def found_experiments() -> list[Experiment]:
    """The experiments of all modules, in the order of the page."""
    names = [module.name for module in pkgutil.iter_modules(experiments.__path__) if _ID.match(module.name)]
    modules = [importlib.import_module(f"experiments.{name}") for name in names]
    return sorted((module.EXPERIMENT for module in modules), key=lambda each: (_ORDER.find(each.id[0]), each.id))


def page(known: Sequence[Experiment], results: Mapping[str, Mapping[str, Any]]) -> str:
    """The Markdown of the page.

    Args:
        known: experiments, in order.
        results: of each experiment that was measured, by id.
    """
    lines = ["# The papers' experiments", "", *_paragraphs(HEAD), *_table(known, results)]
    for each in known:
        lines += _section(each, results.get(each.id))
    return "\n".join(lines).rstrip() + "\n"


def summary(verdicts: Sequence[Verdict]) -> str:
    """One word for an experiment: it holds where every claim that was measured holds."""
    measured = [each for each in verdicts if each.holds is not None]
    if not measured:
        return "not measured"
    good = sum(bool(each.holds) for each in measured)
    return "holds" if good == len(measured) else f"does not hold ({good} of {len(measured)} claims do)"


def _table(known: Sequence[Experiment], results: Mapping[str, Mapping[str, Any]]) -> list[str]:
    lines = ["| | what the paper says | here | verdict | seed | command |", "| --- | --- | --- | --- | --- | --- |"]
    for each in known:
        found = results.get(each.id)
        verdicts = each.verdicts(found["rows"]) if found else []
        ours = "; ".join(verdict.ours for verdict in verdicts) or "no result"
        link = f"[{each.id}](#{_anchor(each)})"
        cells = [link, f"{each.source}: {each.claim}", ours, f"**{summary(verdicts)}**", str(each.seed)]
        lines.append(f"| {' | '.join(map(_escaped, cells))} | `{found['command'] if found else each.command}` |")
    return [*lines, "", _count(known, results), ""]


def _count(known: Sequence[Experiment], results: Mapping[str, Mapping[str, Any]]) -> str:
    """How many figures hold, and which do not; claims for which a paper prints no measurement are counted apart."""
    counted: dict[bool, list[bool]] = {True: [], False: []}
    less: list[str] = []
    for each in known:
        verdicts = each.verdicts(results[each.id]["rows"]) if each.id in results else []
        whole = bool(verdicts) and all(verdict.holds is not False for verdict in verdicts)
        counted[each.printed].append(whole)
        if not whole:
            wrong = [verdict for verdict in verdicts if verdict.holds is False]
            shown = sum(bool(verdict.cause) for verdict in wrong)
            less.append(f"{each.id}: {len(wrong)} of {len(verdicts)} claims do not, {shown} with a cause from rows")
    figures, others = counted[True], counted[False]
    said = f"**{sum(figures)} of {len(figures)} figures hold**, and {sum(others)} of {len(others)} claims without one"
    return f"{said}. {'; '.join(less)}." if less else f"{said}."


def _section(experiment: Experiment, found: Mapping[str, Any] | None) -> list[str]:
    name = experiment.id.lower()
    lines = [f"## {experiment.id}: {experiment.title}", ""]
    lines += [f"{experiment.source}. {experiment.claim}", ""]
    lines += _paragraphs(experiment.about)
    if found is None:
        return [*lines, "No result.", ""]
    if found["size"] == Size.QUICK:
        lines += [QUICK, ""]
    rows = found["rows"]
    if experiment.panels(rows):
        lines += [f"![{experiment.title}](images/experiments/{name}.png)", ""]
    lines += ["| what the paper says | here | verdict |", "| --- | --- | --- |"]
    verdicts = experiment.verdicts(rows)
    lines += [f"| {_escaped(each.claim)} | {_escaped(each.ours)} | {each.word} |" for each in verdicts]
    lines.append("")
    for verdict in verdicts:
        if verdict.cause:
            lines += [f"*{verdict.claim}*: {verdict.cause}", ""]
    lines += _measured(experiment, rows)
    spent = f"{found['processor_seconds']} processor seconds on {found['machine']}"
    return [*lines, f"`{found['command']}`, seed {found['seed']}, {spent}.", ""]


def _paragraphs(text: str) -> list[str]:
    """Paragraphs of Markdown, a line each."""
    return [line for part in text.strip().split("\n\n") for line in (" ".join(part.split("\n")), "")]


def _measured(experiment: Experiment, rows: Sequence[Mapping[str, Cell]]) -> list[str]:
    """The table of the rows: only columns that the experiment names, and rows that have any of them and are shown."""
    names = list(experiment.columns)
    if not names:
        return []
    chosen = experiment.shown(list(map(dict, rows))) if experiment.shown else rows
    lines = [f"| {' | '.join(experiment.columns.values())} |", f"|{' --- |' * len(names)}"]
    for row in chosen:
        if any(name in row for name in names):
            lines.append(f"| {' | '.join(_shown(row.get(name)) for name in names)} |")
    if len(chosen) < len(rows):
        lines += ["", f"{len(chosen)} of {len(rows)} rows; the result has all."]
    return [*lines, ""]


def _shown(value: Cell) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else _escaped(value)


def _anchor(experiment: Experiment) -> str:
    """The anchor of a section, as GitHub makes it of the heading."""
    return re.sub(r"[^\w -]", "", f"{experiment.id}: {experiment.title}".lower()).replace(" ", "-")


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


def results_in(folder: Path, known: Sequence[Experiment]) -> dict[str, dict[str, Any]]:
    """The results of a folder, by id."""
    paths = {each.id: folder / f"{each.id.lower()}.json" for each in known}
    return {name: json.loads(path.read_text()) for name, path in paths.items() if path.exists()}


def make(results: Path, target: Path, images: Path) -> None:
    """Writes the page and its figures."""
    known = found_experiments()
    found = results_in(results, known)
    target.write_text(page(known, found))
    for each in known:
        if each.id in found and (panels := each.panels(found[each.id]["rows"])):
            draw(images / f"{each.id.lower()}.png", panels)


def main() -> None:
    """Makes the page from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--images", type=Path, default=IMAGES)
    given = parser.parse_args()
    make(given.results, given.page, given.images)


if __name__ == "__main__":
    main()
