"""Watch lists: values by type, comments, wrong lines named with file and number."""

from __future__ import annotations

from pathlib import Path

import pytest

from lowwater.catalog.values import Type, pack_ip
from lowwater.catalog.watchlists import read_watchlist
from lowwater.errors import ConfigError

COLUMNS = (("address", Type.IP), ("id", Type.INT), ("name", Type.STRING), ("on", Type.BOOL), ("mac", Type.MAC))


def test_rows_have_the_values_of_their_types(tmp_path: Path) -> None:
    file = tmp_path / "w.csv"
    file.write_text('# who\n\n10.0.0.1, 0x10, "a, b", true, 02:00:00:00:00:01\n2001:db8::1,-3,,0,\n', encoding="utf-8")
    assert read_watchlist(str(file), COLUMNS) == [
        (pack_ip("10.0.0.1"), 16, "a, b", True, 0x020000000001),
        (pack_ip("2001:db8::1"), -3, None, False, None),
    ]


@pytest.mark.parametrize(
    ("line", "says"),
    [("10.0.0.1,1,a,true", "has 4 values, not 5"), ("10.0.0.256,1,a,true,", "'10.0.0.256' is no ip, which address is"),
     ("10.0.0.1,99999999999999999999,a,true,", "is no int, which id is"),
     ("10.0.0.1,1,a,maybe,", "'maybe' is no bool, which on is")],
)  # fmt: skip
def test_a_wrong_line_is_named(tmp_path: Path, line: str, says: str) -> None:
    file = tmp_path / "w.csv"
    file.write_text(f"10.0.0.1,1,a,true,\n{line}\n", encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        read_watchlist(str(file), COLUMNS)
    assert f"{file}:2: " in caught.value.message and says in caught.value.message
