"""Hints of the stages, of what is due, of Airflow's side and of the session; most of what is Spark's by a call."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lowwater.caches import cache_folder
from lowwater.catalog.expr import Type
from lowwater.catalog.schemas import CONTROL, ROW
from lowwater.config import Config, Link, load_config
from lowwater.high.closing import least_promise, never_closed
from lowwater.high.process import InProcess
from lowwater.high.query_runs import HighLevel
from lowwater.high.streams import StoredStream
from lowwater.high.timeline import Promise
from lowwater.instants import HOUR, SECOND
from lowwater.lake.ledgers.captures import read_captures
from lowwater.plan.context import Links
from lowwater.plan.operators import Field
from lowwater.plan.queryset import plan_texts
from lowwater.plan.temporal import END_OF_TIME
from lowwater.quality.streams import shared_keys
from lowwater.replay import kernels
from lowwater.replay.checks import require_affordable, require_kept, require_marked
from lowwater.replay.job import Job
from lowwater.replay.run_command import RunRequest, _planned_anew
from lowwater.replay.stages.engines import low_level, low_stage
from lowwater.replay.stages.inputs import LowInputs
from lowwater.spark import jars
from lowwater.storage.paths import lake_path
from lowwater_airflow.settings import Settings, cron, deployment, query_folder
from tests.hints.setup import Case, Setup, tried
from tests.replay.support import START, Said

FLOWS = "SELECT tb, count(*) AS n FROM main1.TCP GROUP BY time/60 AS tb"


def _job(setup: Setup, *lines: str) -> Job:
    setup.settle(*lines)
    return Job.open(setup.lake, "flows", setup.folder)


def _inputs(job: Job) -> Any:
    return job.inputs(START, START + HOUR, job.captures())


def _low(setup: Setup, inputs: Any = None, name: str = "low", **changed: Any) -> dict[tuple[str, str], list[str]]:
    """The low stage of the hour of the setup, in a folder of this name."""
    job = _job(setup)
    given = inputs or _inputs(job)
    settings = replace(job.low_settings(), **changed)
    found = low_stage(low_level(given, settings, setup.folder / name), InProcess(1))
    assert found.files
    return found.files


def _outdated(setup: Setup) -> None:
    job = _job(setup)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lowwater.lake.ingestion.known_files.DECODER_VERSION", 10**6)
        _inputs(job).require()


def _ingested_anew(setup: Setup) -> None:
    said = setup.run("ingest", "--lake", setup.lake, "--link", "main1", "--covers", setup.life, setup.capture)
    assert said.code == 0
    job = Job.open(setup.lake, "flows", setup.folder)
    assert _inputs(job).require() == []


def _shed(setup: Setup, end: int) -> None:
    job = _job(setup)
    config = job.config.model_copy(update={"links": {"main1": job.config.link("main1").model_copy(update={"shed": 5})}})
    inputs = LowInputs(job.lake, job.plan, config, START, end, read_captures(job.lake, ["main1"]))
    _low(setup, inputs)


def _deployed(_: Setup, **extra: str) -> None:
    deployment("spark://m:7077", "", extra)


def _estimated(_: Setup, column: str) -> None:
    text = f"SELECT tb, count(*) AS n{column} FROM main1.TCP GROUP BY time/60 AS tb"
    plan = plan_texts([("q.gsql", text)], Links(("main1",)))
    require_marked(plan, Config(links={"main1": Link(sampling=True, shed=5)}))


def _unkept(_: Setup, *applications: Literal["dns", "tls"]) -> None:
    plan = plan_texts([("q.gsql", "SELECT time, dns_query FROM main1.UDP")], Links(("main1",)))
    require_kept(plan, Config(links={"main1": Link(applications=applications)}))


def _copies(setup: Setup, most: int) -> None:
    text = "SELECT tb, srcIP, destIP, count(*) AS n FROM main1.TCP GROUP BY time/60 AS tb, CUBE(srcIP, destIP)"
    setup.settle()
    setup.query(text, "flows")
    require_affordable(Job.open(setup.lake, "flows", setup.folder).plan, most)


def _linked(setup: Setup, name: str) -> None:
    setup.settle(ingest=False)
    setup.settings("[links.main1]", f"[links.{name}]")
    assert load_config(setup.lake).link("main1").skew == SECOND


def _cached(setup: Setup, mode: int) -> None:
    folder = setup.folder / "cache"
    folder.mkdir(exist_ok=True)
    folder.chmod(mode)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOWWATER_CACHE", str(folder))
        assert cache_folder() == folder


def _stored(setup: Setup, good: bool) -> None:
    """Reads the file of a stream."""
    path = setup.folder / "stream.parquet"
    control = {"_last": [5], "_kind": [ROW], "_tick": [6], "_until": [6], "_period": [0]}
    if good:
        pq.write_table(pa.table({"n": [1], **control}), path)
    else:
        path.write_bytes(b"no parquet")
    assert StoredStream().add(str(path)).rows == 1


def _closed(_: Setup, last: int) -> None:
    """Closes the parts of a query by the punctuation of one stream, the interval of which ends at 10."""
    stream = StoredStream(promises=[Promise(last, last, 0, last)])
    if least_promise([stream], 10) < END_OF_TIME:
        raise never_closed("flows", {("flows", "main1"): stream})


def _keyed(setup: Setup, good: bool) -> None:
    """Looks for shared keys in the file of a stream."""
    path = setup.folder / "keyed.parquet"
    if good:
        fields = [("n", [1]), *((name, [ROW if name == "_kind" else 5]) for name in CONTROL.names)]
        pq.write_table(pa.table(dict(fields)), path)
    assert shared_keys([path], (Field("n", Type.INT),), ("n",), 1, setup.folder / "keys")[0] == 0


def _streams(setup: Setup, link: str) -> None:
    files = {source: of_source for source, of_source in _low(setup).items() if source[1] == link}
    queries = {query.name: query.high for query in _job(setup).plan.queries}
    assert HighLevel(queries, files, HOUR, 2 * HOUR, setup.folder)._files()


def _jars(setup: Setup, *given: str, check: bool = False) -> None:
    """Looks for the jars in a folder with these of them, the last of which is another one where they are checked."""
    folder = setup.folder / "share" / "lowwater" / "jars"
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


def _wrong_jar(setup: Setup) -> None:
    _jars(setup)
    folder = setup.folder / "share" / "lowwater" / "jars"
    (jar,) = folder.glob("delta-storage-*.jar")
    jar.unlink()
    _jars(setup, jar.name, check=True)


def _airflow(setup: Setup, lake: str) -> None:
    setup.settle(ingest=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("LOWWATER_LAKE", raising=False)
        if lake:
            patch.setenv("LOWWATER_LAKE", str(setup.lake))
        assert Settings.load().lake == setup.lake


def _query_folder(setup: Setup, named: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lowwater_airflow.settings.checkout", lambda: None)
        patch.setenv("LOWWATER_QUERIES", named)
        assert query_folder(lake_path("s3://lakes/office")) == Path(named)


def _named(setup: Setup, name: str) -> None:
    setup.settle(ingest=False)
    setup.write(f"queries/{name}.gsql", "")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOWWATER_LAKE", str(setup.lake))
        patch.setenv("LOWWATER_QUERIES", str(setup.folder / "queries"))
        try:
            Settings.load().require_names()
        finally:
            (setup.folder / "queries" / f"{name}.gsql").unlink()


def _cron(_: Setup, minutes: int) -> None:
    assert cron(minutes * 60 * SECOND) == f"*/{minutes} * * * *"


def _compiled(setup: Setup, folder: str) -> None:
    setup.write("taken/link147.pcap/file", "a folder where a capture is to be")
    found = [each for each in kernels._captures(None) if each[0] == f"link{kernels.UNKNOWN_LINK}"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "_captures", lambda links: iter(found))
        (setup.folder / folder).mkdir(exist_ok=True)
        kernels.compile_kernels(setup.folder / folder)


def _two_links(setup: Setup, *given: str) -> Said:
    links = setup.write(
        "links.toml", '[links.main1]\nskew = "1s"\n[links.main2]\nskew = "1s"\n[sets]\nall = ["main1", "main2"]\n'
    )
    captures = [word for name in given for word in ("--capture", f"{name}={setup.capture}")]
    query = setup.query(FLOWS.replace("main1.TCP", "[all].TCP"))
    return setup.run("run", query, "--links", links, *captures, "--out", setup.folder / "out", "--engine", "reference")


def _captured_links(setup: Setup, *links: str) -> None:
    """A run whose captures are of these links, when they have been read."""
    plan = plan_texts([("q.gsql", FLOWS)], Links(("main1",)))
    captures: dict[str, tuple[()]] = dict.fromkeys(links, ())
    assert _planned_anew(RunRequest(plan, Config(), [], setup.folder), captures).plan is plan


CHAINED = "SELECT tb, count(*) AS n FROM main1.TCP GROUP BY time/60 AS tb CLOSING_WHEN count(*) < 3"


def _chained(setup: Setup, hour: int) -> None:
    """Whether an hour of a chain may run; nothing of it has."""
    setup.settle()
    setup.query(CHAINED, "flows")
    job = Job.open(setup.lake, "flows", setup.folder)
    start = START + hour * HOUR
    inputs = job.inputs(start, start + HOUR, job.captures())
    inputs.require_states()


CASES: list[Case] = [
    tried("a stream whose last promise is missing", _closed, "run the low stage again", 9, 10),
    tried("a stream of a query that is gone", _keyed, "run the high stage again", False, True),
    tried("a file of queries whose name no DAG can have", _named, "name them with letters", "a b", "a_b"),
    Case("packets of an older decoder", _outdated, "run `lowwater ingest` on the file", _ingested_anew),
    tried("a column that a link does not keep", _unkept, 'write applications = ["dns", "tls"] in [links.main1]', "tls",
          ("dns", "tls")),
    tried("load is shed within a second", _shed, "use intervals of whole seconds", START + SECOND // 2, START + SECOND),
    tried("drivers on a cluster", _deployed, "leave out deploy-mode; or name a Spark Connect server",
          {"deploy-mode": "cluster"}, ()),
    tried("rows without the rate of what is shed", _estimated, "add min(sampling_rate) AS rate to SELECT", "",
          ", min(sampling_rate) AS rate"),
    tried("groupings that are many", _copies, "copies = 4 in [replay]", 2, 4096),
    tried("a link without settings", _linked, "add [links.main1]", "other", "main1"),
    tried("a cache for everybody", _cached, "set LOWWATER_CACHE to a folder that only you can write to", 0o777, 0o700),
    tried("a stream that is broken", _stored, "run the low stage again", False, True),
    tried("no stream of a link", _streams, "run the low stage first", "main2", "main1"),
    tried("jars that were never fetched", _jars, "run `lowwater doctor --prepare` once", "another.jar", ()),
    Case("a jar that is another one", _wrong_jar, "then run `lowwater doctor --prepare`", lambda setup: _jars(setup)),
    tried("Airflow without a lake", _airflow, "LOWWATER_LAKE=<folder of the lake>", "", "lake"),
    tried("Airflow without query sets, over a lake in an object store", _query_folder,
          "LOWWATER_QUERIES=<folder of the query sets>", "", "queries"),
    tried("an interval that cron cannot say", _cron, "choose a length that divides an hour", 7, 15),
    tried("a link of two without a capture", _two_links, "give --capture main2=FILE", "main1", ("main1", "main2")),
    tried("captures of other links", _captured_links, "there are: main2", "main2", ("main2", "main1")),
    tried("a chain from its middle", _chained, "replay in order, from 2026-01-01T00:00:00Z", 1, 0),
    tried("kernels that have no room", _compiled, "make room on the disk", "taken", "free"),
]  # fmt: skip
