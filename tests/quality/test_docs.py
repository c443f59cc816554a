"""The pages of a report: complete, linked, escaped, and without an address or script."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pytest
from lowwater_expectations.audits import SUITES, Validation, read_suite
from lowwater_expectations.pages import assets, render, render_suites

from tests.quality.frames import CASES, GOOD, RUN, SECOND, audited, judged
from tests.review.test_pages import Reader as Page

pytestmark = pytest.mark.slow
HOSTILE = (
    "<script>alert('x')</script><img src=\"https://x.example/\" onerror=alert(1)> "
    '&lt;b> "$value" ${x} $$ {{ 7 * 7 }} `é`'
)


class Reader(Page):
    """What the tests of the audits ask of a page too: its text, its addresses and the ids in it."""

    def __init__(self, page: str) -> None:
        super().__init__(page)
        self.texts = [text.strip() for text in self.texts]
        self.text = " ".join(filter(None, self.texts))
        self.names = {tag for tag, _ in self.tags}
        self.addresses = [found[at] or "" for _, found in self.tags for at in ("href", "src") if at in found]
        self.ids = [found["id"] or "" for _, found in self.tags if "id" in found]


BROKEN = {"gap_ns": 20 * SECOND, "gaps": "from 1 to 2", "malformed": 12, "malformed_share": 0.012, "sane": 986}


def links_page(**row: object) -> tuple[Validation, str]:
    made = audited("links", **row)[0]
    return made, render(made)


def test_a_page_says_verdict_severity_messages_and_what_was_measured() -> None:
    made, page = links_page(**BROKEN)
    read = Reader(page)
    assert "failed links" in read.text
    every = read_suite("links").expectations
    held = f"{len(every) - 2} of {len(every)} expectations hold"
    assert "1 Jan 2026, 00:00 to 01:00 UTC" in read.text
    assert f"{held}. A critical one does not: nothing is published." in read.text
    assert re.search("critical Link main1: .* warning Link main1: ", read.text)
    assert read.text.index(held) < read.text.index("What was expected")
    for finding in made.findings:
        assert read.ids.count(finding.expectation) == 1
        assert all(message in read.texts for message in finding.messages)
    failed = {finding.expectation for finding in made.findings if not finding.success}
    assert re.findall(r"(passed|warned|failed) severity: (\w+)", read.text) == [
        ("passed" if entry.id not in failed else "failed" if entry.severity == "critical" else "warned", entry.severity)
        for entry in every
    ]
    assert [entry.severity for entry in every if entry.id in failed] == ["critical", "warning"]
    assert "link read malformed malformed share malformed warning main1 1,000 12 1.2% 1%" in read.text
    assert "1 of 2 links fails" in read.text
    assert "all 2 links hold" in read.text
    assert RUN in read.text
    assert "None" not in read.text


def test_a_page_tells_a_warning_from_a_pass() -> None:
    count = len(read_suite("links").expectations)
    assert f"{count} of {count} expectations hold. What" in Reader(links_page()[1]).text
    warned = f"{count - 1} of {count} expectations hold. Warnings do not stop the publication."
    assert warned in Reader(links_page(malformed_share=0.012)[1]).text


def test_what_the_data_holds_comes_out_as_text() -> None:
    texts = {"link": HOSTILE, "captures": HOSTILE, "interval": HOSTILE, "gaps": HOSTILE, "offsets": HOSTILE}
    made, page = links_page(**BROKEN | texts)
    read = Reader(page)
    plain = Reader(links_page(**BROKEN)[1])
    shown = [[tag for tag in each.names if tag not in ("span", "time")] for each in (read, plain)]  # of times
    assert shown[0] == shown[1] and sorted(read.addresses) == sorted(plain.addresses)
    assert HOSTILE in read.texts
    messages = [message for finding in made.findings for message in finding.messages]
    assert [message.count(HOSTILE) for message in messages] == [4, 4]
    assert all(message in read.texts for message in messages)


def test_the_other_suites_escape_too() -> None:
    """A row for each case, in one audit."""
    suites = ("lftas", "queries", "rows")
    hostile = dict.fromkeys(("interval", "captures", "lfta", "query", "columns", "example", "rule", "why"), HOSTILE)
    rows = {name: [row] for name, row in GOOD.items()}
    for suite in suites:
        (row,) = rows[suite]
        texts = {name: text for name, text in hostile.items() if name in row}
        rows[suite] = [row | case.broken | texts for case in CASES[suite]]
    made = judged({name: pa.Table.from_pylist(each) for name, each in rows.items()})
    for audit in (each for each in made if each.suite in suites):
        read = Reader(render(audit))
        assert "script" not in read.names
        assert HOSTILE in read.texts
        assert all(message in read.texts for finding in audit.findings for message in finding.messages)


def test_the_pages_of_the_suites_name_every_expectation_and_what_to_do() -> None:
    pages = render_suites()
    assert set(pages) == {f"{suite}.html" for suite in SUITES}
    for suite in SUITES:
        read = Reader(pages[f"{suite}.html"])
        for entry in read_suite(suite).expectations:
            assert read.ids.count(entry.id) == 1
            assert any(text.startswith(entry.type) and text.endswith(f" · {entry.id}") for text in read.texts)
            assert entry.description in read.texts
        assert read.text.count("What to do.") == len(read_suite(suite).expectations)
        assert not re.search(r"[*`]|\]\(", read.text), "notes have more markdown than the pages read"


def test_every_address_leads_to_a_file_of_the_report(tmp_path: Path) -> None:
    reports = tmp_path / "reports"
    files = {f"assets/{name}": data for name, data in assets().items()}
    files |= {f"suites/{name}": page.encode() for name, page in render_suites().items()}
    pages = {each.suite: f"demo/2026-01-01T00:00:00Z/{each.suite}.html" for each in audited()}
    files |= {pages[each.suite]: render(each).encode() for each in audited("links", **BROKEN)}
    for name, data in files.items():
        (reports / name).parent.mkdir(parents=True, exist_ok=True)
        (reports / name).write_bytes(data)

    reached, waiting = set(), [reports / pages["links"]]
    while waiting:
        path = waiting.pop()
        if path in reached:
            continue
        reached.add(path)
        assert path.is_file(), path
        if path.suffix == ".html":
            read = Reader(path.read_text(encoding="utf-8"))
            assert not read.names & {"script", "img", "iframe", "style", "base"}
            for address in read.addresses:
                assert re.fullmatch(r"#?[\w./-]+", address) and not address.startswith(("/", "http")), address
                assert not address.startswith("#") or address[1:] in read.ids
                waiting.append((path.parent / unquote(urlsplit(address).path)).resolve() if address[0] != "#" else path)
    assert reached == {reports / name for name in files}
