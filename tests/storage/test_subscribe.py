"""Subscribers of a lake in an object store that fails: each row once, positions in the lake or with the subscriber."""

from __future__ import annotations

from contextlib import suppress

import pytest

from lowwater.errors import BusyError, LakeError
from lowwater.lake.layout import open_lake
from lowwater.lake.results.subscription import consumers_of, subscribe
from lowwater.lake.upkeep import join_files
from lowwater.storage.object_paths import ObjectPath
from tests.lake.support import BASE
from tests.lake.test_subscription import HALF, HOUR, View, published, put
from tests.storage.servers import Proxy, Rule


@pytest.mark.slow
def test_each_row_once_though_the_store_fails(root: ObjectPath, proxy: Proxy) -> None:
    lake, view = open_lake(root), View()
    put(lake, 0, [1, 2])
    for fault, numbers in (("500", [3]), ("503", [4, 5]), ("cut", [6])):
        proxy.breaks(Rule(fault, "GET", "tables", times=1), Rule("lost", "PUT", "tables", times=1))
        drained = False
        while not drained:
            with suppress(LakeError):  # Delta itself reads nothing twice: who subscribes begins again
                view.drain(lake)
                drained = True
        put(lake, 1, numbers)
        put(lake, 0, [1, *numbers])
    proxy.breaks()
    join_files(lake.table("q"), "_hour", [str(BASE // HOUR)])
    view.drain(lake)
    assert view.rows == published(lake)
    assert len(set(view.given)) == len(view.given)


@pytest.mark.nightly
@pytest.mark.slow
def test_the_store_keeps_the_position_of_one_process(root: ObjectPath) -> None:
    lake = open_lake(root)
    put(lake, 0, [1])
    with subscribe(str(root), "q", name="billing") as stream:
        change = stream.poll()
        assert change is not None
        stream.done(change)
        with pytest.raises(BusyError, match="subscriber billing"):
            subscribe(str(root), "q", name="billing")
    put(lake, 1, [2])
    with subscribe(str(root), "q", name="billing") as stream:
        again = stream.poll()
        assert again is not None and (again.start, [row["n"] for row in again.rows()]) == (BASE + HALF, [2])
    (consumer,) = consumers_of(lake, "q")
    assert consumer.until == BASE + HALF
