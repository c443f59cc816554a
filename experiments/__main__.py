"""All experiments, each in a process of its own, then the page: `python -m experiments [--quick|--full] [ID...]`.

Above the experiments. A run that was interrupted goes on: results of the same sources and size lie under
`var/experiments` until all are there, and then replace those that are committed. Where one experiment fails, the others
are measured all the same. A list of the verdicts ends the run.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from experiments.frame import IMAGES, RESULTS, ROOT, Experiment, Size, digest
from experiments.page import PAGE, found_experiments, make, summary

KEPT = ROOT / "var" / "experiments"


def done(path: Path, sources: str) -> bool:
    """Whether a result is there, of the same sources."""
    return path.exists() and json.loads(path.read_text())["sources"] == sources


def result_of(experiment: Experiment, folder: Path) -> Path:
    """The result of an experiment in a folder."""
    return folder / f"{experiment.id.lower()}.json"


def measure(asked: Sequence[Experiment], size: Size, folder: Path) -> list[str]:
    """Measures the experiments whose results a folder does not have; gives those that fail."""
    sources, failed = digest(), []
    for each in asked:
        if done(result_of(each, folder), sources):
            print(f"{each.id}: measured before", flush=True)
            continue
        option = [] if size == Size.DEFAULT else [f"--{size}"]
        command = [sys.executable, "-m", f"experiments.{each.id.lower()}", *option, "--out", str(folder)]
        print(f"{each.id}: {each.title}", flush=True)
        if subprocess.run(command, cwd=ROOT, check=False).returncode:
            failed.append(each.id)
    return failed


def verdict_lines(asked: Sequence[Experiment], failed: Sequence[str], folder: Path) -> Iterator[str]:
    """The verdicts of all experiments, a claim a line, and what they took."""
    spent = 0.0
    for each in asked:
        if each.id in failed:
            yield f"{each.id}  failed"
            continue
        found = json.loads(result_of(each, folder).read_text())
        spent += found["processor_seconds"]
        verdicts = each.verdicts(found["rows"])
        yield f"{each.id}  {summary(verdicts)}"
        yield from (f"    {verdict.word}: {verdict.claim}: {verdict.ours}" for verdict in verdicts)
    yield f"{spent:.0f} processor seconds"


def main() -> None:
    """Measures what is missing, then makes the page; exits with 1 where an experiment fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ids", nargs="*", help="experiments; all without any")
    parser.add_argument("--quick", action="store_const", const=Size.QUICK, dest="size")
    parser.add_argument("--full", action="store_const", const=Size.FULL, dest="size")
    parser.set_defaults(size=Size.DEFAULT)
    given = parser.parse_args()
    known = {each.id: each for each in found_experiments()}
    wanted = [name.upper() for name in given.ids] or list(known)
    if unknown := [name for name in wanted if name not in known]:
        parser.error(f"no experiment {', '.join(unknown)}; there are {', '.join(known)}")
    asked, folder = [known[name] for name in wanted], KEPT / given.size
    failed = measure(asked, given.size, folder)
    print(*verdict_lines(asked, failed, folder), sep="\n")
    if failed:
        sys.exit(f"failed: {', '.join(failed)}; the others are kept in {folder}, run the command again")
    if given.size == Size.QUICK:
        make(folder, folder / "experiments.md", folder / "images" / "experiments")
        print(folder / "experiments.md")
        return
    RESULTS.mkdir(parents=True, exist_ok=True)
    for each in asked:
        shutil.move(result_of(each, folder), result_of(each, RESULTS))
    make(RESULTS, PAGE, IMAGES)
    print(PAGE)


if __name__ == "__main__":
    main()
