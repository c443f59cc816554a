"""A model of what Lowwater uses of delta-rs, over the simulated store; `test_model` compares it with the real one."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import pyarrow as pa
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction

from lowwater.lake.tables import OWNER, DataFile
from lowwater.storage.objects import ChangedError
from tests.simulation.world import World

Row = Hashable


@dataclass(frozen=True)
class State:
    """A version of a table."""

    files: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    numbers: Mapping[str, int] = field(default_factory=dict)
    partition: tuple[str, ...] = ()
    owner: str = ""

    def after(self, entry: bytes) -> State:
        """The version that a commit makes."""
        files, numbers, partition, owner = dict(self.files), dict(self.numbers), self.partition, self.owner
        for line in entry.splitlines():
            ((kind, action),) = json.loads(line).items()
            if kind == "add":
                files[action["path"]] = action
            elif kind == "remove":
                files.pop(action["path"], None)
            elif kind == "txn":
                numbers[action["appId"]] = action["version"]
            elif kind == "metaData":
                partition, owner = tuple(action["partitionColumns"]), action["owner"]
        return State(files, numbers, partition, owner)


class Tables:
    """The tables of a world, and the rows of their files."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.rows: dict[str, Counter[Row]] = {}
        self._states: dict[tuple[str, int], State] = {}

    def put(self, path: str, name: str, rows: Iterable[Row]) -> str:
        """Writes a data file; returns its name."""
        key = f"{_key(path)}/{name}"
        self.rows[key] = Counter(rows)
        self.world.request(f"PUT {key}", lambda: self.world.put(key, b"PAR1"), writes=True)
        return name

    def copy(self, source: str, target: str) -> None:
        """Copies a data file."""
        self.rows[target] = self.rows[source]
        self.world.request(f"COPY {target}", lambda: self.world.put(target, self.world.get(source).data), writes=True)

    def version(self, path: str) -> int:
        """The newest version, as nobody in the world knows it; -1 without a table."""
        version = -1
        known = self._states
        while (path, version + 1) in known or _entry(path, version + 1) in self.world.objects:
            version += 1
        return version

    def state(self, path: str, version: int) -> State:
        """A version."""
        if version < 0:
            return State()
        found = self._states.get((path, version))
        if found is None:
            entry = self.world.objects[_entry(path, version)].data
            found = self._states[path, version] = self.state(path, version - 1).after(entry)
        return found

    def rows_of(self, path: str, version: int) -> Counter[Row]:
        """The rows of a version."""
        total: Counter[Row] = Counter()
        for name in self.state(path, version).files:
            total.update(self.rows[f"{_key(path)}/{name}"])
        return total

    def make(self, path: str, partition: Iterable[str] = (), owner: str = "") -> None:
        """Makes a table before the world begins."""
        meta = json.dumps({"metaData": {"partitionColumns": list(partition), "owner": owner}})
        self.world.put(_entry(path, 0), meta.encode())
        self.world.history.clear()  # long ago: no list lacks it


def _key(path: str) -> str:
    return path.split("://", 1)[1].split("/", 1)[1]


def _entry(path: str, version: int) -> str:
    return f"{_key(path)}/_delta_log/{version:020d}.json"


class SimTable:
    """`deltalake.DeltaTable`."""

    def __init__(self, tables: Tables, path: str, version: int | None = None, retries: bool = False) -> None:
        self._tables, self._path, self._retries = tables, path, retries
        self._version = self._newest() if version is None else version
        if self._version < 0:
            raise TableNotFoundError("no log")

    def _newest(self) -> int:
        world, prefix = self._tables.world, f"{_key(self._path)}/_delta_log/"
        listed = world.request(f"LIST {prefix}", lambda: world.listed(prefix))
        names = {key for key, _ in listed if key.endswith(".json")}
        version = -1
        while _entry(self._path, version + 1) in names:
            version += 1
        return version

    @property
    def table_uri(self) -> str:
        return self._path

    @property
    def current(self) -> State:
        return self._tables.state(self._path, self._version)

    def version(self) -> int:
        return self._version

    def metadata(self) -> Any:
        owner = {OWNER: self.current.owner} if self.current.owner else {}
        return SimpleNamespace(id=self._path, partition_columns=list(self.current.partition), configuration=owner)

    def schema(self) -> Any:
        return SimpleNamespace(to_arrow=lambda: pa.schema([]))

    def transaction_version(self, name: str) -> int | None:
        return self.current.numbers.get(name)

    def file_uris(self) -> list[str]:
        return [f"{self._path}/{name}" for name in self.current.files]

    def partitions(self) -> list[Any]:
        return sorted({tuple(action["partitionValues"].items()) for action in self.current.files.values()})

    def update_incremental(self) -> None:
        self._version = max(self._version, self._newest())

    def get_add_actions(self, flatten: bool) -> pa.Table:
        assert flatten
        rows = listed(self.current)
        return pa.Table.from_pylist(rows) if rows else pa.table({"path": pa.array([], pa.string())})

    def create_write_transaction(
        self,
        actions: list[Any],
        mode: str,
        schema: Any,
        partition_by: Any = None,
        partition_filters: Any = None,
        commit_properties: Any = None,
        post_commithook_properties: Any = None,
    ) -> None:
        made = [*map(_action, actions)]
        if mode == "overwrite":
            ((column, _, values),) = partition_filters
            for name, action in self.current.files.items():
                if action["partitionValues"][column] in values:
                    made.append(("remove", {"path": name, "dataChange": True}))
        self.write(made, commit_properties)

    def write(self, actions: Iterable[tuple[str, dict[str, Any]]], properties: Any) -> None:
        """Commits actions."""
        world = self._tables.world
        numbers = [
            ("txn", {"appId": each.app_id, "version": each.version}) for each in properties.app_transactions or ()
        ]
        info = ("commitInfo", dict(properties.custom_metadata or {}))
        lines = [json.dumps({kind: action}) for kind, action in (info, *numbers, *actions)]
        data = "\n".join(lines).encode()
        retries = 15 if self._retries else properties.max_commit_retries
        if retries == 0 and self._newest() > self._version:
            raise CommitFailedError("Failed to commit transaction: 0")
        version = self._version
        for _ in range((15 if retries is None else retries) + 1):
            version += 1
            key = _entry(self._path, version)
            try:
                world.request(f"COMMIT {key}", lambda key=key: world.put(key, data, absent=True), writes=True)
                return  # the object stays at its version
            except ChangedError:
                continue
            except OSError as error:
                raise DeltaError(str(error)) from None
        raise CommitFailedError(f"Failed to commit transaction: {retries}")


class Files:
    """What `files_of` lists of a version, row by row and by columns."""

    def __init__(self, state: State) -> None:
        self._rows = listed(state)

    @property
    def num_rows(self) -> int:
        return len(self._rows)

    def select(self, names: Sequence[str]) -> Files:
        return self

    def to_pylist(self) -> list[dict[str, Any]]:
        return self._rows

    def column(self, name: str) -> Any:
        return SimpleNamespace(to_pylist=lambda: [row[name] for row in self._rows])


def listed(state: State) -> list[dict[str, Any]]:
    """The files of a version, as `live_files` has them."""
    rows = []
    for name, action in state.files.items():
        stats = json.loads(action.get("stats") or "{}")
        row = {"path": name, "size_bytes": action["size"], "num_records": stats.get("numRecords", 0)}
        row |= {f"partition.{column}": value for column, value in action["partitionValues"].items()}
        row |= {f"min.{column}": value for column, value in stats.get("minValues", {}).items()}
        row |= {f"max.{column}": value for column, value in stats.get("maxValues", {}).items()}
        rows.append(row)
    return rows


def _action(action: Any) -> tuple[str, dict[str, Any]]:
    name = quote(action.path, safe="/=-._~:@")
    if isinstance(action, AddAction):
        return "add", {
            "path": name,
            "partitionValues": action.partition_values,
            "size": action.size,
            "dataChange": action.data_change,
            "stats": action.stats,
        }
    return "remove", {"path": name, "dataChange": action.data_change}


def data_file(name: str, rows: int, partition: Mapping[str, str], first: int = 0, last: int = 0) -> DataFile:
    """Describes a data file of the world."""
    return DataFile(name, 1, rows, partition, {"_last": first}, {"_last": last})
