"""Warm-up: starts the Spark JVM in the background, before a command needs it.

A command spends its first seconds on its own imports, on one core; the other core is free for this work. This module
imports nothing heavy, so that a command can call it first.
"""

from __future__ import annotations

import os
import tomllib
from contextlib import suppress
from pathlib import Path, PurePath
from threading import Thread


def launch_jvm_early(lake: PurePath, given: str | None = None) -> None:
    """Starts the JVM in a thread, if a Spark is named; `build_session` uses it if its sizes fit.

    `build_session` reports errors. An unused JVM ends with this process.

    Args:
        lake: the lake; settings in an object store are read later, and the JVM starts then.
        given: value of `--spark`; None to look at the environment, then at the settings.
    """
    if not _names_spark(lake, given):
        return
    # A daemon: the process must not wait for an unused JVM.
    Thread(target=_launch, name="lowwater-jvm", daemon=True).start()


def _names_spark(lake: PurePath, given: str | None) -> bool:
    named = given or os.environ.get("LOWWATER_SPARK_MASTER") or os.environ.get("LOWWATER_SPARK__MASTER")
    if named is None and isinstance(lake, Path):
        with suppress(Exception):  # whatever is wrong with the settings is said where they are read
            settings = tomllib.loads((lake / "lowwater.toml").read_text(encoding="utf-8"))
            named = settings.get("spark", {}).get("master")
    return named not in (None, "none")


def _launch() -> None:
    with suppress(Exception):
        from lowwater.spark.session import launch_jvm

        launch_jvm()
