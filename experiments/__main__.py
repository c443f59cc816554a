"""All experiments, each in a process of its own, then the page: `python -m experiments [--quick|--full] [ID...]`.

Above the experiments. A run that was interrupted goes on: results of the same sources and size lie under
`var/experiments` until all are there, and then replace those that are committed.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path

from experiments.frame import IMAGES, RESULTS, ROOT, Size, digest
from experiments.page import PAGE, found_experiments, make

KEPT = ROOT / "var" / "experiments"


def done(path: Path, sources: str) -> bool:
    """Whether a result is there, of the same sources."""
    return path.exists() and json.loads(path.read_text())["sources"] == sources


def main() -> None:
    """Measures what is missing, then makes the page; exits with 1 where an experiment fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ids", nargs="*", help="experiments; all without any")
    parser.add_argument("--quick", action="store_const", const=Size.QUICK, dest="size")
    parser.add_argument("--full", action="store_const", const=Size.FULL, dest="size")
    parser.set_defaults(size=Size.DEFAULT)
    given = parser.parse_args()
    asked = [each for each in found_experiments() if not given.ids or each.id.lower() in map(str.lower, given.ids)]
    folder, sources, failed = KEPT / given.size, digest(), []
    for each in asked:
        name = each.id.lower()
        if done(folder / f"{name}.json", sources):
            print(f"{each.id}: measured before", flush=True)
            continue
        size = [] if given.size == Size.DEFAULT else [f"--{given.size}"]
        command = [sys.executable, "-m", f"experiments.{name}", *size, "--out", str(folder)]
        print(f"{each.id}: {each.title}", flush=True)
        if subprocess.run(command, cwd=ROOT, check=False).returncode:
            failed.append(each.id)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}; the others are kept in {folder}, run the command again")
    if given.size == Size.QUICK:
        make(folder, folder / "experiments.md", folder / "images" / "experiments")
        print(folder / "experiments.md")
        return
    RESULTS.mkdir(parents=True, exist_ok=True)
    for each in asked:
        shutil.move(folder / f"{each.id.lower()}.json", RESULTS / f"{each.id.lower()}.json")
    make(RESULTS, PAGE, IMAGES)
    print(PAGE)


if __name__ == "__main__":
    main()
