"""Takes the screenshots of the documents with headless Chromium, after `make demo`.

`python scripts/screenshots.py` writes `docs/images/*.png`: every review page in light and dark, over a lake of ten
hours that it makes, with a capture that is missing, one that is cut and one whose records are in the wrong order; and
over the lake of the demo a Data Docs page, and Airflow with its grid and the review inside, which runs without a login
for as long as this takes. `--pages` leaves Airflow out; `--lake` and `--queries` name another lake for the pages.
"""

from __future__ import annotations

import argparse
import random
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

from home import ROOT, HomeError, default_home
from lowwater_generator import generate

from lowwater.errors import LowwaterError
from lowwater.instants import HOUR, format_instant, parse_instant
from lowwater.lake.tables import interval_label, safe_name

START = parse_instant("2026-01-01T00:00:00Z")
HOURS, MISSING, SHUFFLED = 10, 7, 4
"""Hours of the lake for the pages; of these the capture of main2 is missing, that of main1 is in the wrong order."""
SETTINGS = """\
[sets]
main0_and_control = ["main1", "control"]

[query_sets.demo]
files = ["{queries}/demo.gsql"]

[thresholds]
violating = {{ warning = 0.01, critical = 0.05 }}
"""
LINK = """
[links.{name}]
captures = "../captures/{name}/{name}_%Y%m%dT%H%M%SZ.pcap"
rotation = "1h"
max_jump = "10min"
since = "{since}"
until = "{until}"
outside = "accepted"
policy = "{policy}"
"""
IMAGES = ROOT / "docs" / "images"
NAMES = ("chromium", "chromium-browser", "google-chrome")
LIGHT, DARK = "--blink-settings=preferredColorScheme=1", "--blink-settings=preferredColorScheme=0"


def shoot(browser: str, address: str, image: Path, size: str, theme: str = LIGHT) -> None:
    """Takes a screenshot of one page.

    Raises:
        HomeError: the browser made no screenshot.
    """
    image.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as profile:
        command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--window-size={size}"]
        command += [
            theme,
            f"--user-data-dir={profile}",
            "--virtual-time-budget=20000",
            f"--screenshot={image}",
            address,
        ]
        finished = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if not image.exists():
        raise HomeError(f"{browser} took no picture of {address}:\n{finished.stderr[-500:]}")


def make_lake(folder: Path, queries: Path) -> Path:
    """Makes the lake for the pages: ten hours of three links, with every interval run that can run.

    Raises:
        HomeError: a command failed.
    """
    lake = folder / "demo" / "lake"
    lake.mkdir(parents=True)
    bounds = {"since": format_instant(START), "until": format_instant(START + HOURS * HOUR)}
    text = SETTINGS.format(queries=queries)
    for name, policy in (("main1", "fail"), ("main2", "fail"), ("control", "exclude")):
        text += LINK.format(name=name, policy=policy, **bounds)
    (lake / "lowwater.toml").write_text(text, encoding="utf-8")
    for capture in generate(folder / "demo" / "captures", START, HOURS, rate=4.0, seed=7):
        hour = (capture.start - START) // HOUR
        if (capture.link, hour) == ("main2", MISSING) or hour >= HOURS:
            capture.path.unlink()
        elif (capture.link, hour) == ("main1", SHUFFLED):
            shuffle(capture.path)
    for command in ("ingest", "backfill"):
        command_line = [sys.executable, "-m", "lowwater.cli.main", command, "--lake", str(lake)]
        finished = subprocess.run(command_line, capture_output=True, text=True, timeout=900, check=False)
        if finished.returncode not in (0, 1):  # 1: an interval has failed, as it is to
            raise HomeError(f"lowwater {command}: {finished.stderr[-500:]}")
    return lake


def shuffle(path: Path, window: int = 800) -> None:
    """Shuffles the records of a pcap within windows of records."""
    data = path.read_bytes()
    records, at = [], 24
    while at < len(data):
        (length,) = struct.unpack_from("<I", data, at + 8)
        records.append(data[at : at + 16 + length])
        at += 16 + length
    generator = random.Random(7)
    for begin in range(0, len(records), window):
        part = records[begin : begin + window]
        generator.shuffle(part)
        records[begin : begin + window] = part
    path.write_bytes(data[:24] + b"".join(records))


def review_pages(browser: str, lake: Path, queries: Path) -> None:
    """Takes the review pages of a lake, light and dark: the gravest interval, the last query set and query, one link.

    Raises:
        HomeError: no interval has run.
    """
    from lowwater_review import Ledgers, write_site
    from lowwater_review.ledgers import GRAVITY
    from lowwater_review.pages import months

    ledgers = Ledgers(lake, queries)
    snapshot = ledgers.now()
    intervals = [interval for part in months(snapshot) for interval in snapshot.part(part.start, part.end).intervals]
    judged = [interval for interval in intervals if interval.state not in ("missing", "cannot start", "running")]
    if not judged or not snapshot.jobs:
        raise HomeError(f"{lake}: no interval has run")
    worst = min(judged, key=lambda interval: GRAVITY.index(interval.state))
    job = list(snapshot.jobs.values())[-1]
    name, query, link = safe_name(job.query_set), safe_name(job.plan.queries[-1].name), safe_name(job.plan.links[-2])
    shown = {
        "calendar": ("index.html", "1280,1000"),
        "interval": (
            f"interval/{safe_name(worst.query_set)}/{interval_label(worst.start, worst.end)}.html",
            "1280,2750",
        ),
        "set": (f"set/{name}.html", "1280,1200"),
        "query": (f"query/{name}/{query}.html", "1280,2320"),
        "skews": ("skew/index.html", "1280,420"),
        "skew": (f"skew/{link}.html", "1280,1400"),
    }
    with tempfile.TemporaryDirectory() as folder:
        write_site(ledgers, Path(folder) / "site")
        for image, (address, size) in shown.items():
            page = (Path(folder) / "site" / address).as_uri()
            shoot(browser, page, IMAGES / f"review-{image}.png", size)
            shoot(browser, page, IMAGES / f"review-{image}-dark.png", size, DARK)


def main() -> int:
    """Takes all screenshots; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    home = default_home(anyone=True)
    parser.add_argument("--pages", action="store_true", help="only the review pages")
    parser.add_argument("--lake", type=Path)
    parser.add_argument("--queries", type=Path, default=home.queries)
    chosen = parser.parse_args()
    browser = next((path for name in NAMES if (path := shutil.which(name))), None)
    if browser is None:
        print("error: no Chromium\n  hint: apt-get install chromium", file=sys.stderr)
        return 1
    IMAGES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        review_pages(browser, chosen.lake or make_lake(Path(folder), chosen.queries), chosen.queries)
    if chosen.pages:
        return 0
    pages = sorted((home.lake / "reports" / "demo").glob("*/*.html"))
    if not pages or not (home.folder / "airflow.db").exists():
        print("error: Airflow has nothing to show\n  hint: run `make demo` first", file=sys.stderr)
        return 1
    incomplete = next(page for page in pages if page.stem == "links")  # the hour with the cut capture, which warned
    shoot(browser, incomplete.as_uri(), IMAGES / "data-docs.png", "1280,1000")
    try:
        home.prepare(keep=True)
        home.start()
        shoot(browser, f"{home.address}/dags/replay_demo/", IMAGES / "grid.png", "1700,700")
        shoot(browser, f"{home.address}/plugin/lowwater", IMAGES / "airflow-review.png", "1500,900")
        begin = format_instant(START + HOUR)[:13]  # the hour with the cut capture
        run = next(
            dag_run["dag_run_id"] for dag_run in home.runs("replay_demo") if dag_run["logical_date"].startswith(begin)
        )
        tab = f"{home.address}/dags/replay_demo/runs/{run}/plugin/lowwater_interval"
        shoot(browser, tab, IMAGES / "airflow-run.png", "1500,1000")
    finally:
        home.stop()
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (HomeError, LowwaterError) as problem:
        print(f"error: {problem}", file=sys.stderr)
        sys.exit(1)
