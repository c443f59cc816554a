"""The operators of Lowwater's DAGs: ingest captures, replay an interval, publish it.

They call the same functions as the command line. A replay runs in a child process.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime
from fractions import Fraction
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, AssetAlias, Connection, Context
from airflow.sdk.exceptions import AirflowNotFoundException, AirflowSkipException

from lowwater.config import load_config
from lowwater.errors import ConfigError, LowwaterError
from lowwater.instants import SECOND, format_instant
from lowwater.lake.words import DONE, HELD, WAITING
from lowwater.storage.captures import capture_path
from lowwater.storage.paths import lake_path, private
from lowwater_airflow.alerts import warned
from lowwater_airflow.assets import table_asset, tables_of
from lowwater_airflow.child import Child
from lowwater_airflow.lineage import Lineage, tables
from lowwater_airflow.notes import WHY, address_of
from lowwater_airflow.retries import Patient
from lowwater_airflow.settings import SPARK, deployment
from lowwater_airflow.whole import partition_key, whole

if TYPE_CHECKING:
    from lowwater.lake.layout import Lake
    from lowwater.lake.ledgers.captures import Capture
    from lowwater.replay.job import Job
    from lowwater.replay.schedule.ingesting import Refusal

PACKETS = Asset(name="packets", uri="lowwater://packets", group="lowwater")
MASTER = "LOWWATER_SPARK_MASTER"
MOST_NAMED = 20
"""Most files that an event of new packets names."""
MOST_TOLD = 20
"""Most intervals that cannot start, or files that were refused, of which a run makes a red task each; its log and the
pages have all. The next look has tasks for the rest of the intervals; the last task of files names the others."""


def interval_of(context: Context) -> tuple[int, int]:
    """The data interval of a run as instants, ns.
    Raises ConfigError if the run has no data interval (it was triggered without a logical date)."""
    start, end = context.get("data_interval_start"), context.get("data_interval_end")
    if start is None or end is None or start >= end:
        raise ConfigError(
            "this run has no data interval", "trigger the DAG with a logical date, or use a backfill over a date range"
        )
    return _instant(start), _instant(end)


def _instant(moment: datetime) -> int:
    return round(moment.timestamp()) * SECOND


@contextmanager
def telling(context: Context) -> Iterator[None]:
    """Stores the reason why an interval is not published, or a task fails, for the note of its run."""
    try:
        yield
    except (LowwaterError, AirflowSkipException) as error:
        context["ti"].xcom_push(WHY, str(error).partition("\n")[0])
        raise


class IngestCaptures(Lineage, Patient):
    """Ingests the captures of the run's interval, of every link with a file pattern, in one process.

    What is new is one event of the asset `packets`. Returns the files that were refused, for `RefusedFile`.
    """

    def __init__(self, *, lake: PurePath, **kwargs: Any) -> None:
        kwargs["outlets"] = [PACKETS]  # a mapped task has those of its `partial`, or an empty list
        super().__init__(**kwargs)
        self.lake = str(lake)

    @private()
    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Returns the arguments of a `RefusedFile` for each file that was refused."""
        with telling(context), self.waiting(context):
            return self._ingest(context)

    def _ingest(self, context: Context) -> list[dict[str, Any]]:
        from lowwater.lake.ingestion.arrivals import pattern_files, without_aside
        from lowwater.lake.ingestion.batch import IngestResult
        from lowwater.lake.ingestion.folders import look
        from lowwater.lake.layout import open_lake
        from lowwater.lake.ledgers.files import unread_lines
        from lowwater.lake.ledgers.states import GROWING, NEW
        from lowwater.replay.progress import Progress
        from lowwater.replay.schedule.ingesting import each_link, ingest_readable
        from lowwater.replay.stages.runners import ingest_tasks

        start, end = interval_of(context)
        root = lake_path(self.lake)
        config, lake = load_config(root), open_lake(root, make=False)
        found = pattern_files(config, None, start, end)
        files = {name: without_aside(lake, config.link(name), paths) for name, paths in found.items()}
        tasks = ingest_tasks(config, Progress(quiet=True), ingest_spark())
        results: list[IngestResult] = []
        refusals: list[Refusal] = []
        for name, link in sorted(config.links.items()):
            if name not in files:
                self.log.info("link %s has no pattern of files: ingest its captures by hand", name)
            elif not files[name]:
                patterns = ", ".join(link.patterns)
                self.log.warning("link %s: no file of %s for %s", name, patterns, format_instant(start))
        present = [name for name in sorted(config.links) if files.get(name)]
        hindrance: LowwaterError | None = None
        for ingested, refused, hindered in each_link(
            lambda name: ingest_readable(lake, name, files[name], config, tasks),
            present,
            tasks,
            lambda each: each[2] is not None,
        ):
            results += ingested
            refusals += refused.values()
            hindrance = hindrance or hindered
        if hindrance is not None:
            raise hindrance
        look(lake, config)
        for line in unread_lines(lake, config, hint=False, but=(NEW, GROWING)):
            self.log.warning("%s", line)
        tell_ingested(self, context, results)
        return told_refusals(refusals)


def told_refusals(refusals: Sequence[Refusal]) -> list[dict[str, Any]]:
    """The arguments of each `RefusedFile` of an ingest; Airflow bears 1,024 tasks. Why a file was refused is not among
    them: by the time that its task runs, or is cleared, it may be another one."""
    tasks: list[dict[str, Any]] = [
        {"title": f"{each.link} {each.file}", "files": [[each.link, each.path]]} for each in refusals[:MOST_TOLD]
    ]
    if more := refusals[MOST_TOLD:]:
        tasks.append({"title": f"{len(more):,} more files", "files": [[each.link, each.path] for each in more]})
    return tasks


def tell_ingested(operator: Any, context: Context, results: Sequence[Any], alone: bool = False) -> None:
    """Logs what was ingested, and makes one event of the asset `packets` of what is new, and none if nothing is.

    A try that ended with a hindrance told nobody what it had ingested: the one that succeeds tells it.

    Args:
        operator: the operator of the task, whose lineage it sets.
        results: `IngestResult` of each file.
        alone: whether what other tries have ingested is not the operator's to tell.
    """
    from lowwater.catalog.protocols import RECORD_KINDS
    from lowwater.lake.layout import open_lake

    lake = open_lake(lake_path(operator.lake), make=False)
    rows = [row for result in results for row in result.captures]
    for result in results:
        packets, malformed = (sum(getattr(row, name) for row in result.captures) for name in ("packets", "malformed"))
        said = result.path, result.state, packets, malformed, result.note
        operator.log.info("%s: %s, %s packets, %s malformed. %s", *said)
    operator.datasets = (
        [str(capture_path(result.path).absolute()) for result in results],
        sorted({str(lake.table_of(row.link, row.format in RECORD_KINDS)) for row in rows}),
    )
    new = [row for result in results if result.state != "known" for row in result.captures]
    if not alone and (context["ti"].try_number > 1 or operator.pauses):
        begun = context["dag_run"].start_date
        assert begun is not None
        new = _since(lake, int(begun.timestamp() * SECOND))
    if not new:  # Airflow adds an event to each outlet of a task that succeeds, unless the outlet is gone by then
        context["ti"].task.outlets = []
        return
    counts = Counter[str]()
    for row in new:
        counts[row.link] += row.packets
    names = list(dict.fromkeys(PurePath(row.path).name for row in new))
    extra: dict[str, Any] = {"captures": names[:MOST_NAMED], "packets": dict(counts)}
    context["outlet_events"][PACKETS].extra = extra


def _since(lake: Lake, begin: int) -> list[Capture]:
    """The captures that came into a lake since an instant, ns."""
    from lowwater.lake.ledgers.captures import ingested_links, read_captures

    captures = read_captures(lake, ingested_links(lake)).values()
    return [each[int(at)] for each in captures for at in (each.numbers("ingested_at") >= begin).nonzero()[0]]


class ReplayStages(Lineage, Patient):
    """Runs stages of the run's interval in a child process, which dies with the task."""

    def __init__(
        self, *, lake: PurePath, queries: Path, query_set: str, stage: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.lake = str(lake)
        self.queries = str(queries)
        self.query_set = query_set
        self.stage = stage
        self._child: Child | None = None
        self._address = ""

    def execute(self, context: Context) -> dict[str, Any]:
        """The outcome of the interval (fields of `replay.interval.Outcome`)."""
        ti = context["ti"]
        self._address = address_of(ti.dag_id, ti.run_id, ti.task_id, ti.map_index)
        start = format_instant(self._bounds(context)[0])
        with telling(context), self.waiting(context):
            report = self._report(context)
        self.log.info("%s %s: %s %s", self.query_set, start, report["state"], report["reason"])
        self.datasets = [str(lake_path(self.lake) / "packets")], tables(self.lake, "streams", report["rows"])
        return report

    def _report(self, context: Context) -> dict[str, Any]:
        """Decides what is to be done, and does it."""
        return self._standing(context) or self._run(*self._bounds(context))

    def _standing(self, context: Context) -> dict[str, Any] | None:
        """The outcome of an interval that a run would leave as it is; None where there is something to do. It is asked
        here: a process that finds so takes seconds to begin. A stage that somebody runs by itself always runs."""
        if self.stage not in (None, "publish"):
            return None
        from lowwater.replay.interval import standing

        outcome = standing(self.job(), *self._bounds(context))
        if outcome is None:
            return None
        self.log.info("it is published from these inputs: nothing is to be done")
        return asdict(outcome)

    def job(self) -> Job:
        """The query set as it is now. Arrow is loaded in the process of the task only, which Airflow has forked."""
        from lowwater.replay.job import Job

        return Job.open(lake_path(self.lake), self.query_set, Path(self.queries))

    def _run(self, start: int, end: int) -> dict[str, Any]:
        """Runs the stages of an interval [start, end), ns, in a process of its own."""
        (outcome,) = self._child_run(start, end, self._mode())
        report: dict[str, Any] = outcome
        return report

    def _child_run(self, start: int, end: int, mode: Sequence[str]) -> list[dict[str, Any]]:
        span = ["--from", format_instant(start), "--to", format_instant(end), "--by", self._address]
        arguments = [self.query_set, "--lake", self.lake, "--queries", self.queries, *span]
        self._child = Child("replay", [*arguments, *mode], _spark())
        outcomes: list[dict[str, Any]] = self._child.run()
        return outcomes

    def _bounds(self, context: Context) -> tuple[int, int]:
        """The interval, ns."""
        return interval_of(context)

    def _mode(self) -> list[str]:
        """Arguments that say which stages run."""
        return ["--stage", self.stage] if self.stage else ["--hold"]

    def on_kill(self) -> None:
        """Ends the process when the task is cleared or times out."""
        if self._child is not None:
            self._child.stop()


def published(query_set: str) -> tuple[AssetAlias, Asset]:
    """What a publication has events of: the tables of a query set, and its whole intervals."""
    return tables_of(query_set), whole(query_set)


class PublishInterval(ReplayStages):
    """Publishes the audited interval, and adds an event for each table with rows, digest and verdict.

    An interval that is `done` is also an event of the asset `whole(query_set)`, with its begin as partition key.
    """

    all_stages = False
    """Whether its process runs the stages before publishing too."""

    def __init__(self, *, query_set: str, **kwargs: Any) -> None:
        self.tables, self.whole = published(query_set)
        kwargs["outlets"] = [self.tables, self.whole]  # a mapped task has those of its `partial`, or an empty list
        super().__init__(query_set=query_set, stage="publish", **kwargs)

    def execute(self, context: Context) -> dict[str, Any]:
        context["ti"].task.outlets = [self.tables, self.whole]  # a process before this one may have changed no table
        outcome = super().execute(context)
        done = [self._tell(context, each) for each in self.pieces(outcome)]
        if any(done):
            return outcome
        # Airflow adds an event to each outlet of a task that succeeds, unless the outlet is gone by then.
        context["ti"].task.outlets = [self.tables] if outcome["rows"] else []
        return outcome

    def pieces(self, outcome: dict[str, Any]) -> list[dict[str, Any]]:
        """The outcomes of which there are events: more than one where a part of a stretch has got records since."""
        return [outcome]

    def _tell(self, context: Context, outcome: dict[str, Any]) -> bool:
        """Adds the events of an outcome; returns whether its intervals are whole."""
        if outcome["state"] in (HELD, WAITING):
            return False  # no table has changed
        start, end = (format_instant(outcome[bound]) for bound in ("start", "end"))
        streams, published = (tables(self.lake, folder, outcome["rows"]) for folder in ("streams", "tables"))
        packets = [str(lake_path(self.lake) / "packets")]
        self.datasets = (packets, [*streams, *published]) if self.all_stages else (streams, published)
        summary = {key: outcome[key] for key in ("state", "reason", "verdict", "report")}
        for table, rows in outcome["rows"].items():
            extra = {"rows": rows, "digest": outcome["digests"][table], "from": start, "to": end, **summary}
            context["outlet_events"][self.tables].add(table_asset(table), extra=extra)
        warned(context, self.query_set, outcome)
        if outcome["state"] != DONE:
            return False
        event, length = context["outlet_events"][self.whole], load_config(lake_path(self.lake)).length(self.query_set)
        event.add_partitions([partition_key(at) for at in range(outcome["start"], outcome["end"], length)])
        event.extra = {"from": start, "to": end, "rows": outcome["rows"], "verdict": outcome["verdict"]}
        return True


class MaintainLake(Patient):
    """Maintains the lake, like `lowwater maintain`."""

    def __init__(self, *, lake: PurePath, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.lake = str(lake)

    @private()
    def execute(self, context: Context) -> dict[str, int]:
        """Returns the bytes removed, or written again, by each kind of maintenance."""
        with telling(context), self.waiting(context):
            return self._maintain()

    def _maintain(self) -> dict[str, int]:
        from lowwater.lake.layout import open_lake
        from lowwater.lake.maintain import maintain, require_sound

        lake = lake_path(self.lake)
        totals: dict[str, int] = {}
        opened, retention = open_lake(lake, make=False), load_config(lake).retention
        steps = maintain(opened, retention)
        for removal in steps:
            self.log.info("%s: %s, %s files, %s bytes", removal.what, removal.where, removal.files, removal.bytes)
            totals[removal.what] = totals.get(removal.what, 0) + removal.bytes
        require_sound(steps)
        return totals


class VerifyLake(Patient):
    """Compares the files of the lake with its logs, and a share of their bytes with digests, like `lowwater verify`."""

    def __init__(self, *, lake: PurePath, days: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.lake, self.days = str(lake), days

    @private()
    def execute(self, context: Context) -> dict[str, int]:
        """Returns how many files there are, how many were read, and how many bytes these have."""
        with telling(context), self.waiting(context):
            return self._verify()

    def _verify(self) -> dict[str, int]:
        from lowwater.lake.layout import lake_to_read
        from lowwater.lake.verification import Asked, require_sound, verify

        verdict = verify(lake_to_read(lake_path(self.lake)), Asked(data=True, share=Fraction(1, self.days)))
        for each in verdict.damaged:
            self.log.warning("%s: %s; lost: %s; again: %s", each.where, each.what, each.cost, each.again or "nothing")
        require_sound(self.lake, verdict)
        return {"files": verdict.files, "compared": verdict.compared, "bytes": verdict.read}


def ingest_spark() -> str:
    """What `--spark` would say to an ingest: only a server that is there already is worth a task of a few files.
    Raises ConfigError: see `deployment`."""
    named = _spark().get(MASTER, "")
    return named if named.startswith("sc://") else "none"


def _spark() -> dict[str, str]:
    """The environment that names the Spark of the connection; empty without one.
    Raises ConfigError: see `deployment`."""
    try:
        connection = Connection.get(SPARK)
    except AirflowNotFoundException:
        return {}
    # with pandas, that no DAG file needs
    from airflow.providers.apache.spark.hooks.spark_connect import SparkConnectHook

    if connection.conn_type == SparkConnectHook.conn_type:
        return {MASTER: SparkConnectHook(SPARK).get_connection_url()}
    host = f"{connection.host}:{connection.port}" if connection.port else str(connection.host)
    return deployment(host, connection.password or "", connection.extra_dejson)
