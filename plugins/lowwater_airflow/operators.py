"""The operators of Lowwater's DAGs: find and ingest captures, replay an interval, publish it.

They call the same functions as the command line. A replay runs in a child process.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path, PurePath
from typing import Any

from airflow.sdk import Asset, AssetAlias, BaseOperator, Connection, Context
from airflow.sdk.exceptions import AirflowNotFoundException, AirflowSkipException

from lowwater.config import load_config
from lowwater.errors import ConfigError, LowwaterError
from lowwater.instants import SECOND, format_instant
from lowwater.storage.captures import capture_path
from lowwater.storage.paths import lake_path, private
from lowwater_airflow.alerts import warned
from lowwater_airflow.child import Child
from lowwater_airflow.lineage import Lineage, tables
from lowwater_airflow.notes import WHY
from lowwater_airflow.settings import SPARK, deployment
from lowwater_airflow.whole import partition_key, whole

PACKETS = Asset(name="packets", uri="lowwater://packets", group="lowwater")
MASTER = "LOWWATER_SPARK_MASTER"


def interval_of(context: Context) -> tuple[int, int]:
    """The data interval of a run as instants, ns.

    Raises:
        ConfigError: the run has no data interval (it was triggered without a logical date).
    """
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
    """Stores the reason why an interval is not published, for the note of its run."""
    try:
        yield
    except (LowwaterError, AirflowSkipException) as error:
        context["ti"].xcom_push(WHY, str(error).partition("\n")[0])
        raise


class FindCaptures(BaseOperator):
    """Lists the capture files of the run's interval for every link with a file pattern; `IngestCapture` is mapped over
    them.

    It also plans the query sets, so that their DAGs know which must run in order before the first of them runs.

    Args:
        lake: folder of the lake.
        queries: folder of the query sets.
        query_sets: their names.
    """

    def __init__(self, *, lake: PurePath, queries: Path, query_sets: Sequence[str], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.lake = str(lake)
        self.queries = str(queries)
        self.query_sets = list(query_sets)

    def execute(self, context: Context) -> list[dict[str, str]]:
        """Returns link and path of each file."""
        from lowwater.lake.ingestion.arrivals import pattern_files, without_aside
        from lowwater.lake.ingestion.looking import look
        from lowwater.lake.layout import open_lake
        from lowwater.lake.ledgers.seen import GROWING, NEW, unread_lines
        from lowwater.replay.job import Job

        start, end = interval_of(context)
        config = load_config(lake_path(self.lake))
        lake = open_lake(lake_path(self.lake), make=False)
        for name in self.query_sets:
            try:
                Job.open(lake_path(self.lake), name, Path(self.queries)).prepare()
            except LowwaterError as error:  # its own runs say so, too
                self.log.warning("query set %s cannot be planned: %s", name, error)
        look(lake, config)
        for line in unread_lines(lake, config, hint=False, but=(NEW, GROWING)):
            self.log.warning("%s", line)
        found = pattern_files(config, None, start, end)
        files = {name: without_aside(lake, config.link(name), paths) for name, paths in found.items()}
        for name, link in sorted(config.links.items()):
            if name not in files:
                self.log.info("link %s has no pattern of files: ingest its captures by hand", name)
            elif not files[name]:
                self.log.warning(
                    "link %s: no file of %s for %s", name, ", ".join(link.captures or ()), format_instant(start)
                )
        return [{"link": name, "path": str(path)} for name, paths in files.items() for path in paths]


class IngestCapture(Lineage, BaseOperator):
    """Ingests one capture, and adds an event with the counts to its outlet, the asset `packets`."""

    def __init__(self, *, lake: PurePath, link: str, path: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.lake = str(lake)
        self.link = link
        self.path = path

    @private()
    def execute(self, context: Context) -> dict[str, Any]:
        """Returns the result of the ingest, which is also the metadata of the event."""
        from lowwater.capture.tables.reader import RECORD_KINDS
        from lowwater.lake.ingestion.ingest import ingest
        from lowwater.lake.layout import open_lake
        from lowwater.replay.progress import Progress
        from lowwater.replay.stages.runners import NO_SPARK, ingest_tasks

        context["map_index_label"] = f"{self.link} {Path(self.path).name}"  # type: ignore[typeddict-unknown-key]
        config = load_config(lake_path(self.lake))
        lake = open_lake(lake_path(self.lake), make=False)
        named = _spark().get(MASTER, "")
        # Only a server that is there already is worth a task of one file.
        tasks = ingest_tasks(config, Progress(quiet=True), named if named.startswith("sc://") else NO_SPARK)
        (result,) = ingest(lake, self.link, [capture_path(self.path)], config, runner=tasks)
        row = result.capture
        report: dict[str, Any] = {
            "link": self.link,
            "capture": Path(self.path).name,
            "state": result.state,
            "packets": sum(capture.packets for capture in result.captures),
            "malformed": sum(capture.malformed for capture in result.captures),
            "from": format_instant(row.covers_from),
            "to": format_instant(row.covers_to),
            "sha256": row.file_digest,
        }
        self.log.info(
            "%s: %s, %s packets, %s malformed. %s",
            self.path,
            result.state,
            report["packets"],
            report["malformed"],
            result.note,
        )
        self.datasets = (
            [str(capture_path(self.path).absolute())],
            [str(lake.table_of(self.link, row.format in RECORD_KINDS))],
        )
        context["outlet_events"][PACKETS].extra = report
        return report


class ReplayStages(Lineage, BaseOperator):
    """Runs stages of the run's interval in a child process, which dies with the task.

    Args:
        lake: folder of the lake.
        queries: folder of the query sets.
        query_set: name of the query set.
        stage: stage to run; None for low, high and audit in one process.
    """

    def __init__(
        self, *, lake: PurePath, queries: Path, query_set: str, stage: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.lake = str(lake)
        self.queries = str(queries)
        self.query_set = query_set
        self.stage = stage
        self._child: Child | None = None

    def execute(self, context: Context) -> dict[str, Any]:
        """The outcome of the interval (fields of `replay.interval.Outcome`)."""
        start, end = (format_instant(bound) for bound in interval_of(context))
        arguments = [self.query_set, "--lake", self.lake, "--queries", self.queries, "--from", start, "--to", end]
        arguments += ["--stage", self.stage] if self.stage else ["--hold"]
        self._child = Child("replay", arguments, _spark())
        with telling(context):
            (outcome,) = self._child.run()
        report: dict[str, Any] = outcome
        self.log.info("%s %s: %s %s", self.query_set, start, report["state"], report["reason"])
        self.datasets = [str(lake_path(self.lake) / "packets")], tables(self.lake, "streams", report["rows"])
        return report

    def on_kill(self) -> None:
        """Ends the process when the task is cleared or times out."""
        if self._child is not None:
            self._child.stop()


class PublishInterval(ReplayStages):
    """Publishes the audited interval, and adds an event for each table with rows, digest and verdict.

    An interval that is `done` is also an event of the asset `whole(query_set)`, with its begin as partition key.
    """

    def __init__(self, *, query_set: str, **kwargs: Any) -> None:
        self.tables = AssetAlias(f"tables of {query_set}", group="lowwater")
        self.whole = whole(query_set)
        super().__init__(query_set=query_set, stage="publish", outlets=[self.tables, self.whole], **kwargs)

    def execute(self, context: Context) -> dict[str, Any]:
        """Returns the outcome of the interval."""
        from lowwater.lake.ledgers.runs import DONE  # Arrow, which no DAG file needs

        outcome = super().execute(context)
        start, end = (format_instant(bound) for bound in interval_of(context))
        self.datasets = tables(self.lake, "streams", outcome["rows"]), tables(self.lake, "tables", outcome["rows"])
        summary = {key: outcome[key] for key in ("state", "reason", "verdict", "report")}
        for table, rows in outcome["rows"].items():
            extra = {"rows": rows, "digest": outcome["digests"][table], "from": start, "to": end, **summary}
            asset = Asset(name=table, uri=f"lowwater://tables/{table}", group="lowwater")
            context["outlet_events"][self.tables].add(asset, extra=extra)
        if outcome["state"] == DONE:
            event = context["outlet_events"][self.whole]
            event.add_partitions(partition_key(interval_of(context)[0]))
            event.extra = {"from": start, "to": end, "rows": outcome["rows"], "verdict": outcome["verdict"]}
        else:
            # Airflow adds an event to each outlet of a task that succeeds, unless the outlet is gone by then.
            context["ti"].task.outlets = [self.tables]
        warned(context, self.query_set, outcome)
        return outcome


class MaintainLake(BaseOperator):
    """Maintains the lake, like `lowwater maintain`."""

    def __init__(self, *, lake: PurePath, queries: Path, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.lake, self.queries = str(lake), str(queries)

    @private()
    def execute(self, context: Context) -> dict[str, int]:
        """Returns the bytes removed, or written again, by each kind of maintenance."""
        from lowwater.lake.layout import open_lake
        from lowwater.lake.maintain import maintain
        from lowwater.replay.taking_over import take_over

        lake = lake_path(self.lake)
        totals: dict[str, int] = {}
        opened, retention = open_lake(lake, make=False), load_config(lake).retention
        steps = take_over(lake, Path(self.queries), tell=lambda name, error: self.log.warning("%s: %s", name, error))
        for removal in [*steps, *maintain(opened, retention)]:
            self.log.info("%s: %s, %s files, %s bytes", removal.what, removal.where, removal.files, removal.bytes)
            totals[removal.what] = totals.get(removal.what, 0) + removal.bytes
        return totals


def _spark() -> dict[str, str]:
    """The environment that names the Spark of the connection; empty without one.

    Raises:
        ConfigError: see `deployment`.
    """
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
