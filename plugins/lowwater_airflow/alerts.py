"""Alerts: a failed run, a missed deadline, a warning, and the report of a day; to the log, a webhook and by mail.

The DAGs name these callbacks. Airflow's scheduler watches deadlines and runs `late` in the triggerer. Mail is sent by
Airflow's own notifier, with the mail server of an Airflow connection.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Mapping
from html import escape
from http.client import HTTPException, HTTPMessage
from pathlib import Path, PurePath
from typing import IO, Any
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, Request, build_opener

from airflow.sdk import BaseOperator, Connection, Context
from airflow.sdk.exceptions import AirflowNotFoundException

from lowwater.config import Notify
from lowwater.instants import format_instant
from lowwater.lake.words import INCOMPLETE, WARNED
from lowwater.terminal import shown
from lowwater_airflow.settings import Settings

log = logging.getLogger(__name__)
TIMEOUT = 10.0
"""Seconds that a webhook may take."""
LONGEST_SUBJECT = 150


async def late(context: Mapping[str, Any]) -> None:
    """Callback of a deadline: the run has not ended in time."""
    run = _run(context)
    alert = {"kind": "deadline", "text": f"{run['dag']} {run['run']} has missed its deadline and goes on", **run}
    notify = _notify()
    connection = None
    try:
        connection = await Connection.async_get(notify.connection) if notify.connection else None
    except AirflowNotFoundException:
        _absent(notify)
    await asyncio.to_thread(_post, notify, connection, alert)
    if notify.email:
        try:
            await _mail(notify, alert).async_notify({})
        except Exception as error:  # noqa: BLE001 - an alert stops nothing, whatever its server answers
            _unsent(error)


def failed(context: Mapping[str, Any]) -> None:
    """Callback of a DAG: a run has failed."""
    run = _run(context)
    tell({"kind": "failed", "text": f"{run['dag']} {run['run']} has failed: see the logs of its tasks", **run})


def hindered(context: Mapping[str, Any], why: str) -> None:
    """Tells that a task waits for the disk or the store of the lake."""
    run = _run(context)
    tell({"kind": "hindered", "text": f"{run['dag']} {run['run']} waits: {why}", **run})


def warned(context: Mapping[str, Any], query_set: str, outcome: Mapping[str, Any]) -> None:
    """Tells that an interval was published with warnings or incomplete, if the settings ask for it.

    Args:
        context: context of the task that published it.
        outcome: what the task returns.
    """
    bad = outcome["verdict"] == WARNED or outcome["state"] == INCOMPLETE
    if not bad or not outcome["committed"] or not _notify().warnings:
        return
    run = _run(context)
    why = f": {outcome['reason']}" if outcome["reason"] else ""
    at = format_instant(outcome["start"])  # a run may be of several intervals
    text = f"{query_set} {at} is published, {outcome['state']}{why}. The audit {outcome['verdict']}"
    tell({"kind": "warning", "text": f"{text}: {outcome['report']}", **run})


def tell(alert: dict[str, str]) -> None:
    """Logs an alert, posts it to the webhook and mails it, as the settings say. Nothing that fails stops the caller."""
    notify = _notify()
    connection = None
    try:
        connection = Connection.get(notify.connection) if notify.connection else None
    except AirflowNotFoundException:
        _absent(notify)
    _post(notify, connection, alert)
    if notify.email:
        try:
            _mail(notify, alert).notify({})
        except Exception as error:  # noqa: BLE001 - an alert stops nothing, whatever its server answers
            _unsent(error)


class TellDigest(BaseOperator):
    """Tells what happened in the last day, in all query sets of the lake."""

    def __init__(self, *, lake: PurePath, queries: PurePath, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.lake = str(lake)
        self.queries = str(queries)

    def execute(self, context: Context) -> list[str]:
        from lowwater.errors import LowwaterError
        from lowwater.replay.schedule.days import day_report
        from lowwater.replay.schedule.links import jobs
        from lowwater.storage.paths import lake_path

        unplanned: dict[str, str] = {}

        def note(name: str, error: LowwaterError) -> None:
            unplanned[name] = str(error)

        sets = jobs(lake_path(self.lake), Path(self.queries), note)
        lines = day_report(sets, unplanned, time.time_ns())
        tell({"kind": "digest", "text": "\n".join(lines) or "no query set", **_run(context)})
        return lines


def _notify() -> Notify:
    """Reads the settings when an alert is due: arguments in a DAG would be stored in clear text."""
    return Settings.load().config.notify


def has_connection(name: str) -> bool:
    """Whether Airflow has a connection, for a task that asks."""
    try:
        Connection.get(name)
    except AirflowNotFoundException:
        return False
    return True


def _absent(notify: Notify) -> None:
    """Logs that Airflow does not have the connection of the webhook; the notes of looks say so too."""
    log.error("the webhook of [notify] is not told: Airflow has no connection %s", notify.connection)


def _request(notify: Notify, connection: Any) -> Request | None:
    """Builds the request to the webhook; a connection gives the address as host and the token as password."""
    headers = {"Content-Type": "application/json"}
    if connection is None:
        return Request(notify.url, headers=headers) if notify.url else None
    url = str(connection.host)
    if "://" not in url:
        port = f":{connection.port}" if connection.port else ""
        url = f"{connection.schema or 'https'}://{url}{port}"
    if connection.password:
        headers["Authorization"] = f"Bearer {connection.password}"
    return Request(url, headers=headers)


def _mail(notify: Notify, alert: Mapping[str, str]) -> Any:
    """Airflow's notifier of one mail. Its texts are no templates here: `notify` renders none."""
    from airflow.providers.smtp.notifications.smtp import SmtpNotifier

    text = shown(alert["text"])
    subject = " ".join(f"Lowwater {alert['kind']}: {text}".split())[:LONGEST_SUBJECT]
    return SmtpNotifier(
        to=list(notify.email),
        subject=subject,
        html_content=f"<pre>{escape(text)}</pre>",
        smtp_conn_id=notify.mail_connection,
    )


def _run(context: Mapping[str, Any]) -> dict[str, str]:
    """The names of the run; the context has an object after a failure, and JSON of the REST interface after a
    deadline."""
    dag_run = context.get("dag_run")
    named = {"dag": ("dag_id",), "run": ("run_id", "dag_run_id"), "interval": ("data_interval_start",)}
    return {key: _first(dag_run, names) for key, names in named.items()}


def _first(values: Any, names: tuple[str, ...]) -> str:
    """The first existing attribute or key."""
    get = values.get if isinstance(values, Mapping) else lambda name: getattr(values, name, None)
    return next((str(value) for name in names if (value := get(name)) is not None), "")


def _post(notify: Notify, connection: Any, alert: Mapping[str, str]) -> None:
    """Logs an alert and posts it to the webhook; an unreachable webhook is logged only."""
    (log.info if alert["kind"] == "digest" else log.error)(alert["text"])
    problem = _asked(notify, connection, alert)
    if problem:  # told here, where no error is being handled that a handler of logs could show: they hold the token
        log.error("the webhook of [notify] %s", problem)


def _asked(notify: Notify, connection: Any, alert: Mapping[str, str]) -> str:
    """Posts an alert, if there is a webhook. Returns why it was not taken; empty where it was."""
    try:
        request = _request(notify, connection)
        if request is not None:
            request.data = json.dumps(alert).encode()
            with send(request, TIMEOUT):
                pass
    except HTTPError as error:
        moved = "; it names another address, which gets no token: write that one" if 300 <= error.code < 400 else ""
        return f"refuses the alert: {error.code} {error.reason}{moved}"
    except OSError as error:
        return f"cannot be reached: {error}"
    except (ValueError, HTTPException) as error:  # their texts hold the address or the token
        return (
            "cannot be asked: its address or its token has a character that no request can have, such as a space or "
            f"the end of a line, or its answer is no HTTP ({type(error).__name__})"
        )
    return ""


def _unsent(error: Exception) -> None:
    """Logs that a mail was not sent: servers, connections and an absent provider raise errors of many kinds."""
    log.error("the mail of [notify] cannot be sent: %s", error)


class _Refused(HTTPRedirectHandler):
    """Leaves an answer that names another address as what it is: no success."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        return None


def send(request: Request, timeout: float) -> Any:
    """Sends a request and returns the answer, to be closed. Raises HTTPError if the answer is no success; one that
    names another address is none either, and OSError if there is no answer. `timeout`: most seconds without an answer.
    """
    return build_opener(_Refused()).open(request, timeout=timeout)
