"""Who is told when a run fails or misses its deadline: the log, and the webhook of the settings.

Named by the DAGs; deadlines are watched by Airflow's scheduler, which runs `late` in the triggerer.
"""

from __future__ import annotations

import asyncio
import json
import logging
import urllib.request
from collections.abc import Mapping
from typing import Any

log = logging.getLogger(__name__)
TIMEOUT = 10.0
"""Seconds that a webhook may take."""


async def late(context: Mapping[str, Any], url: str = "") -> None:
    """A run has not ended in time: the callback of its deadline."""
    run = _run(context)
    text = f"{run['dag']} {run['run']} has missed its deadline and goes on"
    await asyncio.to_thread(_tell, url, {"kind": "deadline", "text": text, **run})


def failed(context: Mapping[str, Any], url: str = "") -> None:
    """A run has failed: the callback of its DAG."""
    run = _run(context)
    text = f"{run['dag']} {run['run']} has failed: see the logs of its tasks"
    _tell(url, {"kind": "failed", "text": text, **run})


def _run(context: Mapping[str, Any]) -> dict[str, str]:
    """The names of the run: an object where a DAG has failed, JSON as the REST interface has it for a deadline."""
    found = context.get("dag_run")
    named = {"dag": ("dag_id",), "run": ("run_id", "dag_run_id"), "interval": ("data_interval_start",)}
    return {key: _first(found, names) for key, names in named.items()}


def _first(found: Any, names: tuple[str, ...]) -> str:
    """The first of some attributes, or keys, that there is."""
    get = found.get if isinstance(found, Mapping) else lambda name: getattr(found, name, None)
    return next((str(value) for name in names if (value := get(name)) is not None), "")


def _tell(url: str, said: dict[str, str]) -> None:
    """Logs, and posts to the webhook; that it cannot be reached is logged and stops nothing."""
    log.error(said["text"])
    if not url:
        return
    request = urllib.request.Request(url, json.dumps(said).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT):
            pass
    except OSError as error:
        log.error("the webhook of [notify] cannot be reached: %s", error)
