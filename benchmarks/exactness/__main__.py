"""What exactness means: the same hour imported several times by several programs; are the rows equal?

`python -m benchmarks.exactness` writes docs/comparison.json, and `python -m benchmarks.exactness.page` the page of it.
With `--programs` and `--variants` only these are run, and the other results stay.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.exactness.inputs import LINKS, VARIANTS, Captures, generate, variants
from benchmarks.exactness.programs import PROGRAMS, Program, missing, version

RESULTS = Path(__file__).parents[2] / "docs" / "comparison.json"


def figure(rows: list[str]) -> dict[str, Any]:
    """The number of rows, and a digest of the rows in sorted order."""
    return {"rows": len(rows), "sha256": hashlib.sha256("\n".join(sorted(rows)).encode()).hexdigest()[:16]}


def compare(program: Program, inputs: dict[str, Captures], folder: Path) -> dict[str, Any]:
    """Imports every variant with one program.

    Returns:
        Its version and commands, and for each variant seconds and figures.
    """
    results: dict[str, Any] = {}
    for name, captures in inputs.items():
        out = folder / f"{program.name}-{name}"
        begin = time.monotonic()
        rows = program.take(captures, out)
        seconds = round(time.monotonic() - begin, 1)
        results[name] = {"seconds": seconds, "figures": {title: figure(found) for title, found in rows.items()}}
        shutil.rmtree(out)
        print(f"{program.name}, {name}: {seconds} s, " + ", ".join(f"{len(r):,} {t}" for t, r in rows.items()))
    return {"version": version(program), "commands": list(program.commands), "variants": results}


def run(programs: list[str], rate: float, seed: int, folder: Path, chosen: list[str] | None = None) -> dict[str, Any]:
    """Generates the hour and imports it with each program; a program that is not installed has no variants.

    Args:
        programs: names in `PROGRAMS`.
        rate: packets/s of a link.
        seed: equal seeds give equal captures.
        folder: an empty folder for captures and results.
        chosen: names in `VARIANTS`; None takes all.
    """
    hour = generate(folder / "captures", rate, seed)
    inputs = {name: files for name, files in variants(hour, folder).items() if name in (chosen or VARIANTS)}
    told: dict[str, Any] = {
        "date": time.strftime("%Y-%m-%d"),
        "machine": f"{os.cpu_count()} cores, {platform.system()} {platform.release()}",
        "captures": f"lowwater generate --links {','.join(LINKS)} --rate {rate:g} --seed {seed} "
        + " ".join(f"--skew {link}=0" for link in LINKS),
        "bytes": sum(file.stat().st_size for file in hour.values()),
        "programs": {},
    }
    for name in programs:
        program = PROGRAMS[name]
        absent = ", ".join(missing(program))
        if absent:
            told["programs"][name] = {"missing": absent}
            print(f"{name}: not installed: {absent}")
        else:
            told["programs"][name] = compare(program, inputs, folder)
    return told


def _merged(before: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """The results of both; those of now replace those of the same program and variant."""
    merged = dict(before)
    for name, result in now.items():
        earlier = before.get(name, {}).get("variants", {})
        if "variants" in result:
            found = earlier | result["variants"]
            result = {**result, "variants": {variant: found[variant] for variant in VARIANTS if variant in found}}
        merged[name] = result
    return merged


def main() -> None:
    """Runs the comparison and merges its results into the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", default=",".join(PROGRAMS), help="comma separated; default all")
    parser.add_argument("--variants", default=",".join(VARIANTS), help="comma separated; default all")
    parser.add_argument("--rate", type=float, default=140, help="packets/s of a link")
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="exactness") as folder:
        chosen = options.variants.split(",")
        told = run(options.programs.split(","), options.rate, options.seed, Path(folder), chosen)
    if options.out.exists():
        before = json.loads(options.out.read_text(encoding="utf-8"))
        if before["captures"] == told["captures"]:
            told["programs"] = _merged(before["programs"], told["programs"])
    told["programs"] = {name: told["programs"][name] for name in PROGRAMS if name in told["programs"]}
    told["variants"] = VARIANTS
    options.out.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
