"""Reports the files and tables of a task to OpenLineage, if its provider is installed.

Airflow's provider asks an operator after a task; OpenLineage is imported only then.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lowwater.errors import LakeError
from lowwater.instants import format_instant
from lowwater.storage.object_paths import ObjectPath
from lowwater.storage.paths import lake_path

if TYPE_CHECKING:
    from lowwater.lake.results.published import Publication

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
        read, written = (
            [dataset(*identifier(path), facets=stream_facets(path)) for path in paths] for paths in self.datasets
        )
        return lineage(inputs=read, outputs=written)


def stream_facets(text: str) -> dict[str, Any]:
    """Returns what OpenLineage is told of a published table: schema, owner, version, last interval and its promise.
    `text`: path of a table; of other datasets nothing is told."""
    # A scheduler that reads DAG files needs no Arrow, so what reads tables is imported here.
    from lowwater.lake.results.published import last_note
    from lowwater.lake.tables import OWNER, open_table

    path = lake_path(text)
    if path.parent.name != "tables":
        return {}
    try:
        table = open_table(path)
        note = None if table is None else last_note(path, table.version())
    except LakeError:  # the task has done its work; lineage is no reason to fail
        return {}
    if table is None:
        return {}
    generated = "openlineage.client.generated"
    schema = import_module(f"{generated}.schema_dataset")
    columns = [column for column in table.schema().fields if column.name not in ("_last", "_hour")]
    fields = [schema.SchemaDatasetFacetFields(name=column.name, type=str(column.type.type)) for column in columns]
    ownership = import_module(f"{generated}.ownership_dataset")
    owner = ownership.Owner(name=table.metadata().configuration.get(OWNER) or "", type="query set")
    version = import_module(f"{generated}.dataset_version_dataset")
    facets = {
        "schema": schema.SchemaDatasetFacet(fields=fields),
        "ownership": ownership.OwnershipDatasetFacet(owners=[owner]),
        "version": version.DatasetVersionDatasetFacet(datasetVersion=str(table.version())),
    }
    return facets if note is None else {**facets, "lowwater_stream": _stream_facet(note)}


def _stream_facet(note: Publication) -> Any:
    """Returns the facet of our own: the interval that was published last, and the promise after it."""
    base = import_module("openlineage.client.facet_v2").DatasetFacet
    attr = import_module("attr")
    names = ("interval_start", "interval_end", "restated", "late", "published_until", "promise")
    facet = attr.make_class("LowwaterStreamFacet", [*names], bases=(base,))
    values = format_instant(note.start), format_instant(note.end), note.restated, note.late
    return facet(*values, format_instant(note.ranges[-1][1]), dict(note.promise))


def identifier(text: str) -> tuple[str, str]:
    """Returns OpenLineage's namespace and name of a file, or of an object: its bucket and its key."""
    path = lake_path(text)
    return (path.bucket, path.key) if isinstance(path, ObjectPath) else ("file", text)


def tables(lake: str, folder: str, queries: Any) -> list[str]:
    """The paths of the tables of queries in a folder of the lake."""
    return [str(lake_path(lake) / folder / name) for name in sorted(queries)]
