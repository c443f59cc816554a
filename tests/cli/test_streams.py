"""`streams`, `tail`, `metrics` and `traces` over a lake whose ledgers and tables are made without runs."""

from __future__ import annotations

import csv
import http.client
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lowwater import processes
from lowwater.catalog.schemas import PUNCTUATION, ROW
from lowwater.instants import HOUR, SECOND, format_instant
from lowwater.lake import words
from lowwater.lake.layout import HEARTBEATS, REPLAYS, open_lake, result_schema
from lowwater.lake.ledgers.runs import ReplayRow, read_replays, record_heartbeats, record_replays
from lowwater.lake.results.streams import fingerprint, stream_files
from lowwater.lake.results.subscription import subscribe
from lowwater.lake.tables import replace_rows
from lowwater.replay.job import Job
from lowwater.replay.schedule.due import statuses
from lowwater.replay.telemetry import serving
from tests.cli.hostile import HOSTILE, clean
from tests.lake.support import publish_interval, put_stream
from tests.replay.support import listening
from tests.review.ledgers import LINKS, START, make

HOURS = 6
COUNTS = {"sane": 60, "not_of_protocol": 0, "filtered": 10, "failed": 0, "sampled_out": 0, "shed": 15, "accepted": 35}
COUNTS |= {"rows_out": 3, "punctuations": 1, "nanoseconds": SECOND // 4}


class Setup:
    """A lake with the query set `q` of the review pages, and its table `flows`."""

    def __init__(self, folder: Path) -> None:
        self.root, self.queries = make(folder, HOURS, frozenset({4}))
        self.lake, self.published = open_lake(self.root), 0
        (self.query,) = Job.open(self.root, "q", self.queries).plan.queries
        # This setup publishes itself.
        replace_rows(self.lake.replays, REPLAYS.empty_table(), pc.field("stage") == "publish")
        shutil.rmtree(str(self.lake.table("flows")))

        last = START + (HOURS - 1) * HOUR
        beats = [
            {"lfta": "flows_low", "link": "main1", "start": last + minute * 60 * SECOND, "end": last, **COUNTS}
            for minute in range(2)
        ]
        rows = pa.Table.from_pylist(beats, schema=HEARTBEATS.remove(0))
        record_heartbeats(self.lake, "q", last, last + HOUR, rows)

    def publish(self, hour: int, count: int, digest: str = "") -> None:
        """Publishes `count` rows of the first minutes of an hour."""
        start, fields = START + hour * HOUR, self.query.high.fields
        rows: list[dict[str, Any]] = []
        for n in range(count):
            last = start + n * 60 * SECOND + 59 * SECOND
            rows.append({"tb": last // (60 * SECOND), "srcIP": "10.0.0.1", "cnt": n, "_last": last, "_kind": ROW})
        rows.append({"_last": start + HOUR, "_kind": PUNCTUATION})
        schema = result_schema(fields)
        table = pa.Table.from_pylist(
            [{**row, "_tick": row["_last"], "_until": row["_last"], "_period": 0, "interval": ""} for row in rows],
            schema=schema,
        )
        put_stream(self.lake.stream("flows"), fields, start, start + HOUR, table, "q")
        audited = fingerprint(stream_files(self.lake.stream("flows"), start, start + HOUR))
        known, self.published = digest or f"{hour} {count}", self.published + 1
        done = publish_interval(self.lake, "q", "flows", fields, start, start + HOUR, known, audited)
        facts = {"digest": known, "rows": done.rows, "publication": done.number}
        row = ReplayRow(
            "q", "flows", start, start + HOUR, "publish", "done", start + 2 * HOUR + self.published, **facts
        )
        record_replays(self.lake, [row])


@pytest.fixture(scope="module")
def setup(tmp_path_factory: pytest.TempPathFactory) -> Setup:
    made = Setup(tmp_path_factory.mktemp("streams"))
    made.publish(0, 3)
    made.publish(1, 2)
    with subscribe(made.root, "flows", name="billing") as stream:
        change = stream.poll()
        assert change is not None
        stream.done(change)
    made.publish(3, 1)
    return made


@pytest.mark.slow
def test_streams_say_what_is_published(setup: Setup) -> None:
    said = clean("streams", "--lake", setup.root, "--queries", setup.queries, "--json")
    (stream,) = json.loads(said.out)["streams"]
    columns = {column["name"]: column for column in stream["columns"]}
    assert list(columns) == ["tb", "srcIP", "cnt"]
    assert columns["tb"]["temporal"] == "increasing" and columns["tb"]["of"] == "clock/1000000000/60"
    assert columns["tb"]["promise"] == (START + 4 * HOUR) // (60 * SECOND)
    assert [columns[name]["type"] for name in columns] == ["int64", "string", "int64"]
    assert (stream["owner"], stream["key"], stream["links"]) == ("q", ["tb", "srcIP"], sorted(LINKS))
    assert stream["published"] == [[START, START + 2 * HOUR], [START + 3 * HOUR, START + 4 * HOUR]]
    assert (stream["until"], stream["captured"]) == (START + 4 * HOUR, START + HOURS * HOUR)
    assert stream["lag"] == 2 * HOUR
    (reader,) = stream["readers"]
    assert (reader["kind"], reader["name"], reader["until"]) == ("subscriber", "billing", START + HOUR)
    assert reader["behind"] == 1 and abs(reader["seen"] - time.time_ns()) < 3600 * SECOND
    text = clean("streams", "--lake", setup.root, "--queries", setup.queries).out
    for word in ("flows", "tb, srcIP", "1 hole", "billing", "lag", "2h", "later rows >="):
        assert word in text, word


def tailed(setup: Setup, *more: object, form: str = "json") -> list[dict[str, Any]]:
    said = clean("tail", "flows", "--lake", setup.root, "--format", form, *more)
    if form == "json":
        return [json.loads(line) for line in said.out.splitlines()]
    return list(csv.DictReader(io.StringIO(said.out)))


@pytest.mark.slow
def test_tail_prints_rows_and_then_promises(setup: Setup) -> None:
    lines = tailed(setup, "--from", format_instant(START + HOUR))
    assert [line["_kind"] for line in lines] == ["row", "row", "punctuation", "row", "punctuation"]
    assert [line["_last"] for line in lines if line["_kind"] == "punctuation"] == [START + 2 * HOUR, START + 4 * HOUR]
    assert (lines[2]["tb"], lines[4]["tb"]) == (None, (START + 4 * HOUR) // (60 * SECOND))
    newest = tailed(setup, form="csv")
    assert [(line["_kind"], line["cnt"]) for line in newest] == [("row", "0"), ("punctuation", "")]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_tail_follows_and_stops_cleanly(setup: Setup, number: signal.Signals) -> None:
    arguments = [sys.executable, "-m", "lowwater.cli.main", "tail", "flows", "--lake", str(setup.root), "--follow"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        [*arguments, "--format", "json", "--every", "50ms"], stdout=subprocess.PIPE, env=environment, text=True
    ) as process:
        assert process.stdout is not None
        while json.loads(process.stdout.readline())["_kind"] != "punctuation":
            pass  # the last interval
        setup.publish(3, 2, f"again {number}")
        lines = [json.loads(process.stdout.readline()) for _ in range(4)]
        assert [line["_kind"] for line in lines] == ["restated", "row", "row", "punctuation"]
        assert (lines[0]["_last"], lines[0]["_until"]) == (START + 3 * HOUR, START + 4 * HOUR)
        process.send_signal(number)
        rest, _ = process.communicate(timeout=500)
        assert (process.returncode, rest) == (0, "")


def samples(text: str) -> dict[str, float]:
    parser = pytest.importorskip("prometheus_client.parser")
    return {
        f"{sample.name}{sorted(sample.labels.items())}": sample.value
        for family in parser.text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.mark.slow
def test_metrics_are_what_the_ledgers_say(setup: Setup, tmp_path: Path) -> None:
    text = clean("metrics", "--lake", setup.root, "--queries", setup.queries).out
    values = samples(text)
    of_stream = "[('query_set', 'q'), ('stream', 'flows')]"
    assert values["lowwater_up[]"] == 1
    assert values[f"lowwater_stream_lag_seconds{of_stream}"] == 2 * 3600
    assert values[f"lowwater_stream_holes{of_stream}"] == 1
    assert values["lowwater_link_packets[('link', 'main1')]"] == 100 * HOURS
    shown = Counter[str]()
    for row in statuses(setup.root, setup.queries):  # of one query
        shown[row.shown] += row.intervals
    counted = {word: values[f"lowwater_intervals[('query_set', 'q'), ('state', '{word}')]"] for word in words.STATES}
    assert counted == {word: shown[word] for word in words.STATES} and counted[words.FAILED] == 1
    assert values["lowwater_audit_failed[('query_set', 'q'), ('severity', 'critical')]"] >= 1
    assert values["lowwater_last_audit_failed[('query_set', 'q'), ('severity', 'critical')]"] == 0
    assert values["lowwater_subscriber_behind_versions[('stream', 'flows'), ('subscriber', 'billing')]"] >= 1
    of_lfta = "('lfta', 'flows_low'), ('link', 'main1'), ('outcome', '{}'), ('query_set', 'q')"
    assert [values[f"lowwater_lfta_records[{of_lfta.format(name)}]"] for name in ("accepted", "shed")] == [70, 30]
    assert values["lowwater_query_set_broken[('query_set', 'q')]"] == 0
    out = tmp_path / "lowwater.prom"
    clean("metrics", "--lake", setup.root, "--queries", setup.queries, "--textfile", out)
    assert set(samples(out.read_text())) == set(values)
    clean("metrics", "--lake", setup.root, "--textfile", tmp_path / "metrics.txt", code=2)
    clean("metrics", "--lake", tmp_path / HOSTILE, code=1)


@pytest.mark.slow
def test_metrics_are_served_and_stop_cleanly(setup: Setup) -> None:
    pytest.importorskip("prometheus_client")
    arguments = ["metrics", "--lake", str(setup.root), "--queries", str(setup.queries), "--listen", "127.0.0.1:0"]
    with subprocess.Popen(
        [sys.executable, "-m", "lowwater.cli.main", *arguments], stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        address = process.stderr.readline().strip()
        with urllib.request.urlopen(address, timeout=500) as answer:
            assert samples(answer.read().decode())["lowwater_up[]"] == 1
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=500)
        assert process.returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:{port}", 200),
        ("localhost", 200),
        ("[::1]:1", 200),
        ("evil.example", 421),
        ("", 421),
        ("127.0.0.1.evil.example", 421),
    ],
)
def test_metrics_on_loopback_answer_to_its_names_only(host: str, status: int, setup: Setup) -> None:
    """A page of another setup, whose name leads to this machine, would read them otherwise."""
    pytest.importorskip("prometheus_client")
    with serving(setup.root, setup.queries, "127.0.0.1", 0) as port:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
        connection.putrequest("GET", "/metrics", skip_host=True)
        connection.putheader("Host", host.format(port=port))
        connection.endheaders()
        assert connection.getresponse().status == status
        connection.close()


class Collector(HTTPServer):
    """A collector of OpenTelemetry that keeps what it gets."""

    def __init__(self, status: int = 200) -> None:
        self.bodies: list[bytes] = []
        self.status = status
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def spans(self) -> list[Any]:
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        requests = [ExportTraceServiceRequest.FromString(body) for body in self.bodies]
        scopes = [
            scope for request in requests for resource in request.resource_spans for scope in resource.scope_spans
        ]
        return [span for scope in scopes for span in scope.spans]


class _Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        self.server.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(self.server.status)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def collector() -> Iterator[Collector]:
    with listening(Collector()) as server:
        yield server


@pytest.mark.slow
def test_a_run_is_a_trace(setup: Setup, collector: Collector) -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    options = ("--lake", setup.root, "--queries", setup.queries, "--to", collector.address)
    clean("traces", *options)
    spans = collector.spans()
    roots = [span for span in spans if not span.parent_span_id]
    assert len(roots) == HOURS == len({span.trace_id for span in spans})
    by_id = {span.span_id: span for span in spans}
    for span in spans:
        assert not span.parent_span_id or by_id[span.parent_span_id].trace_id == span.trace_id
        assert span.start_time_unix_nano <= span.end_time_unix_nano
        if span.parent_span_id:
            above = by_id[span.parent_span_id]
            assert above.start_time_unix_nano <= span.start_time_unix_nano
            assert span.end_time_unix_nano <= above.end_time_unix_nano
    assert {span.name for span in spans} >= {"run q", "low", "high", "audit", "publish", "query flows", "group flows"}
    (lfta,) = [span for span in spans if span.name == "lfta flows_low"]
    facts = {fact.key: fact.value for fact in lfta.attributes}
    assert (facts["lowwater.shed"].int_value, lfta.end_time_unix_nano - lfta.start_time_unix_nano) == (30, SECOND // 2)
    assert "heartbeats flows" in {span.name for span in spans}
    assert [root.status.code for root in roots].count(2) == 1  # the failed interval
    clean("traces", *options)
    assert {span.span_id for span in collector.spans()} == set(by_id)  # sent again, it is the same trace
    clean("traces", "--lake", setup.root, "--to", HOSTILE, code=1)


@pytest.mark.slow
def test_a_run_that_the_ledger_gets_late_is_sent_too(
    setup: Setup, collector: Collector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    root = Path(shutil.copytree(setup.root, tmp_path / "lake"))
    lake, pauses = open_lake(root), 0
    ended = max(row.finished_at for row in read_replays(lake))

    def pause(*_: object) -> None:
        nonlocal pauses
        pauses += 1
        if pauses == 2:
            os.kill(os.getpid(), signal.SIGTERM)
        # Another one has ended before the last one that was sent.
        row = ReplayRow("q", "flows", START - HOUR, START, "publish", "done", ended - SECOND, rows=0)
        record_replays(lake, [row] if pauses == 1 else [])

    monkeypatch.setattr(processes, "pause", pause)
    clean("traces", "--lake", root, "--queries", setup.queries, "--to", collector.address, "--follow")
    roots = [span for span in collector.spans() if not span.parent_span_id]
    assert len(roots) == len({span.trace_id for span in roots}) == HOURS + 1
