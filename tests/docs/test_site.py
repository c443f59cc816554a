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
from pathlib import Path

import pytest

from tests.docs.book import ROOT
from website.check import faults, parsed
from website.fetch import fetch, unpack
from website.markdown import converted
from website.navigation import navigation
from website.reference import API, pages
from website.stage import code_page, documents, stage

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


@pytest.mark.slow
def test_a_script_that_cannot_be_fetched_is_told_in_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("npm") is None:
        pytest.skip("no npm")
    nowhere = {"registry": "http://127.0.0.1:9", "cache": str(tmp_path / "cache"), "fetch_retries": "0"}
    for name, value in nowhere.items():
        monkeypatch.setenv(f"npm_config_{name}", value)
    with pytest.raises(SystemExit, match=r"mermaid@\S+ cannot be fetched: npm error .*\n  hint: npm takes HTTPS_PROXY"):
        fetch(tmp_path / "out")


def test_references_have_what_the_code_has() -> None:
    made = {name: maker() for name, (_, maker) in pages().items()}
    assert "### `expect_link_to_be_covered`" in made["reference/audits.md"]
    assert "| `violations` | int64 |" in made["reference/lake.md"] or "covers_from" in made["reference/lake.md"]
    for command in ("run", "ingest", "backfill", "explain"):
        assert f"\n## {command}\n" in made["reference/command-line.md"]
    assert all(f"\n### {name}\n" in made["reference/python.md"] for names in API.values() for name in names)
    assert "### LftaInfo (explain)" in made["reference/json.md"]


@pytest.mark.slow
def test_the_site_builds_strictly_and_every_link_leads_somewhere(tmp_path: Path) -> None:
    if not MKDOCS.exists() or not (SCRIPTS / "mermaid.js").exists():
        pytest.skip("`make docs` was never run here: it fetches the tools of the site")
    shutil.copytree(SCRIPTS, tmp_path / "scripts")
    stage(tmp_path)
    words = [MKDOCS, "build", "--quiet", "--strict", "--config-file", tmp_path / "mkdocs.yml"]
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"})
    assert done.returncode == 0, done.stdout + done.stderr
    site = tmp_path / "site"
    assert list(faults(site)) == []
    built = {path.relative_to(site).as_posix() for path in site.rglob("*.html")}
    names = {page.relative_to(ROOT).with_suffix(".html").as_posix() for page in documents()}
    assert {name.replace("README.html", "index.html") for name in names} <= built
    assert parsed(site / "docs" / "semantics.html").anchors >= {"stale-and-publish"}
