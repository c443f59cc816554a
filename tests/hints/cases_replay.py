"""Hints of the stages, of what is due, of Airflow's side and of the session; most of what is Spark's by a call."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lowwater.caches import cache_folder
from lowwater.catalog.expr import Type
from lowwater.catalog.schemas import CONTROL, ROW
from lowwater.config import Config, Link, load_config
from lowwater.high.closing import PlanParts, closed_parts
from lowwater.high.query_runs import _files
from lowwater.high.streams import StoredStream
from lowwater.instants import HOUR, SECOND
from lowwater.lake.ledgers.captures import read_captures
from lowwater.plan.context import Links
from lowwater.plan.operators import Field
from lowwater.plan.queryset import plan_texts
from lowwater.quality.streams import shared_keys
from lowwater.replay import kernels
from lowwater.replay.checks import require_affordable, require_kept, require_marked
from lowwater.replay.job import Job
from lowwater.replay.run_command import RunRequest, _planned_anew
from lowwater.replay.stages.engines import LowInputs, low_stage
from lowwater.spark import jars
from lowwater.storage.paths import lake_path
from lowwater_airflow.settings import Settings, cron, deployment, query_folder
from tests.hints.desk import Case, Desk
from tests.replay.support import START, Said

FLOWS = "SELECT tb, count(*) AS n FROM main1.TCP GROUP BY time/60 AS tb"


def _job(desk: Desk, *lines: str) -> Job:
    desk.settle(*lines)
    return Job.open(desk.lake, "flows", desk.folder)


def _inputs(job: Job) -> Any:
    return job.inputs(START, START + HOUR, job.captures())


def _low(desk: Desk, inputs: Any = None, name: str = "low", **changed: Any) -> dict[tuple[str, str], list[str]]:
    """The low stage of the hour of the desk, in a folder of this name."""
    job = _job(desk)
    given = inputs or _inputs(job)
    settings = replace(job.low_settings(), **changed)
    found = low_stage(given, settings, desk.folder / name, lambda function, tasks: map(function, tasks))
    assert found.files
    return found.files


def _outdated(desk: Desk) -> None:
    job = _job(desk)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lowwater.lake.ingestion.replacement.DECODER_VERSION", 10**6)
        _inputs(job).require()


def _ingested_anew(desk: Desk) -> None:
    said = desk.run("ingest", "--lake", desk.lake, "--link", "main1", "--covers", desk.life, desk.capture)
    assert said.code == 0
    job = Job.open(desk.lake, "flows", desk.folder)
    assert _inputs(job).require() == []


def _shed(desk: Desk, end: int) -> None:
    job = _job(desk)
    config = job.config.model_copy(update={"links": {"main1": job.config.link("main1").model_copy(update={"shed": 5})}})
    inputs = LowInputs(job.lake, job.plan, config, START, end, read_captures(job.lake, ["main1"]))
    _low(desk, inputs)


def _deployed(**extra: str) -> None:
    deployment("spark://m:7077", "", extra)


def _estimated(column: str) -> None:
    text = f"SELECT tb, count(*) AS n{column} FROM main1.TCP GROUP BY time/60 AS tb"
    plan = plan_texts([("q.gsql", text)], Links(("main1",)))
    require_marked(plan, Config(links={"main1": Link(sampling=True, shed=5)}))


def _unkept(*applications: Literal["dns", "tls"]) -> None:
    plan = plan_texts([("q.gsql", "SELECT time, dns_query FROM main1.UDP")], Links(("main1",)))
    require_kept(plan, Config(links={"main1": Link(applications=applications)}))


def _copies(desk: Desk, most: int) -> None:
    text = "SELECT tb, srcIP, destIP, count(*) AS n FROM main1.TCP GROUP BY time/60 AS tb, CUBE(srcIP, destIP)"
    desk.settle()
    desk.query(text, "flows")
    require_affordable(Job.open(desk.lake, "flows", desk.folder).plan, most)


def _linked(desk: Desk, name: str) -> None:
    desk.settle(ingest=False)
    desk.settings("[links.main1]", f"[links.{name}]")
    assert load_config(desk.lake).link("main1").skew == SECOND


def _cached(desk: Desk, mode: int) -> None:
    folder = desk.folder / "cache"
    folder.mkdir(exist_ok=True)
    folder.chmod(mode)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOWWATER_CACHE", str(folder))
        assert cache_folder() == folder


def _stored(desk: Desk, good: bool) -> None:
    """Reads the file of a stream."""
    path = desk.folder / "stream.parquet"
    control = {"_last": [5], "_kind": [ROW], "_tick": [6], "_until": [6], "_period": [0]}
    if good:
        pq.write_table(pa.table({"n": [1], **control}), path)
    else:
        path.write_bytes(b"no parquet")
    assert StoredStream.scan([str(path)]).rows == 1


def _closed(last: int) -> None:
    """Closes the parts of a query by the punctuation of one stream, the interval of which ends at 10."""
    parts: Any = [SimpleNamespace(end=20)]
    source = ("flows", "main1")
    assert len([*closed_parts({"flows": PlanParts(parts, [source], 10)}, {}, iter([[(source, last)]]))]) == 2


def _keyed(desk: Desk, good: bool) -> None:
    """Looks for shared keys in the file of a stream."""
    path = desk.folder / "keyed.parquet"
    if good:
        fields = [("n", [1]), *((name, [ROW if name == "_kind" else 5]) for name in CONTROL.names)]
        pq.write_table(pa.table(dict(fields)), path)
    assert shared_keys([path], (Field("n", Type.INT),), ("n",), 1, desk.folder / "keys")[0] == 0


def _streams(desk: Desk, link: str) -> None:
    files = _low(desk)
    ((name, _), *_) = files
    assert _files(files, name, link)


def _jars(desk: Desk, *given: str, check: bool = False) -> None:
    """Looks for the jars in a folder with these of them, the last of which is another one where they are checked."""
    folder = desk.folder / "share" / "lowwater" / "jars"
    folder.mkdir(parents=True, exist_ok=True)
    whole = jars.delta_jars()
    for jar in whole if not given else ():
        if not (folder / jar.name).exists():
            (folder / jar.name).symlink_to(jar)
    for name in given:
        (folder / name).write_bytes(b"another")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jars, "jars_folder", lambda: folder)
        assert jars.fetch_jars() if check or not given else jars.delta_jars()


def _wrong_jar(desk: Desk) -> None:
    _jars(desk)
    folder = desk.folder / "share" / "lowwater" / "jars"
    (jar,) = folder.glob("delta-storage-*.jar")
    jar.unlink()
    _jars(desk, jar.name, check=True)


def _airflow(desk: Desk, lake: str) -> None:
    desk.settle(ingest=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("LOWWATER_LAKE", raising=False)
        if lake:
            patch.setenv("LOWWATER_LAKE", str(desk.lake))
        assert Settings.load().lake == desk.lake


def _query_folder(desk: Desk, named: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lowwater_airflow.settings.checkout", lambda: None)
        patch.setenv("LOWWATER_QUERIES", named)
        assert query_folder(lake_path("s3://lakes/office")) == Path(named)


def _named(desk: Desk, name: str) -> None:
    desk.settle(ingest=False)
    desk.write(f"queries/{name}.gsql", "")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOWWATER_LAKE", str(desk.lake))
        patch.setenv("LOWWATER_QUERIES", str(desk.folder / "queries"))
        try:
            Settings.load().require_names()
        finally:
            (desk.folder / "queries" / f"{name}.gsql").unlink()


def _cron(minutes: int) -> None:
    assert cron(minutes * 60 * SECOND) == f"*/{minutes} * * * *"


def _compiled(desk: Desk, folder: str) -> None:
    desk.write("taken/link147.pcap/file", "a folder where a capture is to be")
    found = [each for each in kernels._captures(None) if each[0] == f"link{kernels.UNKNOWN_LINK}"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "_captures", lambda links: iter(found))
        (desk.folder / folder).mkdir(exist_ok=True)
        kernels.compile_kernels(desk.folder / folder)


def _two_links(desk: Desk, *given: str) -> Said:
    links = desk.write(
        "links.toml", '[links.main1]\nskew = "1s"\n[links.main2]\nskew = "1s"\n[sets]\nall = ["main1", "main2"]\n'
    )
    captures = [word for name in given for word in ("--capture", f"{name}={desk.capture}")]
    query = desk.query(FLOWS.replace("main1.TCP", "[all].TCP"))
    return desk.run("run", query, "--links", links, *captures, "--out", desk.folder / "out", "--engine", "reference")


def _captured_links(desk: Desk, *links: str) -> None:
    """A run whose captures are of these links, when they have been read."""
    plan = plan_texts([("q.gsql", FLOWS)], Links(("main1",)))
    captures: dict[str, tuple[()]] = dict.fromkeys(links, ())
    assert _planned_anew(RunRequest(plan, Config(), [], desk.folder), captures).plan is plan


CHAINED = "SELECT tb, count(*) AS n FROM main1.TCP GROUP BY time/60 AS tb CLOSING_WHEN count(*) < 3"


def _chained(desk: Desk, hour: int) -> None:
    """Whether an hour of a chain may run; nothing of it has."""
    desk.settle()
    desk.query(CHAINED, "flows")
    job = Job.open(desk.lake, "flows", desk.folder)
    start = START + hour * HOUR
    inputs = job.inputs(start, start + HOUR, job.captures())
    inputs.require_states()


CASES: list[Case] = [
    Case(
        "a stream whose last promise is missing",
        lambda desk: _closed(9),
        "run the low stage again",
        lambda desk: _closed(10),
    ),
    Case(
        "a stream of a query that is gone",
        lambda desk: _keyed(desk, False),
        "run the high stage again",
        lambda desk: _keyed(desk, True),
    ),
    Case(
        "a file of queries whose name no DAG can have",
        lambda desk: _named(desk, "a b"),
        "name them with letters",
        lambda desk: _named(desk, "a_b"),
    ),
    Case("packets of an older decoder", _outdated, "run `lowwater ingest` on the file", _ingested_anew),
    Case(
        "a column that a link does not keep",
        lambda _: _unkept("tls"),
        'write applications = ["dns", "tls"] in [links.main1]',
        lambda _: _unkept("dns", "tls"),
    ),
    Case(
        "load is shed within a second",
        lambda desk: _shed(desk, START + SECOND // 2),
        "use intervals of whole seconds",
        lambda desk: _shed(desk, START + SECOND),
    ),
    Case(
        "drivers on a cluster",
        lambda _: _deployed(**{"deploy-mode": "cluster"}),
        "leave out deploy-mode; or name a Spark Connect server",
        lambda _: _deployed(),
    ),
    Case(
        "rows without the rate of what is shed",
        lambda _: _estimated(""),
        "add min(sampling_rate) AS rate to SELECT",
        lambda _: _estimated(", min(sampling_rate) AS rate"),
    ),
    Case(
        "groupings that are many",
        lambda desk: _copies(desk, 2),
        "copies = 4 in [replay]",
        lambda desk: _copies(desk, 4096),
    ),
    Case(
        "a link without settings",
        lambda desk: _linked(desk, "other"),
        "add [links.main1]",
        lambda desk: _linked(desk, "main1"),
    ),
    Case(
        "a cache for everybody",
        lambda desk: _cached(desk, 0o777),
        "set LOWWATER_CACHE to a folder that only you can write to",
        lambda desk: _cached(desk, 0o700),
    ),
    Case(
        "a stream that is broken",
        lambda desk: _stored(desk, False),
        "run the low stage again",
        lambda desk: _stored(desk, True),
    ),
    Case(
        "no stream of a link",
        lambda desk: _streams(desk, "main2"),
        "run the low stage first",
        lambda desk: _streams(desk, "main1"),
    ),
    Case(
        "jars that were never fetched",
        lambda desk: _jars(desk, "another.jar"),
        "run `lowwater doctor --prepare` once",
        lambda desk: _jars(desk),
    ),
    Case("a jar that is another one", _wrong_jar, "then run `lowwater doctor --prepare`", lambda desk: _jars(desk)),
    Case(
        "Airflow without a lake",
        lambda desk: _airflow(desk, ""),
        "LOWWATER_LAKE=<folder of the lake>",
        lambda desk: _airflow(desk, "lake"),
    ),
    Case(
        "Airflow without query sets, over a lake in an object store",
        lambda desk: _query_folder(desk, ""),
        "LOWWATER_QUERIES=<folder of the query sets>",
        lambda desk: _query_folder(desk, "queries"),
    ),
    Case(
        "an interval that cron cannot say",
        lambda desk: _cron(7),
        "choose a length that divides an hour",
        lambda desk: _cron(15),
    ),
    Case(
        "a link of two without a capture",
        lambda desk: _two_links(desk, "main1"),
        "give --capture main2=FILE",
        lambda desk: _two_links(desk, "main1", "main2"),
    ),
    Case(
        "captures of other links",
        lambda desk: _captured_links(desk, "main2"),
        "there are: main2",
        lambda desk: _captured_links(desk, "main2", "main1"),
    ),
    Case(
        "a chain from its middle",
        lambda desk: _chained(desk, 1),
        "replay in order, from 2026-01-01T00:00:00Z",
        lambda desk: _chained(desk, 0),
    ),
    Case(
        "kernels that have no room",
        lambda desk: _compiled(desk, "taken"),
        "make room on the disk",
        lambda desk: _compiled(desk, "free"),
    ),
]
