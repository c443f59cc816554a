"""The documentation site: pages are converted rightly, the check sees faults, and the whole site builds strictly."""

from __future__ import annotations

import re

from lowwater.config import Config
from lowwater.lake.layout import LEDGERS
from website import settings
from website.markdown import converted
from website.navigation import navigation
from website.reference import API, pages


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


def test_references_have_what_the_code_has() -> None:
    made = {name: maker() for name, (_, maker) in pages().items()}
    assert (
        "`expect_column_values_to_be_between` (column = gap_ns, min_value = 0, max_value = 0)"
        in made["reference/audits.md"]
    )
    assert all(f"\n## {name}\n" in made["reference/lake.md"] for name in LEDGERS if "/" not in name)
    assert "| `declared_from` | int64 | yes | what its name tells that it covers, ns |" in made["reference/lake.md"]
    for command in ("run", "ingest", "backfill", "explain"):
        assert f"\n## {command}\n" in made["reference/command-line.md"]
    assert all(f"\n### {name}\n" in made["reference/python.md"] for names in API.values() for name in names)
    assert "### LftaInfo (explain)" in made["reference/json.md"]
