"""Reports the files and tables of a task to OpenLineage, if its provider is installed.

Airflow's provider asks an operator after a task; OpenLineage is imported only then.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from lowwater.storage.object_paths import ObjectPath
from lowwater.storage.paths import lake_path

Names = tuple[list[str], list[str]]
"""Paths read, and paths written."""


class Lineage:
    """Base of operators whose `execute` stores the paths it read and wrote in `datasets`."""

    datasets: Names = ([], [])

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:
        """Returns the paths as an `OperatorLineage`, with OpenLineage's names of local files and of objects."""
        # Imported by name: the provider may not be installed, and then this is never called.
        dataset = import_module("openlineage.client.event_v2").Dataset
        lineage = import_module("airflow.providers.openlineage.extractors").OperatorLineage
        names = ([identifier(path) for path in paths] for paths in self.datasets)
        read, written = ([dataset(namespace=space, name=name) for space, name in named] for named in names)
        return lineage(inputs=read, outputs=written)


def identifier(text: str) -> tuple[str, str]:
    """Returns OpenLineage's namespace and name of a file, or of an object: its bucket and its key."""
    path = lake_path(text)
    return (path.bucket, path.key) if isinstance(path, ObjectPath) else ("file", text)


def tables(lake: str, folder: str, queries: Any) -> list[str]:
    """The paths of the tables of queries in a folder of the lake."""
    return [str(lake_path(lake) / folder / name) for name in sorted(queries)]
