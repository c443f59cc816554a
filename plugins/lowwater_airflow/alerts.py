"""Who is told when a run fails or misses its deadline: the log, and the webhook of the settings.

Named by the DAGs; deadlines are watched by Airflow's scheduler, which runs `late` in the triggerer.
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
    """A run has not ended in time: the callback of its deadline."""
    run = _run(context)
    text = f"{run['dag']} {run['run']} has missed its deadline and goes on"
    notify = _notify()
    connection = await Connection.async_get(notify.connection) if notify.connection else None
    await asyncio.to_thread(_tell, _request(notify, connection), {"kind": "deadline", "text": text, **run})


def failed(context: Mapping[str, Any]) -> None:
    """A run has failed: the callback of its DAG."""
    run = _run(context)
    text = f"{run['dag']} {run['run']} has failed: see the logs of its tasks"
    notify = _notify()
    connection = Connection.get(notify.connection) if notify.connection else None
    _tell(_request(notify, connection), {"kind": "failed", "text": text, **run})


def _notify() -> Notify:
    """Read when there is something to tell: what a DAG names is stored in clear with it."""
    return Settings.load().config.notify


def _request(notify: Notify, connection: Any) -> Request | None:
    """Where to post, with the token of the connection: host the address, password the token."""
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
    """The names of the run: an object where a DAG has failed, JSON as the REST interface has it for a deadline."""
    dag_run = context.get("dag_run")
    named = {"dag": ("dag_id",), "run": ("run_id", "dag_run_id"), "interval": ("data_interval_start",)}
    return {key: _first(dag_run, names) for key, names in named.items()}


def _first(values: Any, names: tuple[str, ...]) -> str:
    """The first of some attributes, or keys, that there is."""
    get = values.get if isinstance(values, Mapping) else lambda name: getattr(values, name, None)
    return next((str(value) for name in names if (value := get(name)) is not None), "")


def _tell(request: Request | None, alert: dict[str, str]) -> None:
    """Logs, and posts to the webhook; that it cannot be reached is logged and stops nothing."""
    log.error(alert["text"])
    if request is None:
        return
    request.data = json.dumps(alert).encode()
    try:
        with urlopen(request, timeout=TIMEOUT):
            pass
    except OSError as error:
        log.error("the webhook of [notify] cannot be reached: %s", error)
