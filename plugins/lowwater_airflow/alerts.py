"""Alerts when a run fails or misses its deadline: to the log, and to the webhook of the settings.

The DAGs name these callbacks. Airflow's scheduler watches deadlines and runs `late` in the triggerer.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from typing import Any
from urllib.request import Request, urlopen

from airflow.sdk import Connection

from lowwater.config import Notify
from lowwater_airflow.settings import Settings

log = logging.getLogger(__name__)
TIMEOUT = 10.0
"""Seconds that a webhook may take."""


async def late(context: Mapping[str, Any]) -> None:
    """Callback of a deadline: the run has not ended in time."""
    run = _run(context)
    text = f"{run['dag']} {run['run']} has missed its deadline and goes on"
    notify = _notify()
    connection = await Connection.async_get(notify.connection) if notify.connection else None
    await asyncio.to_thread(_tell, _request(notify, connection), {"kind": "deadline", "text": text, **run})


def failed(context: Mapping[str, Any]) -> None:
    """Callback of a DAG: a run has failed."""
    run = _run(context)
    text = f"{run['dag']} {run['run']} has failed: see the logs of its tasks"
    notify = _notify()
    connection = Connection.get(notify.connection) if notify.connection else None
    _tell(_request(notify, connection), {"kind": "failed", "text": text, **run})


def _notify() -> Notify:
    """Reads the settings when an alert is due: arguments in a DAG would be stored in clear text."""
    return Settings.load().config.notify


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


def _tell(request: Request | None, alert: dict[str, str]) -> None:
    """Logs an alert and posts it to the webhook; an unreachable webhook is logged only."""
    log.error(alert["text"])
    if request is None:
        return
    request.data = json.dumps(alert).encode()
    try:
        with urlopen(request, timeout=TIMEOUT):
            pass
    except OSError as error:
        log.error("the webhook of [notify] cannot be reached: %s", error)
