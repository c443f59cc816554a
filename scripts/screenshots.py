"""Takes the screenshots of the README with headless Chromium, after `make demo`: Airflow's grid and a Data Docs page.

`python scripts/screenshots.py` writes `docs/images/*.png`. Airflow runs without a login for as long as this takes.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from home import ROOT, HomeError, default_home

IMAGES = ROOT / "docs" / "images"
NAMES = ("chromium", "chromium-browser", "google-chrome")


def shoot(browser: str, address: str, image: Path, size: str) -> None:
    """One page as a picture.

    Raises:
        HomeError: the browser made none.
    """
    with tempfile.TemporaryDirectory() as profile:
        command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--window-size={size}"]
        command += [f"--user-data-dir={profile}", "--virtual-time-budget=20000", f"--screenshot={image}", address]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if not image.exists():
        raise HomeError(f"{browser} took no picture of {address}:\n{done.stderr[-500:]}")


def main() -> int:
    """Takes all of them; returns the exit code."""
    browser = next((found for name in NAMES if (found := shutil.which(name))), None)
    if browser is None:
        print("error: no Chromium\n  hint: apt-get install chromium", file=sys.stderr)
        return 1
    home = default_home(anyone=True)
    pages = sorted((home.lake / "reports" / "demo").glob("*/*.html"))
    if not pages or not (home.folder / "airflow.db").exists():
        print("error: there is nothing to show\n  hint: run `make demo` first", file=sys.stderr)
        return 1
    IMAGES.mkdir(parents=True, exist_ok=True)
    incomplete = [page for page in pages if page.stem == "links"][1]  # the hour with the cut capture
    shoot(browser, incomplete.as_uri(), IMAGES / "data-docs.png", "1280,1000")
    try:
        home.prepare(keep=True)
        home.start()
        shoot(browser, f"{home.address}/dags/replay_demo/", IMAGES / "grid.png", "1700,700")
    finally:
        home.stop()
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except HomeError as problem:
        print(f"error: {problem}", file=sys.stderr)
        sys.exit(1)
