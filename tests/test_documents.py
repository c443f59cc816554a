"""Settings and small files of a lake that somebody else wrote: one error that names the file, in time that is short."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lowwater.config import load_config
from lowwater.documents import stored_object, toml_table
from lowwater.errors import ConfigError, LowwaterError
from lowwater.lake.results.published import read_entry
from lowwater.lake.results.subscription import Position
from lowwater.limits import KEY_PARTS, SETTINGS_BYTES
from lowwater.storage.locks import Claims

MANY = 50_000
SETTINGS = {
    "brackets": "x = " + "[" * MANY,
    "tables in tables": "x = " + "{a=" * MANY,
    "a deep key": ".".join("a" * MANY) + " = 1",
    "a deep key with quotes": " . ".join(["'a'", '"b"'] * MANY) + " = 1",
    "a deep section": "[" + ".".join("a" * MANY) + "]",
    "keys": "".join(f"k{at} = 1\n" for at in range(MANY)),
    "quotes": "\"'" * MANY,
    "a long word": "a" * (SETTINGS_BYTES - 1),
    "a set of links": "[sets]\nlinks = [" + ",".join(f'"k{at}"' for at in range(MANY)) + "]",
    "bytes": "x" * (SETTINGS_BYTES + 1),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
def test_settings_of_any_size_and_depth_are_refused_at_once(name: str, tmp_path: Path) -> None:
    file = tmp_path / "lowwater.toml"
    file.write_text(SETTINGS[name])
    with pytest.raises(ConfigError, match=r"lowwater\.toml: ") as refused:
        load_config(tmp_path)
    assert len(str(refused.value)) < 1000


def test_keys_as_people_write_them_are_read() -> None:
    deep = ".".join("a" * KEY_PARTS)
    assert toml_table(f"{deep} = 1")["a"]
    with pytest.raises(ValueError, match="at line 2"):
        toml_table(f"x = 1\n{deep}.a = 1")


DEEP = "[" * MANY
READERS: dict[str, Callable[[Path, str], object]] = {
    "a commit": lambda root, text: read_entry(root / "tables" / "flows", 3),
    "a position": lambda root, text: Position.parse(text, "here"),
    "a ledger": lambda root, text: stored_object(text),
}


@pytest.mark.parametrize("text", [DEEP, '{"a":' * MANY, "9" * MANY, "[]", "null", '"\\ud800"', "{", ""])
@pytest.mark.parametrize("name", READERS)
def test_a_small_file_of_a_lake_is_refused_by_name(name: str, text: str, tmp_path: Path) -> None:
    for place in ("pins/set.json", f"tables/flows/_delta_log/{3:020d}.json"):
        (tmp_path / place).parent.mkdir(parents=True)
        (tmp_path / place).write_text(text)
    if name == "a commit" and not text:
        return  # a commit without actions
    with pytest.raises(LowwaterError) as refused:
        READERS[name](tmp_path, text)
    assert len(str(refused.value)) < 500 and refused.value.hint


@pytest.mark.parametrize("text", [DEEP, "{", "[]", '{"fence":[],"claims":[]}', '{"fence":1,"claims":[[]]}'])
def test_claims_are_refused_without_recursion(text: str) -> None:
    with pytest.raises((ValueError, KeyError, TypeError)):
        Claims.of(text.encode())
