"""A lake in which everything that others name is markup, a formula or a control."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lowwater_expectations.pages import render

from lowwater.instants import HOUR, SECOND, format_instant, parse_instant
from lowwater.lake.layout import REPLAYS, open_lake
from lowwater.lake.ledgers.runs import ReplayRow
from lowwater.lake.results.subscription import consumers_folder
from lowwater.lake.tables import append_rows
from tests.capturemaker import tcp, udp
from tests.hellomaker import browser
from tests.pcapngmaker import COMMENT, Section
from tests.quality.frames import audited
from tests.replay.support import lowwater
from tests.review import ledgers
from tests.review.resultlake import publish_run

START = parse_instant("2025-01-01T00:00:00Z")
SCRIPT = "<script>alert(1)</script><img src=x onerror=alert(2)>"
CLOSES = "\"'`></td></title></textarea></style></svg><svg onload=alert(3)><a href=javascript:alert(4)>x</a>{{7*7}}{%x%}"
ODD = '\u202e\u2066\x1b[31m\r\n\t\x07&lt;b&gt;\x00\'"=HYPERLINK("x")'
BAD = (SCRIPT + CLOSES + ODD).replace("\0", "")
"""A text that ends whatever stands around it."""

QUERIES = """
DEFINE {{ query_name 'web'; }}
SELECT time, http_host, http_uri, http_user_agent FROM [wires].HTTP WHERE http_uri <> '{quoted}';
DEFINE {{ query_name 'names'; }} -- {line}
SELECT time, dns_query, '{quoted}' AS said FROM [wires].DNS;
DEFINE {{ query_name 'tls'; }} // {line}
SELECT tb, tls_server_name, count(*) AS cnt FROM [wires].TLS GROUP BY time/60 AS tb, tls_server_name;
DEFINE {{ query_name 'logged'; }}
SELECT tb, who, count(*) AS cnt, sum(bytes) AS bytes FROM log.LOG GROUP BY time/60 AS tb, who;
"""
SCHEMA = "PROTOCOL LOG { uint time get_csv_uint (increasing); string who get_csv_string; uint bytes get_csv_uint; }"


def harmless(text: str) -> str:
    """The text with letters and dots for all that has a meaning somewhere; as long as before."""
    return re.sub(r"[^A-Za-z0-9.]", "x", text)


def as_it_is(text: str) -> str:
    """The text."""
    return text


def make_hostile(folder: Path, say: Callable[[str], str] = as_it_is) -> tuple[Path, Path]:
    """Makes the lake."""
    root, queries, captures = folder / "lake", folder / "queries", folder / "captures"
    lake = open_lake(root)
    queries.mkdir()
    captures.mkdir()
    file = re.sub(r"[/\0]", "_", say(BAD))[:90]
    pcapng = captures / f"{file}.pcapng"
    pcapng.write_bytes(_capture(say))
    log = captures / f"{file}.csv"
    log.write_bytes(_log(say))
    bounds = f'since = "{format_instant(START)}"\nuntil = "{format_instant(START + HOUR)}"\n'
    wire = f"main1/{say(SCRIPT)}"
    (root / "lowwater.toml").write_text(
        f'[links.main1]\n{bounds}applications = ["dns", "http", "tls"]\npolicy = "publish"\n'
        f'captures = "{captures}/*.pcapng"\n'
        f'[links.log]\nkind = "csv"\nschemas = "log.schema"\n{bounds}captures = "{captures}/*.csv"\n'
        f"[sets]\nwires = [{json.dumps(wire)}]\n[query_sets.q]\n",
        encoding="utf-8",
    )
    (root / "log.schema").write_text(SCHEMA)
    line = " ".join(say(BAD).split())
    quoted = say(SCRIPT + CLOSES).replace("'", "''").replace("\\", "")
    text = QUERIES.format(line=line, quoted=quoted)
    (queries / "q.gsql").write_text(text, encoding="utf-8")
    for link, path in (("main1", pcapng), ("log", log)):
        life = f"{format_instant(START)}/{format_instant(START + HOUR)}"
        done = lowwater("ingest", "--lake", root, "--link", link, "--covers", life, path)
        assert done.code == 0, done
    _leave_aside(root, captures, say)
    publish_run(folder, root, queries / "q.gsql", {"main1": pcapng, "log": log})
    _record(root, say)
    reader = Path(consumers_folder(lake, "logged")) / f"{say(SCRIPT)[:60].replace('/', '_')}.json"
    reader.parent.mkdir(parents=True)  # as nobody here names one: `subscribe` refuses it
    reader.write_text(json.dumps({"version": 1, "until": START + HOUR, "seen": START + HOUR}))
    plot = {"title": say(SCRIPT)[:70], "query": "logged", "number": "bytes", "key": "who"}
    plot["filters"] = [["who", "<>", say(CLOSES)]]  # type: ignore[assignment]
    (queries / "q.plots.json").write_text(json.dumps([plot]))
    (root / "reports" / "q" / "some").mkdir(parents=True, exist_ok=True)
    broken = {"gap_ns": 20 * SECOND, "gaps": say(BAD), "captures": say(BAD), "link": wire, "violations": say(BAD)}
    for made in audited("links", **broken):
        (root / "reports" / "q" / "some" / f"{made.suite}.html").write_text(render(made))
    return root, queries


def _capture(say: Callable[[str], str]) -> bytes:
    section = Section()
    text = say(SCRIPT + CLOSES)
    host, target, agent = (re.sub(r"[\s]", "_", each) for each in (text, f"/{text}", text))
    asked = f"GET {target} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: {agent}\r\n\r\n".encode()
    label = say("<script>alert(5)</script>").encode()
    question = b"\0\1\1\0\0\1" + bytes(6) + bytes([len(label)]) + label + b"\0\0\1\0\1"
    payloads = [
        tcp("10.0.0.1", "10.0.0.2", 4000, 80, data=asked),
        udp("10.0.0.1", "10.0.0.2", 4001, 53, question),
        tcp("10.0.0.1", "10.0.0.2", 4002, 443, data=browser(say(SCRIPT + "'\"="))),
    ]
    comment = [(COMMENT, say(BAD).encode())]
    made = section.header(options=comment) + section.interface(say(SCRIPT), options=comment)
    for at, packet in enumerate(payloads):
        made += section.packet(START // 1000 + at * 60_000_000, packet, options=comment)
    return made + b"\x06\0\0\0\xff\xff\xff\xff" + say(SCRIPT).encode()  # damage at the end


def _log(say: Callable[[str], str]) -> bytes:
    rows = ["time,who,bytes"]
    for at, text in enumerate((SCRIPT, CLOSES, "=cmd|' /C calc'!A0", "javascript:alert(1)", "\u202etxt.exe")):
        quoted = say(text).replace('"', '""')
        rows.append(f'{START // SECOND + at},"{quoted}",{at}')
    rows.append(f'{START // SECOND + 9},"{say(SCRIPT)}",{say("<b>")}')  # no number: a malformed row
    return "\n".join(rows).encode() + b"\n"


def _leave_aside(root: Path, captures: Path, say: Callable[[str], str]) -> None:
    """Files that nobody reads: one is set aside with a reason, the others are told on the pages."""
    names = [f"{say(SCRIPT)[:60].replace('/', '_')}.bak".encode(), say("\"'><svg onload=x>").encode() + b".pcapng.tmp"]
    names += [say("a\nb\u202e").encode() + (b"\xff\xfe" if say is as_it_is else b"xx") + b".gz"]
    names += [say("<b>").encode().ljust(250, b"a")]
    for name in names:
        Path(os.fsdecode(os.fsencode(captures) + b"/" + name)).write_bytes(b"x" * 40)
    assert lowwater("ingest", "--lake", root).code in (0, 1)
    done = lowwater("set-aside", "--lake", root, os.fsdecode(names[0]), "--reason", say(BAD), "--by", say(SCRIPT))
    assert done.code in (0, 1), done


def _record(root: Path, say: Callable[[str], str]) -> None:
    """What runs and audits of somebody else's lake left in its ledgers, among them of a query set that is unknown."""
    lake = open_lake(root)
    rows: list[dict[str, Any]] = []
    for name in ("q", say(SCRIPT + "unknown")):
        run = ReplayRow(name, say(SCRIPT), START, START + HOUR, "low", "failed", START + 2 * HOUR, reason=say(BAD))
        rows.append(asdict(run))
    append_rows(lake.replays, ledgers.table(rows, REPLAYS))


def hostile_ledgers(folder: Path, say: Callable[[str], str], monkeypatch: Any) -> tuple[Path, Path]:
    """A lake of ledgers as in `ledgers`, with audits that found hostile subjects, and a cluster of hostile reasons."""
    monkeypatch.setattr(ledgers, "HOSTILE", say(SCRIPT + CLOSES))
    return ledgers.make(folder, 8, frozenset({5}))
