"""The acts of the review pages without Airflow: what they would do, the command, and nothing that is done."""

from __future__ import annotations

import shlex
import tomllib
from html import unescape
from pathlib import Path
from urllib.parse import quote

import pytest
from lowwater_review import Ledgers, render
from lowwater_review.app import create
from lowwater_review.verdict import overview_verdict

from lowwater.config import load_config
from lowwater.instants import HOUR, SECOND, format_instant
from lowwater.replay.schedule.skew_review import with_skew
from tests.replay.support import lowwater
from tests.review.asgi import ask
from tests.review.ledgers import HOSTILE, START, make

pytestmark = pytest.mark.slow
HOURS, FAILED = 8, 5
SPAN = f"start={format_instant(START)}&end={format_instant(START + HOURS * HOUR)}"
ONE = f"start={format_instant(START + FAILED * HOUR)}&end={format_instant(START + (FAILED + 1) * HOUR)}"


@pytest.fixture(scope="module")
def ledgers(tmp_path_factory: pytest.TempPathFactory) -> Ledgers:
    return Ledgers(*make(tmp_path_factory.mktemp("acts"), HOURS, frozenset({FAILED})))


def test_each_act_says_what_it_would_do_and_shows_the_command(ledgers: Ledgers) -> None:
    """Without Airflow the button is disabled, and says why."""
    app = create(ledgers)
    wanted = {
        f"run/q?{ONE}": ("Run q again", "The rows become visible in one commit"),
        f"approve/q?{ONE}": ("Publish q in spite of its warnings", "The audited rows become visible"),
        f"backfill/q?{SPAN}": ("Backfill q", "of 8 intervals are due and would run"),
        f"backfill/q?{SPAN}&only=stale": ("Backfill q", "0 of 8 intervals are due"),
        "skew/main1?bound=7s": ("Set the skew of main1 to 7s", "The skew of main1 becomes"),
    }
    for address, texts in wanted.items():
        path, _, query = address.partition("?")
        page = ask(app, f"/act/{path}", query=query)
        assert page.status == 200, page.text
        assert 'disabled aria-describedby="why"' in page.text
        for text in texts:
            assert text in " ".join(page.text.split()), (address, text)
    assert "These pages only read" in ask(app, "/act/run/q", query=ONE).text


def test_the_command_of_a_skew_does_what_the_page_says(ledgers: Ledgers, tmp_path: Path) -> None:
    """All six published intervals read the link, so all become stale; the rest of the settings stays as it is."""
    root, queries = make(tmp_path, HOURS, frozenset({FAILED}))
    page = ask(create(Ledgers(root, queries)), "/act/skew/main1", query="bound=7s").text
    words = shlex.split(unescape(page.partition("The command: <code>")[2].partition("</code>")[0]))
    assert words[0] == "lowwater"
    before = (root / "lowwater.toml").read_text()
    dry = lowwater(*words[1:], "--queries", queries, "--dry-run")
    assert dry.code == 0 and "skew would be 7s, was 1s" in dry.out, dry
    assert (root / "lowwater.toml").read_text() == before
    done = lowwater(*words[1:], "--queries", queries)
    assert done.code == 0 and "main1: skew is 7s, was 1s; 6 published intervals become stale" in done.out, done
    assert "6 published intervals become stale" in page
    assert load_config(root).link("main1").skew == 7 * SECOND
    assert {name: load_config(root).link(name).skew for name in ("main2", "control")} == dict.fromkeys(
        ("main2", "control"), SECOND
    )


def test_nothing_is_done_without_airflow(ledgers: Ledgers) -> None:
    settings = ledgers.root / "lowwater.toml"
    before = Path(settings).read_bytes()
    app = create(ledgers)
    for kind, body in {"run": ONE, "approve": ONE, "backfill": SPAN, "skew": "bound=7s"}.items():
        name = "main1" if kind == "skew" else "q"
        answer = ask(app, f"/act/{kind}/{name}", "POST", body=f"{body}&seal=".encode())
        assert answer.status == 403, answer.text
    assert Path(settings).read_bytes() == before


def test_what_is_unknown_or_wrong_is_refused_as_text(ledgers: Ledgers) -> None:
    app = create(ledgers)
    assert ask(app, "/act/run/nobody", query=ONE).status == 404
    assert ask(app, "/act/erase/q", query=ONE).status == 404
    assert ask(app, "/act/skew/nobody").status == 404
    hostile = quote(HOSTILE)
    for path, query in {
        "/act/skew/main1": f"bound={hostile}",
        "/act/run/q": f"start={hostile}&end={hostile}",
        "/act/backfill/q": SPAN.replace("00:00:00Z", "00:00:01Z"),
        "/act/run/q ": SPAN,
    }.items():
        answer = ask(app, path.strip(), query=query)
        assert answer.status == 400 and "<script" not in answer.text and "<img" not in answer.text
    only = ask(app, "/act/backfill/q", query=f"{SPAN}&only={hostile}&order={hostile}&bound={hostile}")
    assert only.status == 200 and "<script" not in only.text and "<img" not in only.text


def test_pages_lead_to_acts_where_a_server_answers(ledgers: Ledgers) -> None:
    snapshot = ledgers.now()
    failed = f"interval/q/{format_instant(START + FAILED * HOUR)}_{format_instant(START + (FAILED + 1) * HOUR)}.html"
    for address, act in {failed.replace(":", ""): "act/run/q?", "set/q.html": "act/backfill/q?"}.items():
        served, file = render(snapshot, address, served=True), render(snapshot, address)
        assert served is not None and file is not None
        assert act in served and act not in file
    part = snapshot.part(START, START + HOURS * HOUR)
    verdict = overview_verdict(snapshot, part.intervals, part.audits)
    assert verdict is not None and verdict.act == (f"act/run/q?{ONE}", "Run it again")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('[links.a]\nskew = "1s" # x\n[links.b]\n', '[links.a]\nskew = "2s" # x\n[links.b]\n'),
        ('[links."a"]\nrotation = "1h"\n', '[links."a"]\nskew = "2s"\nrotation = "1h"\n'),
        ("[links.b]\nskew = '5s'\n[links.a]", "[links.b]\nskew = '5s'\n[links.a]\nskew = \"2s\"\n"),
        ('[links.a]\ncaptures = [\n  "x",\n]\nskew=1000\n', '[links.a]\ncaptures = [\n  "x",\n]\nskew="2s"\n'),
    ],
)
def test_only_the_skew_of_a_section_changes(before: str, after: str) -> None:
    assert with_skew(before, "a", 2 * SECOND, "lowwater.toml") == after
    parsed = tomllib.loads(after)
    assert parsed["links"]["a"]["skew"] == "2s"
