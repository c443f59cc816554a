"""The page on which a query is written: what it checks, explains and tries, for whom; text is shown as text."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from fastapi import FastAPI
from lowwater_review import Ledgers
from lowwater_review.app import create
from lowwater_review.checking import WAITING, Checker

from lowwater.errors import LowwaterError
from lowwater.replay.look import LookRequest, run_look
from lowwater.replay.preview import LONGEST, Limits
from tests.breadth import some
from tests.browser import chromium, served
from tests.review.asgi import Answer, ask
from tests.review.ledgers import HOSTILE
from tests.review.test_pages import Reader

pytestmark = pytest.mark.slow
TEXT = "SELECT tb, srcIP, count(*) AS n\nFROM main1.IPV4\nGROUP BY time/60 AS tb, srcIP"
RANGE = {"from": "2026-01-01T00:00:00Z", "length": "5 minutes", "set": "q"}


def check(app: FastAPI, text: str, **more: str) -> dict[str, Any]:
    answer = ask(app, "/write/check", query=urlencode({"text": text, **more}))
    assert answer.status == 200 and "script-src" not in answer.headers["content-security-policy"]
    found: dict[str, Any] = json.loads(answer.text)
    return found


def write(app: FastAPI, text: str, headers: dict[str, str] | None = None, **more: str) -> Answer:
    return ask(app, "/write/index.html", query=urlencode({"text": text, **more}), headers=headers)


def test_mistakes_have_places_as_a_browser_counts_them(app: FastAPI) -> None:
    text = "SELECT '\U0001f600' AS face,\n  lenn FROM main1.TCP"
    (problem,) = check(app, text)["problems"]
    assert (problem["line"], problem["column"]) == (2, 3)
    assert problem["hint"] == "did you mean len?"
    units = text.encode("utf-16-le")
    assert units[2 * problem["start"] : 2 * problem["end"]].decode("utf-16-le") == "lenn"


def test_a_preview_shows_rows_and_without_a_script_the_page_is_whole(app: FastAPI) -> None:
    answer = write(app, TEXT, action="try", **RANGE)
    page = Reader(answer.text)
    words = " ".join(page.texts)
    assert "packets of" in words and "00:05" in words
    assert {"tb", "srcIP", "n", "10.0.0.1"} <= set(page.texts)
    assert "No mistake." in words
    answer = write(app, "SELECT lenn FROM main1.TCP", action="try", **RANGE)
    assert "did you mean len?" in answer.text and "The text has mistakes" in answer.text


def test_the_policy_allows_one_script_of_ours_on_this_page_only(app: FastAPI) -> None:
    policy = write(app, TEXT).headers["content-security-policy"]
    assert "script-src 'self'; connect-src 'self'; form-action 'self'" in policy
    assert "default-src 'none'" in policy and "unsafe" not in policy
    page = Reader(write(app, TEXT).text)
    assert [attrs["src"] for attrs in page.all("script")] == ["../assets/write.js"]
    script = ask(app, "/assets/write.js")
    assert script.status == 200 and "javascript" in script.headers["content-type"]
    assert "innerHTML" not in script.text and "eval" not in script.text and "http" not in script.text
    assert "script-src" not in ask(app, "/index.html").headers["content-security-policy"]


def test_hostile_text_is_shown_as_text(app: FastAPI) -> None:
    for text in (HOSTILE, f"SELECT '{HOSTILE}' AS x FROM main1.TCP", f"</textarea>{HOSTILE}", TEXT):
        for more in ({"set": HOSTILE}, {"from": HOSTILE, "action": "try"}, {"length": HOSTILE}, {"action": HOSTILE}):
            answer = write(app, text, **more)
            assert answer.status == 200
            assert HOSTILE not in answer.text and answer.text.count("<script") == 1
    found = check(app, f"SELECT {HOSTILE} FROM main1.TCP")
    assert found["problems"]


def test_a_long_text_is_refused_and_odd_ones_are_answered(app: FastAPI) -> None:
    assert "are the most here" in check(app, "x" * (LONGEST + 1))["error"]
    for text in ("", "\0", "\ufeff", "\r", ";" * 100, "(" * 500, "SELECT " + "a," * 3000, "🙂"):
        check(app, text)
        assert write(app, text).status == 200


def test_a_costly_text_is_checked_in_bounded_time(app: FastAPI) -> None:
    columns = ", ".join(f"len + {number} AS c{number}" for number in range(24))
    begin = time.process_time()
    check(app, f"SELECT count(*) AS n FROM main1.TCP GROUP BY time/60 AS tb, CUBE({columns})")
    check(app, "SELECT " + " + ".join(["len"] * 190) + " AS x FROM main1.TCP")
    assert time.process_time() - begin < 60


def test_nothing_is_written_to_the_lake(app: FastAPI, made: tuple[Path, Path]) -> None:
    write(app, TEXT)
    before = {path: path.stat().st_mtime_ns for path in made[0].rglob("*")}
    write(app, TEXT, action="try", **RANGE)
    check(app, TEXT)
    assert {path: path.stat().st_mtime_ns for path in made[0].rglob("*")} == before


@pytest.fixture(scope="module")
def address(app: FastAPI) -> Iterator[str]:
    """The pages below a prefix, as Airflow mounts them."""
    outer = FastAPI()
    outer.mount("/lowwater", app)
    with served(outer, 60) as at:
        yield f"{at}/lowwater"


def test_in_a_browser_by_the_keyboard_alone(address: str) -> None:
    """Write, see the mistake, go to it, mend it, try: no mouse; no request leaves the machine, nothing is refused."""
    wrong: list[str] = []
    with chromium() as started:
        page = started.new_page(viewport={"width": 1200, "height": 900})
        page.on("request", lambda asked: None if asked.url.startswith(address) else wrong.append(asked.url))
        page.on("console", lambda said: wrong.append(said.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("dialog", lambda asked: wrong.append(asked.message))
        page.goto(f"{address}/write/index.html?{urlencode({**RANGE, 'text': TEXT.replace('srcIP', 'srcIPP')})}")
        page.wait_for_selector("#problems button")
        for _ in range(30):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.className") == "place":
                break
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "text"
        selected = "document.activeElement.value.slice(document.activeElement.selectionStart, {0}.selectionEnd)"
        assert page.evaluate(selected.format("document.activeElement")) == "srcIPP"
        page.keyboard.press("Control+A")
        page.keyboard.insert_text(f"-- {HOSTILE}\n{TEXT.replace('count(*)', 'count()')}")
        page.wait_for_selector("#count:has-text('found')")
        page.keyboard.press("Control+A")
        page.keyboard.insert_text(f"-- {HOSTILE}\n{TEXT}")
        page.wait_for_selector("#count:has-text('No mistake.')")
        page.wait_for_selector("#explained:has-text('GROUP BY')")
        page.keyboard.press("Control+Enter")
        page.wait_for_selector("#rows table td")
        assert page.evaluate("document.activeElement.id") == "result"
        assert page.input_value("#text") == f"-- {HOSTILE}\n{TEXT}"
        for width in (390, 768, 1440, 2560):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert wrong == []


def test_a_text_that_takes_long_is_given_up_and_the_next_one_is_checked(made: tuple[Path, Path]) -> None:
    """A process that answers nothing, one that ends, and the real one; no other text waits for ever."""
    lake = made[0]
    for program in ("print(flush=True); import time; time.sleep(60)", "pass"):
        checker = Checker(Limits(1), [sys.executable, "-c", program])
        assert "takes too long" in checker.check(lake, TEXT, "q", ["main1"])["error"]
        assert not any(each.running for each in checker._processes.values())
    checker = Checker()
    texts = [f"SELECT time, len + {number} AS x FROM main1.TCP" for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda at: checker.check(lake, texts[at], "q", ["main1"], at), range(8)))
    busy = [each for each in found if "Other texts are being checked" in each["error"]]
    assert len(busy) == 8 - (WAITING + 1) and all(each["queries"] for each in found if each not in busy)
    checker.end()


def test_few_texts_of_one_person_wait() -> None:
    checker, begun, goes_on = Checker(), threading.Semaphore(0), threading.Event()

    def ask_it(asked: object, in_store: bool) -> dict[str, object]:
        begun.release()
        goes_on.wait(300)
        return {"error": ""}

    checker._ask = ask_it  # type: ignore[assignment, method-assign]
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(checker.check, Path("lake"), TEXT, "q", [], who) for who in "aaabbbcc"]
        assert begun.acquire(timeout=300)
        while sum(each.done() for each in asked) < 3:
            time.sleep(0.01)
        goes_on.set()
        refused = ["Other texts" in each.result()["error"] for each in asked]
    assert any(refused[:3]) and any(refused[3:6]) and sum(refused) == 3
    assert not checker._of


# The second tab: a statement of SQL.

SQL = "SELECT srcIP, count(*) AS n FROM main1.IPV4 GROUP BY ALL ORDER BY n DESC"
BUCKETS = "SELECT time // 60 AS tb, count(*) AS n FROM main1.TCP GROUP BY ALL"


def look(app: FastAPI, text: str, headers: dict[str, str] | None = None, **more: str) -> Answer:
    query = urlencode({"text": text, "from": RANGE["from"], "length": "1 hour", **more})
    return ask(app, "/write/sql.html", query=query, headers=headers)


def test_a_statement_is_answered_and_what_gsql_keeps_is_offered(app: FastAPI) -> None:
    page = Reader(look(app, SQL).text)
    assert {"srcIP", "n", "10.0.0.1"} <= set(page.texts) and "As a standing query" not in page.texts
    assert "Run" in ask(app, "/write/sql.html").text and "<td>" not in ask(app, "/write/sql.html").text
    answer = look(app, BUCKETS)
    (kept,) = [attrs["value"] for attrs in Reader(answer.text).all("input") if attrs.get("name") == "text"]
    assert kept.startswith("DEFINE { query_name 'kept'; }") and "No mistake." in write(app, kept, **RANGE).text
    names = " ".join(Reader(look(app, "SHOW TABLES").text).texts)
    assert "main1" in names and "ledgers" not in names


FORBIDDEN = (
    "SELECT * FROM read_text('{lake}/lowwater.toml')",
    "SELECT * FROM replays",
    "SELECT * FROM ledgers.replays",
    "SELECT * FROM '{lake}/lowwater.toml'",
    "SELECT * FROM 'http://127.0.0.1:1/a.parquet'",
    "SELECT * FROM read_parquet('{lake}/**/*.parquet')",
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM glob('/*')",
    "SELECT * FROM delta_scan('/tmp')",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET memory_limit = '1TB'",
    "COPY (SELECT 1) TO '/tmp/written-by-a-statement'",
    "ATTACH '/tmp/other.db'",
    "CREATE TABLE t AS SELECT 1",
    "SELECT 1; SELECT 2",
    "PRAGMA database_list",
    "EXPORT DATABASE '/tmp/all'",
)


def test_a_statement_reaches_no_file_ledger_setting_or_network(app: FastAPI, made: tuple[Path, Path]) -> None:
    """Whatever the text: another table, files, other machines, settings, what writes; and nothing is written."""
    lake = made[0]
    before = {path: path.stat().st_mtime_ns for path in lake.rglob("*")}
    for text in some(FORBIDDEN, 4):
        answer = look(app, text.format(lake=lake))
        assert answer.status == 200 and 'role="alert"' in answer.text and "<td>" not in answer.text, text
    assert {path: path.stat().st_mtime_ns for path in lake.rglob("*")} == before
    assert not Path("/tmp/written-by-a-statement").exists()


def test_a_statement_reads_what_its_reader_may_see(made: tuple[Path, Path]) -> None:
    nothing = create(Ledgers(*made), permissions=lambda: lambda name: False)
    for text in (SQL, "SELECT * FROM main1.TCP", "SELECT * FROM q"):
        assert 'role="alert"' in look(nothing, text).text, text
    assert "0" in Reader(look(nothing, "SELECT count(*) AS n FROM TCP").text).texts
    assert "main1" not in " ".join(Reader(look(nothing, "SHOW TABLES").text).texts)


def test_a_costly_statement_is_ended(made: tuple[Path, Path]) -> None:
    """Time, rows that do not fit into memory, and one large value: each ends, and says so."""
    lake, span = str(made[0]), (0, 1 << 62)
    for text in (
        "SELECT count(*) FROM range(1000000000000) a WHERE a.range % 7 = 8",
        "SELECT a.range, b.range FROM range(100000) a, range(100000) b ORDER BY 2, 1",
        "SELECT repeat('x', 2000000000) AS x",
    ):
        with pytest.raises(LowwaterError, match=r"was ended|memory"):
            run_look(LookRequest(lake, text, ("main1",), (), *span), Limits(3, 700))
    found = run_look(LookRequest(lake, "SELECT range AS n FROM range(5000)", ("main1",), (), *span))
    assert found.cut and len(found.rows) == 200 and found.rows[199] == ("199",)


def test_hostile_statements_are_shown_as_text(app: FastAPI) -> None:
    literal = HOSTILE.replace("'", "''")
    for text, more in (
        (HOSTILE, {}),
        (f"SELECT '{literal}' AS x", {}),
        (f'SELECT 1 AS "{HOSTILE.replace(chr(34), "")}"', {}),
        (f"</textarea>{HOSTILE}", {"from": HOSTILE}),
        (SQL, {"length": HOSTILE}),
    ):
        answer = look(app, text, **more)
        assert answer.status == 200 and HOSTILE not in answer.text and "<script" not in answer.text


def test_the_tab_has_no_script_and_another_site_runs_nothing(app: FastAPI) -> None:
    answer = look(app, SQL)
    policy = answer.headers["content-security-policy"]
    assert "script-src" not in policy and "form-action 'self'" in policy and "default-src 'none'" in policy
    answer = look(app, SQL, {"Sec-Fetch-Site": "cross-site"})
    assert "Another site" in answer.text and "<td>" not in answer.text
    assert "are the most here" in look(app, "SELECT 1" + " " * LONGEST).text
    assert [each["href"] for each in Reader(answer.text).all("a") if each.get("href") == "sql.html"] == ["sql.html"]


def test_the_tab_in_a_browser(address: str) -> None:
    wrong: list[str] = []
    with chromium() as started:
        page = started.new_page(viewport={"width": 1440, "height": 900})
        page.on("request", lambda asked: None if asked.url.startswith(address) else wrong.append(asked.url))
        page.on("console", lambda said: wrong.append(said.text))
        page.goto(f"{address}/write/index.html")
        page.click("nav.tabs a[href='sql.html']")
        page.fill("#text", BUCKETS)
        page.fill("[name=from]", RANGE["from"])
        page.click("button:has-text('Run')")
        page.wait_for_selector("#rows table td")
        for width in (390, 1440):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.click("text=Open it in GSQL")
        page.wait_for_selector("#count:has-text('No mistake.')")
    assert wrong == []


def test_another_site_makes_the_server_check_nothing(app: FastAPI) -> None:
    for site in ("cross-site", "same-site"):
        headers = {"Sec-Fetch-Site": site}
        answer = ask(app, "/write/check", query=urlencode({"text": TEXT}), headers=headers)
        assert answer.status == 403 and "Another site" in answer.text
        for more in ({}, {"action": "try", **RANGE}):
            answer = write(app, TEXT, headers, **more)
            assert answer.status == 200 and "Another site" in answer.text and "GROUP BY" in answer.text
            assert "<td>" not in answer.text
