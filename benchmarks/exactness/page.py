"""Makes docs/comparison.md from docs/comparison.json: `python -m benchmarks.exactness.page`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from benchmarks.exactness.__main__ import RESULTS
from benchmarks.exactness.inputs import VARIANTS
from benchmarks.exactness.programs import PROGRAMS

PAGE = RESULTS.with_suffix(".md")
BASE = "one"
_HEADS = {"one": "one file", "again": "again", "minutes": "60 files", "shuffled": "other order", "killed": "killed"}
_HEAD = """# Comparison: the same hour, imported several times

<!-- Made by `python -m benchmarks.exactness.page` from docs/comparison.json; do not edit. -->

Import the same packets twice: are the rows the same? Here an hour of two links goes through {count} programs, each
five times:

{variants}

Each cell has the number of rows. **=** means that the rows are equal to those of the first column, one by one;
**≠** means that they are not.
[comparison.json](comparison.json) has the hashes, the seconds and the commands.

* Captures: `{captures}`, {megabytes} MB; no packet is out of order, and none comes twice.
* {date}, {machine}. Versions: {versions}.
"""
_WHY = {
    "nfdump": (
        "Five-tuples, summed over all files, are exact however the hour is cut. Flow records are not: a flow "
        "that goes on into the next file is two records. What a killed import has written stays, and the next "
        "one adds to it."
    ),
    "argus": (
        "A record ends with its file, so the number of records depends on the cut. argus merges both "
        "directions of a flow by its first packet, and a file that begins in the middle of a flow may show "
        "another direction."
    ),
    "softflowd": (
        "A flow ends with its file; summed to five-tuples the records are exact. What an import had sent "
        "before it was killed has been received, and the next import sends it again."
    ),
    "pmacct": (
        "Each file gives its own output, which a repeated import replaces; summed to five-tuples the lines of all "
        "files are exact. `print_refresh_time` goes by the clock of the machine, and each refresh writes the output "
        "anew. Set it longer than the import of a file takes: with the default of 60 seconds, a run that passed a "
        "full minute of the clock lost rows, in one case nearly all of them."
    ),
    "tshark": (
        "Packets are exact: each file gives its own output, which a repeated import replaces. Streams are "
        "numbered within a file, so a connection over two files is two streams. mergecap joins the files "
        "first, where they fit."
    ),
    "Lowwater": (
        "Epochs and joins go by the timestamps of the packets, not by files, and an import or a run that was "
        "killed leaves nothing that counts."
    ),
}
_TAIL = """
## What that means

All of these programs do what they are for. A collector that runs all day cuts its flows by timeouts, not by files,
and nobody kills it every hour. The difference shows where a number must be the same when somebody computes it again:
from files that were cut otherwise, after a crash, on another machine.

* Sums of packets and bytes are exact in nfdump, softflowd and pmacct as long as every import runs
  once, to its end.
* After a crash, empty the place of the results and import everything again: then a program gives what it gives
  without a crash. The programs do not say when that is needed. Nothing was emptied here.
* Records of flows depend on the files in every program that keeps flows in memory. That is no fault: the file is
  all they see.
* In Lowwater the price is time: [performance](performance.md) has its seconds beside those of nfdump. The seconds in
  the JSON are of a machine that had other work.

Zeek and Suricata are not in the Debian release that was used, so they are not here.

`python -m benchmarks.exactness` makes the results again, with the packages {packages}.
"""


def page(told: dict[str, Any]) -> str:
    """Returns the page.

    Args:
        told: content of docs/comparison.json.
    """
    programs = told["programs"]
    present = {name: result for name, result in programs.items() if "variants" in result}
    head = _HEAD.format(
        count=len(present),
        variants="\n".join(f"* *{_HEADS[name]}*: {text};" for name, text in VARIANTS.items())[:-1] + ".",
        captures=told["captures"],
        megabytes=round(told["bytes"] / 1e6),
        date=told["date"],
        machine=told["machine"],
        versions=", ".join(f"{name} {result['version']}" for name, result in present.items()),
    )
    return head + "".join(_program(name, result) for name, result in programs.items()) + _tail()


def _program(name: str, result: dict[str, Any]) -> str:
    program = PROGRAMS[name]
    title = f"\n## {name}\n\nFor {program.about}.\n\n"
    if "missing" in result:
        return f"{title}Not installed: {result['missing']}.\n"
    lines = [("", *_HEADS.values()), ("---", *["---:"] * len(_HEADS)), *_rows(result["variants"])]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    commands = "\n".join(result["commands"])
    return f"{title}{table}\n\n{_WHY[name]}\n\n```sh\n{commands}\n```\n"


def _rows(variants: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    for figure, base in variants[BASE]["figures"].items():
        cells = [figure]
        for name in _HEADS:
            if name not in variants:
                cells.append("not run")
                continue
            found = variants[name]["figures"][figure]
            mark = "" if name == BASE else " **=**" if found["sha256"] == base["sha256"] else " **≠**"
            cells.append(f"{found['rows']:,}{mark}")
        yield tuple(cells)


def _tail() -> str:
    packages = "argus-server, argus-client, nfdump, pmacct, softflowd and tshark of Debian"
    return _TAIL.format(packages=packages)


def equal(variants: dict[str, Any], figure: str) -> set[str]:
    """The variants whose rows are those of the first one."""
    base = variants[BASE]["figures"][figure]
    return {name for name, result in variants.items() if result["figures"][figure] == base}


if __name__ == "__main__":
    PAGE.write_text(page(json.loads(RESULTS.read_text(encoding="utf-8"))), encoding="utf-8")
