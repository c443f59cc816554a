"""What OpenLineage is told of a task where its provider is installed: the files and tables that it read and wrote.

Beside the operators. Airflow's provider asks for it after a task, and nothing of it is imported before.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

Names = tuple[list[str], list[str]]
"""Paths that were read, and those that were written."""


class Lineage:
    """An operator whose `execute` leaves what it read and wrote in `datasets`."""

    datasets: Names = ([], [])

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:
        """The paths as an `OperatorLineage` of datasets, named as OpenLineage names local files."""
        # By their names: the provider need not be installed, and then nobody asks.
        dataset = import_module("openlineage.client.event_v2").Dataset
        lineage = import_module("airflow.providers.openlineage.extractors").OperatorLineage
        read, written = ([dataset(namespace="file", name=path) for path in paths] for paths in self.datasets)
        return lineage(inputs=read, outputs=written)


def tables(lake: str, folder: str, queries: Any) -> list[str]:
    """The paths of the tables of some queries in a folder of the lake."""
    return [str(Path(lake) / folder / name) for name in sorted(queries)]
