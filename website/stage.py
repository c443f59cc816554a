"""Prepares the folder from which mkdocs builds the site: `python -m website.stage var/website`.

It copies the documents as they lie in the repository, so that their links among one another stay right, adds the pages
of `website.reference`, shows files that are linked as pages of code, and writes the settings. It needs the platform's
own environment, and no network.
"""

from __future__ import annotations

import json
import os
import posixpath
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lowwater import __version__
from website.markdown import converted
from website.navigation import navigation
from website.reference import pages

ROOT = Path(__file__).parents[1]
PICTURES = (".png", ".svg", ".jpg")
_FETCHED = ("mermaid.js", "iframe-worker.js")
_CODE = {".py": "python", ".gsql": "sql", ".toml": "toml", ".json": "json", ".sh": "sh", ".yml": "yaml"}


def stage(out: Path) -> None:
    """Writes `docs/` and `mkdocs.yml` into a folder; the scripts of `website.fetch` lie in its `scripts/`."""
    docs = out / "docs"
    shutil.rmtree(docs, ignore_errors=True)
    shown: set[str] = set()
    for page in documents():
        name = page.relative_to(ROOT).as_posix()
        text = converted(page.read_text(encoding="utf-8"), _links_of(name, shown))
        _write(docs / name, text)
    for file in (ROOT / "docs").rglob("*"):
        if file.suffix in PICTURES:
            target = docs / file.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)
    added = {}
    for name, (title, maker) in pages().items():
        added[title] = name
        _write(docs / name, converted(maker(), _links_of(name, shown)))
    for name in sorted(shown):
        _write(docs / f"{_visible(name)}.md", code_page(name))
    assets = docs / "assets"
    for name in ("site.css", "site.js"):
        _write(assets / name, (ROOT / "website" / name).read_text(encoding="utf-8"))
    for script in _FETCHED:
        (assets / "scripts").mkdir(exist_ok=True)
        shutil.copyfile(out / "scripts" / script, assets / "scripts" / script)
    _write(out / "mkdocs.yml", settings(out, added))


def documents() -> list[Path]:
    """The pages of the repository that people read."""
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "queries").rglob("*.md")])


def settings(out: Path, added: dict[str, str]) -> str:
    """The settings of the build; JSON is YAML too."""
    index, decisions = ROOT / "docs" / "index.md", ROOT / "docs" / "adr" / "README.md"
    nav = navigation(index.read_text(encoding="utf-8"), decisions.read_text(encoding="utf-8"), added)
    base = os.path.relpath(ROOT / "website" / "mkdocs.yml", out)
    named = {"site_name": f"Lowwater {__version__}", "site_dir": f"site/{__version__}"}
    return json.dumps({"INHERIT": base, **named, "docs_dir": "docs", "nav": nav}, indent=1)


def code_page(name: str) -> str:
    """A page that shows a file of the repository, or names the files of a folder."""
    path = ROOT / name
    if path.is_dir():
        files = sorted(child.name + "/" * child.is_dir() for child in path.iterdir() if not child.name.startswith("_"))
        return f"# {name}/\n\nThe files of this folder of the repository:\n\n" + "".join(f"* `{f}`\n" for f in files)
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        return notebook_page(json.loads(text))
    fence = "````" if "```" in text else "```"
    return f"# {name}\n\n{fence}{_CODE.get(path.suffix, 'text')}\n{text.rstrip()}\n{fence}\n"


def notebook_page(document: dict[str, Any]) -> str:
    """A page with the cells of a notebook, what they print, and their plots."""
    parts = []
    for number, cell in enumerate(document["cells"], 1):
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            printed = "".join(output.get("text", data.get("text/plain", "")))
            parts += [f"```text\n{printed.rstrip()}\n```"] if printed else []
            if "image/png" in data:
                parts.append(f"![Plot of cell {number}](data:image/png;base64,{''.join(data['image/png']).strip()})")
    return "\n\n".join(parts) + "\n"


def _links_of(page: str, shown: set[str]) -> Callable[[str], str]:
    """How the links of a page are written on the site. Linked files that are no pages are added to `shown`."""

    def link(target: str) -> str:
        path, mark, anchor = target.partition("#")
        if not path or ":" in path:
            return target
        name = posixpath.normpath(posixpath.join(posixpath.dirname(page), path))
        file = ROOT / name
        if path.endswith((".md", *PICTURES)) or not file.exists():
            return target
        shown.add(name)
        return posixpath.relpath(f"{_visible(name)}.md", posixpath.dirname(page) or ".") + mark + anchor

    return link


def _visible(name: str) -> str:
    """The path on the site of a file of the repository: mkdocs leaves out what begins with a dot."""
    return "/".join(part.lstrip(".") for part in name.split("/"))


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    stage(Path(sys.argv[1]))
