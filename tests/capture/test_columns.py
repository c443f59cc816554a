"""Reading some columns of a capture gives what reading all of them gives, in any order and of every format."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

from lowwater.capture import ContentOptions, read
from lowwater.capture.reader import BATCH
from lowwater.errors import CaptureError
from tests.breadth import some
from tests.capture import fuzz_inputs

MAX_JUMP = 61_000_000_000


def outcome(path: Path, columns: list[str] | None, content: ContentOptions | None = None) -> tuple[object, ...]:
    """The batches of each interface, and all that a reader says of a file."""
    reader = read(path, MAX_JUMP, 4096, columns=columns, content=content or ContentOptions())
    batches = [(interface.index, batch) for interface, batch in reader.by_interface()]
    return batches, list(reader.malformed), reader.summary


@pytest.mark.slow
@pytest.mark.parametrize("number", some(range(len(fuzz_inputs.files())), 3))
def test_columns_are_those_of_the_whole(number: int, tmp_path: Path) -> None:
    drawn = random.Random(number)
    path = tmp_path / "capture"
    path.write_bytes(fuzz_inputs.files()[number])
    try:
        whole, malformed, summary = outcome(path, None)
    except CaptureError as error:
        with pytest.raises(CaptureError, match=str(error.message)[:20].replace("(", r"\(")):
            outcome(path, ["len"])
        return
    assert isinstance(whole, list)
    for size in (0, 1, 8, 20, len(BATCH)):
        names = drawn.sample(BATCH.names, size)
        some, same_malformed, same_summary = outcome(path, names)
        assert isinstance(some, list)
        assert (same_malformed, same_summary) == (malformed, summary)
        for (interface, batch), (index, full) in zip(some, whole, strict=True):
            batch.validate(full=True)
            assert interface == index
            assert batch.num_rows == full.num_rows
            assert batch.schema == pa.schema([BATCH.field(name) for name in names])
            assert batch == full.select(names)


@pytest.mark.slow
def test_columns_beside_what_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "capture"
    path.write_bytes(fuzz_inputs.files()[0])
    content = ContentOptions(payload=4, applications=("dns",), key=bytes(range(32)))
    whole, _, _ = outcome(path, None, content)
    names = ["frame", "srcIP_lo", "dns_query", "len"]
    some, _, _ = outcome(path, names, content)
    assert isinstance(whole, list)
    assert isinstance(some, list)
    assert [batch for _, batch in some] == [batch.select(names) for _, batch in whole]
