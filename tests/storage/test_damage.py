"""Damage of published tables in an object store: another program's commits, and objects that are gone."""

from __future__ import annotations

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from lowwater.cli.doctor import _wrong_tables
from lowwater.config import Retention
from lowwater.errors import LakeError
from lowwater.instants import HOUR
from lowwater.lake.layout import open_lake
from lowwater.lake.maintain import maintain
from lowwater.lake.results.pins import pinned
from lowwater.lake.tables import read_rows
from lowwater.lake.verification import Asked, verify
from lowwater.storage import objects, paths
from lowwater.storage.object_paths import ObjectPath
from lowwater.storage.objects import file_cache, look_again
from tests.lake.support import BASE
from tests.lake.test_published import QUERIES, damaged, put


@pytest.mark.slow
def test_damage_in_a_store_is_found_and_mended(root: ObjectPath) -> None:
    lake = open_lake(root)
    for hour in range(2):
        put(lake, hour, hour)
    assert damaged(lake) == {}
    path = lake.table("q")
    DeltaTable(str(path), storage_options=objects.options(path)).delete(f'"_last" = {BASE}')
    look_again()
    found = damaged(lake)
    assert list(found) == [0] and "DELETE by delta-rs" in found[0]
    put(lake, 0, 0)
    assert damaged(lake) == {}
    (gone,) = [file for file in paths.files_below(path / f"_hour={BASE // HOUR + 1}") if file.suffix == ".parquet"]
    paths.remove(gone)
    assert damaged(lake) == {} and [gone.name in line for line in _wrong_tables(lake)] == [True], "doctor looks"
    file_cache().file_of(gone).unlink(missing_ok=True)  # as another process
    with pytest.raises(LakeError, match="cannot be read: there is no such object") as unread:
        read_rows(path, pa.schema([("_last", pa.int64())]))
    assert "`lowwater maintain`, then `lowwater backfill`" in unread.value.hint
    maintain(lake, Retention(versions="1h"))
    found = damaged(lake)
    assert list(found) == [1] and "is gone or cut" in found[1]
    put(lake, 1, 1)
    whole = pinned(lake, "set", QUERIES)
    assert damaged(lake) == {} and whole is not None and not whole.unfinished


@pytest.mark.slow
def test_changed_bytes_in_a_store_are_found_and_mended(root: ObjectPath) -> None:
    """A copy between stores may change bytes; the copy in the cache of this machine is as it was."""
    lake = open_lake(root)
    for at in range(2):
        put(lake, at, at)
    path = lake.table("q")
    (file,) = [file for file in paths.files_below(path / f"_hour={BASE // HOUR}") if file.suffix == ".parquet"]
    content = bytearray(paths.read(file))
    content[len(content) // 3] ^= 0x10
    objects.write(file, bytes(content))  # type: ignore[arg-type]
    assert verify(lake, Asked()).damaged == []
    (found,) = verify(lake, Asked(data=True)).damaged
    assert file.name in found.where and found.what == "has other bytes than were written"
    look_again()
    assert list(damaged(lake)) == [0] and "other bytes" in damaged(lake)[0]
    put(lake, 0, 5)
    look_again()
    assert damaged(lake) == {} and verify(lake, Asked(data=True)).damaged == []
