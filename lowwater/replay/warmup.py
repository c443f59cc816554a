"""Warm-up: starts slow imports in the background, before a command needs them.

A command spends its first seconds on its own imports, on one core; the other core is free for this work. This module
imports nothing heavy, so that a command can call it first.
"""

from __future__ import annotations

import gc
import sys
from contextlib import suppress
from importlib import import_module
from threading import Thread


def import_early(module: str) -> None:
    """Imports a module in a thread; an import of it elsewhere waits, and gets the error if there is one."""
    if module not in sys.modules:
        Thread(target=_import, args=(module,), name=f"import {module}").start()


def _import(module: str) -> None:
    collecting = gc.isenabled()
    gc.disable()  # next to nothing of what an import makes is garbage
    try:
        # Whatever is wrong with the module is raised where it is needed.
        with suppress(Exception):
            import_module(module)
    finally:
        if collecting:
            gc.enable()
