"""Programs of others that read a published table while it is published anew."""

from __future__ import annotations

import pytest

from lowwater.storage.object_paths import ObjectPath
from tests.storage.polling import poll
from tests.storage.servers import Proxy


@pytest.mark.nightly
@pytest.mark.slow
def test_readers_see_whole_versions_only(root: ObjectPath, proxy: Proxy) -> None:
    for reader, polled in poll(root, proxy, 5).items():
        assert len(set(polled.versions)) > 1, f"{reader} saw no change: {polled}"
    assert len({fault for *_, fault in proxy.seen() if fault}) > 2
