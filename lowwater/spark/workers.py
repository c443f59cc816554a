"""The process from which Spark forks its Python workers (`spark.python.daemon.module`), with all that they need."""

import gc
from importlib import import_module

from pyspark.daemon import manager

NEEDED = (
    "lowwater.high.part",
    "lowwater.replay.stages.engines",
    "lowwater.replay.stages.audit",
    "lowwater.lake.ingestion.tasks",
)
"""Modules of the functions that tasks call, by name: this folder knows nothing of lakes."""

if __name__ == "__main__":
    for module in NEEDED:
        import_module(module)
    # A worker collects garbage after each task; what was loaded before is none.
    gc.collect()
    gc.freeze()
    manager()
