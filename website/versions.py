"""Joins the sites of several versions: `python -m website.versions var/website/site`.

Each version is a folder of its own, such as `0.2.0/`. Beside them lie `index.html`, which leads to the newest, and
`versions.js`, from which the pages of every version learn of the others (`site.js`), without a server. To publish a
version, put its folder beside those that are there, and run this again.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

_VERSION = re.compile(r"\d+\.\d+\.\d+")
_INDEX = """<!doctype html>
<meta charset="utf-8">
<title>Lowwater</title>
<meta http-equiv="refresh" content="0; url={newest}/index.html">
<a href="{newest}/index.html">Lowwater {newest}</a>
"""


def versions(site: Path) -> dict[str, list[str]]:
    """Version -> its pages, the newest version first."""
    found = [
        folder for folder in site.iterdir() if _VERSION.fullmatch(folder.name) and (folder / "index.html").exists()
    ]
    found.sort(key=lambda folder: [int(part) for part in folder.name.split(".")], reverse=True)
    return {
        folder.name: sorted(page.relative_to(folder).as_posix() for page in folder.rglob("*.html")) for folder in found
    }


def join(site: Path) -> list[str]:
    """Writes `index.html` and `versions.js`; returns the versions, the newest first.

    Raises:
        SystemExit: the folder has no version.
    """
    pages = versions(site)
    if not pages:
        raise SystemExit(f"{site} has no folder of a version, such as 0.2.0\n  hint: make docs")
    (site / "versions.js").write_text(f"window.lowwaterVersions = {json.dumps(pages)};\n", encoding="utf-8")
    (site / "index.html").write_text(_INDEX.format(newest=next(iter(pages))), encoding="utf-8")
    return list(pages)


if __name__ == "__main__":
    print("versions:", ", ".join(join(Path(sys.argv[1]))))
