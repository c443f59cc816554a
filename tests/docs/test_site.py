"""The documentation site: pages are converted rightly, the check sees faults, and the whole site builds strictly."""

from __future__ import annotations

import base64
import hashlib
import io
import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lowwater import __version__
from lowwater.catalog.logs import BUILTIN
from lowwater.config import Config
from tests.browser import chromium
from tests.docs.book import ROOT
from tests.review.widths import wrong_places
from website import protocols, settings
from website.check import faults, parsed
from website.fetch import unpack
from website.markdown import converted
from website.navigation import navigation
from website.reference import API, pages
from website.stage import code_page, documents, stage
from website.versions import join

MKDOCS = ROOT / ".venv-docs" / "bin" / "mkdocs"
SCRIPTS = ROOT / "var" / "website" / "scripts"


def test_lists_are_indented_as_the_builder_wants_them() -> None:
    text = """Text:
* one
  more
  * inner
    further

  ```sql run
    a
  b
  ```
* two

End
1. first
   * dot
"""
    assert (
        converted(text)
        == """Text:

* one
    more
    * inner
        further

    ```sql
      a
    b
    ```
* two

End

1. first
    * dot
"""
    )


def test_a_notebook_is_a_page_with_its_plots_and_links_that_lead_somewhere() -> None:
    page = code_page("docs/notebook.ipynb")
    assert page.startswith("# A lake in a notebook") and page.count("](data:image/png;base64,") == 2
    assert "```python\nimport polars as pl" in page and "```text\n['dns_latency']" in page
    targets = [target for target in re.findall(r"\]\(([^)]+)\)", page) if not target.startswith("data:")]
    assert targets and all((ROOT / "docs" / target).is_file() for target in targets)


def test_links_in_code_stay_and_named_blocks_have_titles() -> None:
    text = "[a](x.py)\n```gsql named lib/q.gsql\n[a](x.py)\n```\n"
    expected = '[a](NEW)\n```sql title="lib/q.gsql"\n[a](x.py)\n```\n'
    assert converted(text, lambda target: "NEW") == expected


def test_the_navigation_has_every_kind_and_every_page_of_the_index() -> None:
    index = "## Tutorial\n\n* [A](a.md): x.\n  * [B](l/b.md#c): y.\n\n## Reference\n\n* [C](../C.md), [D](d.md): z.\n"
    index += "## Explanation\n\n* [Decisions](adr/README.md): w.\n* [Glossary](glossary.md): v.\n"
    nav = navigation(index, "* **1** [One](0001-one.md)\n", {"Command line": "reference/command-line.md"})
    assert nav[1:] == [
        {"Tutorial": [{"A": "docs/a.md"}, {"B": "docs/l/b.md"}]},
        {"Reference": [{"C": "C.md"}, {"D": "docs/d.md"}, {"Command line": "reference/command-line.md"}]},
        {"Explanation": []},
        {"Decisions": ["docs/adr/README.md", {"1. One": "docs/adr/0001-one.md"}]},
        {"Glossary": ["docs/glossary.md"]},
    ]


def test_the_check_sees_faults(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<h1 id="x">A</h1><a href="#x">1</a><a href="b.html#y">2</a><a href="c.html">3</a>'
    )
    (tmp_path / "b.html").write_text('<script src="https://cdn.example/x.js"></script><img src="no.png">')
    assert [fault.partition(" ")[2] for fault in faults(tmp_path)] == [
        "leads to b.html#y: no such anchor",
        "leads to c.html, which is not there",
        "loads https://cdn.example/x.js from elsewhere",
        "loads no.png, which is not there",
    ]


def test_another_package_than_the_pinned_one_is_refused(tmp_path: Path) -> None:
    package = tmp_path / "p.tgz"
    with tarfile.open(package, "w:gz") as archive:
        member = tarfile.TarInfo("package/x.js")
        member.size = 2
        archive.addfile(member, io.BytesIO(b"ok"))
    digest = "sha512-" + base64.b64encode(hashlib.sha512(package.read_bytes()).digest()).decode()
    assert unpack(package, digest, "package/x.js") == b"ok"
    with pytest.raises(SystemExit, match="not sha512-other"):
        unpack(package, "sha512-other", "package/x.js")


def test_references_have_what_the_code_has() -> None:
    made = {name: maker() for name, (_, maker) in pages().items()}
    assert (
        "`expect_column_values_to_be_between` (column = gap_ns, min_value = 0, max_value = 0)"
        in made["reference/audits.md"]
    )
    assert "| `violations` | int64 |" in made["reference/lake.md"] or "covers_from" in made["reference/lake.md"]
    for command in ("run", "ingest", "backfill", "explain"):
        assert f"\n## {command}\n" in made["reference/command-line.md"]
    assert all(f"\n### {name}\n" in made["reference/python.md"] for names in API.values() for name in names)
    assert "### LftaInfo (explain)" in made["reference/json.md"]


def test_bars_in_code_of_tables_are_no_columns() -> None:
    text = "| `a \\| b` | x \\| y |\n`a \\| b`\n```text\n| `\\|` |\n```\n"
    assert converted(text) == "| `a | b` | x \\| y |\n`a \\| b`\n```text\n| `\\|` |\n```\n"


def test_the_reference_of_settings_has_each_key_with_its_meaning() -> None:
    rows: dict[str, list[str]] = {}
    section = ""
    for line in settings.page().splitlines():
        if line.startswith("## "):
            section = line.removeprefix("## ").replace("\\", "")
        elif line.startswith("| `"):
            key, value, _, meaning = (cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1])
            assert value and meaning, f"{section} {key}"
            rows.setdefault(section, []).append(key.strip("`"))
    assert rows["[links.NAME.group_skew]"] == ["column", "values"] and "lake" in rows["At the top"]
    for name, field in Config.model_fields.items():
        if name not in ("lake", "links", "sets", "query_sets"):
            assert rows[f"[{name}]"] == list(type(field.get_default()).model_fields), name


def test_the_reference_of_protocols_has_each_protocol_and_column() -> None:
    text = protocols.page()
    for name, protocol in BUILTIN.items():
        assert f"| `{name}` |" in text or f"\n## {name}\n" in text
        assert all(f"`{column}`" in text for column in protocol.columns if column not in protocol.hidden), name


def built_site(folder: Path) -> None:
    shutil.copytree(SCRIPTS, folder / "scripts")
    stage(folder)
    words = [MKDOCS, "build", "--quiet", "--strict", "--config-file", folder / "mkdocs.yml"]
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"})
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site, and beside it an older version that lacks a page."""
    if not MKDOCS.exists() or not (SCRIPTS / "mermaid.js").exists():
        pytest.skip("`make docs` was never run here: it fetches the tools of the site")
    folder = tmp_path_factory.mktemp("site")
    built_site(folder)
    site = folder / "site"
    shutil.copytree(site / __version__, site / "0.1.0")
    (site / "0.1.0" / "docs" / "streams.html").unlink()
    (site / "drafts").mkdir()
    assert join(site) == [__version__, "0.1.0"]
    return site


@pytest.mark.slow
def test_the_site_builds_strictly_and_every_link_leads_somewhere(site: Path) -> None:
    site /= __version__
    assert list(faults(site)) == []
    built = {path.relative_to(site).as_posix() for path in site.rglob("*.html")}
    names = {page.relative_to(ROOT).with_suffix(".html").as_posix() for page in documents()}
    assert {name.replace("README.html", "index.html") for name in names} <= built
    assert parsed(site / "docs" / "semantics.html").anchors >= {"stale-and-publish"}
    shown = (site / "reference" / "command-line.html").read_text(encoding="utf-8")
    assert "[oldest|newest|random]" in shown


@pytest.fixture(scope="module")
def page(site: Path) -> Iterator[Any]:
    """A page of Chromium, which opens files; an error of a script, or a request to elsewhere, fails the tests."""
    wrong: list[str] = []
    with chromium() as started:
        found = started.new_page()
        found.on("request", lambda asked: wrong.append(asked.url) if asked.url.startswith("http") else None)
        found.on("pageerror", lambda error: wrong.append(str(error)))
        yield found
    assert wrong == []


def background(page: Any) -> str:
    color: str = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return color


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_search_themes_diagrams_and_versions_work_from_files(page: Any, site: Path) -> None:
    page.set_viewport_size({"width": 1440, "height": 900})
    page.emulate_media(color_scheme="light")
    page.goto((site / "index.html").as_uri())
    page.wait_for_url(f"**/{__version__}/index.html")
    light = background(page)
    page.emulate_media(color_scheme="dark")  # a second page, after a visit in the other theme
    page.goto((site / __version__ / "ARCHITECTURE.html").as_uri())
    assert light == "rgb(255, 255, 255)" != background(page)
    page.wait_for_function("document.querySelector('.mermaid')?.getBoundingClientRect().height > 100")
    page.click(".md-search__input")
    page.keyboard.type("punctuation", delay=30)
    page.wait_for_selector(".md-search-result__item")
    assert "matching documents" in page.inner_text(".md-search-result__meta")
    page.goto((site / __version__ / "docs" / "settings.html").as_uri())
    page.select_option("select.version", "0.1.0")
    page.wait_for_url("**/0.1.0/docs/settings.html")
    page.goto((site / __version__ / "docs" / "streams.html").as_uri())
    page.select_option("select.version", "0.1.0")  # which has no such page
    page.wait_for_url("**/0.1.0/index.html")


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("width", [390, 1440])
def test_pages_of_the_site_fit_the_screen(page: Any, site: Path, width: int) -> None:
    names = ["index", "docs/first-result", "docs/experiments", "reference/command-line", "reference/settings"]
    wrong = [
        place
        for name in names
        for place in wrong_places(page, (site / __version__ / f"{name}.html").as_uri(), width)
        if ".md-" not in place
    ]
    assert wrong == []
