"""Text of packets, file names and queries reaches a terminal as text: every command, and the bytes that it prints."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from rich.table import Table

from lowwater.cli.main import cli
from lowwater.instants import format_instant
from lowwater.terminal import Terminal, shown, styled
from tests import capturemaker as maker
from tests.cli.hostile import HOSTILE, clean, everything
from tests.review import ledgers

FIRST = 1_735_689_600 * 1_000_000_000
NAME = HOSTILE.replace("/", "")
ESCAPED = "[/bold][red]\\u001b[31m\\u001b]0;title\\u0007\\u009b2J\\u202e\\u2066\\r"


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    folder = tmp_path / NAME
    folder.mkdir()
    path = folder / f"{NAME}.pcap"
    path.write_bytes(maker.pcap_bytes([(FIRST + n, maker.udp("10.0.0.1", "10.0.0.2", n, 53, b"x")) for n in range(5)]))
    return path


@pytest.fixture
def query(tmp_path: Path) -> Path:
    """A query whose text is hostile, in a file that is."""
    folder = tmp_path / "queries"
    folder.mkdir()
    path = folder / f"{NAME}.gsql"
    literal = HOSTILE.replace("\r", "")
    path.write_text(
        f"DEFINE {{ query_name 'q'; comment '{literal}'; }}\n"
        f"SELECT time, len, '{literal}' AS text FROM UDP WHERE UDP_data <> '{literal}' AND len > 0\n"
    )
    return path


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """A lake whose second interval failed its audit with hostile messages."""
    monkeypatch.setattr(ledgers, "HOSTILE", HOSTILE)
    return ledgers.make(tmp_path, 3, frozenset({1}))


@pytest.mark.slow
def test_captures(capture: Path, tmp_path: Path) -> None:
    shortened = capture.with_name(f"cut{NAME}.pcap")
    shortened.write_bytes(capture.read_bytes()[:-5])
    bad = capture.with_name(f"bad{NAME}.pcap")
    bad.write_bytes(b"nonsense" * 10)
    for form in ("table", "json", "csv"):
        clean("inspect", capture, "--format", form)
        clean("inspect", capture, shortened, bad, "--format", form, code=1)
    assert everything(clean("inspect", capture)).count("\\u001b") >= 4
    json.loads(clean("inspect", capture, "--format", "json").out)
    clean("inspect", capture.with_name(f"none{NAME}"), code=1)
    clean("generate", "--out", tmp_path / f"made{NAME}", "--hours", 1, "--rate", 0.05, "--links", "a")
    clean("generate", "--out", tmp_path / "made", "--links", HOSTILE, code=None)
    clean("generate", "--out", tmp_path / "made", "--skew", HOSTILE, code=2)
    clean("generate", "--out", tmp_path / "made", "--start", HOSTILE, code=2)
    clean("init", capture.parent, "--lake", tmp_path / f"lake{NAME}", code=None)
    made = tmp_path / "lake"  # Delta tables have no control characters in their paths
    made.mkdir()
    (made / "lowwater.toml").write_text("[links.a]\npayload = 64\n")
    said = clean("ingest", "--lake", made, "--link", "a", capture, shortened, bad, code=None)
    assert "\\u001b" in everything(said)
    clean("ingest", "--lake", made, "--link", HOSTILE, capture, code=None)
    clean("ingest", "--lake", made, "--link", "a", capture)
    out = tmp_path / f"out{NAME}.pcap"
    assert "\\u001b" in everything(clean("export", "--lake", made, "--out", out))
    clean("export", "--lake", made, "--out", out, "--where", f"len = '{HOSTILE}'", "--force", code=1)
    clean("export", "--lake", made, "--out", out, "--link", HOSTILE, code=1)
    clean("skew", "--lake", made)
    clean("skew", "--lake", made, "--link", HOSTILE, code=1)
    clean("skew", "--lake", made, "--link", HOSTILE, "--set", "2s", code=1)
    clean("skew", "--lake", made, "--link", "main1", "--set", HOSTILE, code=2)
    clean("maintain", "--lake", made)
    clean("upgrade", "--lake", made)
    clean("upgrade", "--lake", tmp_path / f"no{NAME}", code=1)
    clean("gx", "--lake", made, code=1)
    clean("maintain", "--lake", tmp_path / f"no{NAME}", code=1)


@pytest.mark.slow
def test_queries(query: Path, capture: Path, tmp_path: Path) -> None:
    for form in ("text", "json", "mermaid"):
        clean("explain", query, "--format", form)
    assert "\\u001b" in everything(clean("explain", query))
    clean("explain", query, "--kernel")
    json.loads(clean("explain", query, "--format", "json").out)
    clean("check", query)
    wrong = query.with_name(f"wrong{NAME}.gsql")
    wrong.write_text(f"SELECT nothing, '{HOSTILE}' FROM UDP; SELECT len FROM {HOSTILE}")
    for form in ("text", "json"):
        said = clean("check", wrong, "--format", form, code=1)
        assert "\\u001b" in everything(said)
    assert json.loads(said.out)["errors"][0]["file"] == str(wrong)
    shortened = capture.with_name(f"cut{NAME}.pcap")
    shortened.write_bytes(capture.read_bytes()[:-5])
    out = tmp_path / f"out{NAME}"
    options = ("--capture", f"a={shortened}", "--out", out, "--engine", "reference")
    assert "is cut" in clean("run", query, *options).out
    clean("run", query, *options, "--query", HOSTILE, code=1)
    clean("run", query, *options, "--param", f"x={HOSTILE}", code=2)
    clean("run", query, "--capture", f"a={NAME}none", "--out", out, code=2)
    clean("run", query, "--capture", HOSTILE, "--out", out, code=2)
    clean("run", tmp_path / f"none{NAME}.gsql", *options, code=2)
    clean("check", query, "--schema", f"{NAME}none", code=2)


@pytest.mark.slow
def test_a_lake(lake: tuple[Path, Path], tmp_path: Path) -> None:
    root, queries = lake
    (queries / "broken.gsql").write_text(f"SELECT nothing FROM main1.UDP WHERE '{HOSTILE}' = len\n")
    with (root / "lowwater.toml").open("a") as settings:
        settings.write("[query_sets.broken]\n")
    at = ("--lake", root, "--queries", queries)
    assert "\\u001b" in everything(clean("status", *at))
    assert ESCAPED in clean("report", *at).out.replace("\n", "")
    clean("report", *at, "--interval", format_instant(ledgers.START + 3_600_000_000_000))
    clean("report", *at, "--html", tmp_path / f"site{NAME}")
    for form in ("text", "json"):
        assert "\\u001b" in everything(clean("plan", *at, "--format", form, code=None))
        clean("skew", *at, "--format", form, code=None)
    clean("plan", *at, "--query-set", HOSTILE, code=1)
    clean("backfill", *at, "--query-set", "broken", code=1)
    clean("watch", *at, "--query-set", "broken", "--once", code=1)
    clean("replay", HOSTILE, *at, "--from", "2025-01-01", "--to", "2025-01-02", code=1)
    clean("replay", "broken", *at, "--from", "2025-01-01", "--to", "2025-01-02", code=1)
    clean("rows", HOSTILE, "--lake", root, code=1)
    clean("evidence", HOSTILE, "--lake", root, "--row", '{"n": 1}', "--out", root / "none.zip", code=1)
    clean("diff", HOSTILE, "--lake", root, "--from", "0", code=1)
    clean("history", HOSTILE, "--lake", root, code=1)
    clean("rollback", HOSTILE, "--lake", root, "--at", "2025-01-01", "--to", "0", "--because", HOSTILE, code=1)
    clean("set-aside", HOSTILE, "--lake", root, "--reason", HOSTILE, code=1)
    of_cause = ("--interval", "2025-01-01", "--link", HOSTILE, "--cause", "damage", "--why", HOSTILE)
    clean("accept", HOSTILE, *at, *of_cause, code=1)
    clean("accept", "q", *at, *of_cause, code=1)
    clean("why", HOSTILE, "2025-01-01", *at, code=1)
    clean("why", "q", "2025-01-01T01:00:00Z", *at)
    clean("log", "--lake", root)
    clean("log", "--lake", root, "--link", HOSTILE, code=None)
    clean("verify", "--lake", root, "--data", code=None)
    for_why = (*at, "--why", HOSTILE)
    clean("rename", "link", HOSTILE, "core", *for_why, code=1)
    clean("rename", "query", "flows", HOSTILE, *for_why, code=1)
    clean("move", "query", HOSTILE, "--to", HOSTILE, *for_why, code=1)
    clean("retire", "link", HOSTILE, *at, "--keep", "--why", HOSTILE, code=1)
    clean("retire", "link", HOSTILE, *at, "--drop", "--captures", code=1)
    clean("retire", "query", HOSTILE, *at, "--drop", "--why", HOSTILE, code=1)
    clean("erase", *at, "--where", HOSTILE, code=1)
    clean("erase", *at, "--where", "srcPort = 1", "--captures", code=None)
    clean("backup", "--lake", root, "--to", tmp_path / f"backups{NAME}", code=None)
    clean("restore", "--from", tmp_path / f"backups{NAME}", "--lake", tmp_path / f"restored{NAME}", code=None)
    clean("restore", "--from", tmp_path / f"no{NAME}", "--list")
    clean("verify", "--lake", root, "--link", HOSTILE, code=None)
    clean("try", HOSTILE, "--lake", root, code=1)
    clean("try", "trial", *at, "--skew", f"{NAME}=5s", "--query-set", "q", code=1)
    clean("try", "--lake", root)
    clean("serve", "--lake", root / HOSTILE, code=None)
    clean("lsp", "--links", root / HOSTILE, code=2)
    clean("expect")
    clean("expect", "--lake", root, "--suggest", code=None)
    clean("expect", *at, "--query-set", "q")
    suites = root / "expectations" / "q"
    suites.mkdir(parents=True)
    (suites / "flows.json").write_text(json.dumps({"name": HOSTILE, "expectations": []}, ensure_ascii=False))
    clean("expect", *at, "--query-set", "q", code=None)
    (suites / "flows.json").unlink()
    clean("maintain", "--lake", root)
    clean("explain", next(queries.glob("q.gsql")), "--with-stats", "--lake", root)
    (root / "lowwater.toml").write_text(f'[links.a]\n"{NAME[:13]}" = "\\u001b"\n')
    clean("status", *at, code=1)


def test_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / NAME))
    clean("doctor", code=None)
    clean("cookbook", HOSTILE, code=None)
    clean(HOSTILE, code=2)
    clean("--" + HOSTILE, code=2)


def test_every_command_is_driven() -> None:
    texts = [path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_*.py")]
    driven = {name for text in texts for name in re.findall(r"""\bclean\(\s*["']([a-z]+(?:-[a-z]+)*)["']""", text)}
    assert driven == set(cli.commands)


@given(st.text())
def test_what_is_shown_is_printable_and_what_was_printable_is_the_same(text: str) -> None:
    found = shown(text)
    assert all(char.isprintable() or char in "\n\t" for char in found)
    assert found == text or not all(char.isprintable() or char in "\n\t" for char in text)
    assert shown(found) == found
    found.encode()  # a lone surrogate, as of a file name that is no UTF-8, too
    assert json.loads(shown(json.dumps([text], ensure_ascii=False))) == [text]


def on_terminal() -> tuple[Terminal, io.StringIO]:
    out = io.StringIO()
    made = Terminal()
    made.file, made._force_terminal, made.width = out, True, 200
    return made, out


def printed(out: io.StringIO) -> str:
    """What was printed, without the colours and movements of the console itself."""
    return re.sub(r"\x1b\[\??[0-9;]*[A-Za-z]", "", out.getvalue()).replace("\r", "")


def test_on_a_terminal_no_text_is_obeyed() -> None:
    made, out = on_terminal()
    table = Table(f"head {HOSTILE}", title=HOSTILE)
    table.add_row(HOSTILE)
    table.add_row(styled(HOSTILE, "red"))
    made.print(HOSTILE, table, styled(HOSTILE, "bold") + HOSTILE)
    with made.working(HOSTILE) as working:
        working(f"more {HOSTILE}")
    text = printed(out)
    assert all(char.isprintable() or char in "\n\t" for char in text)
    assert "title\x07" not in out.getvalue() and text.count("[/bold][red]\\u001b[31m") >= 6
