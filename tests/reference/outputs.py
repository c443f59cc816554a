"""What every operator of an evaluation gives: the last instants of its rows, beside what it has promised."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from unittest.mock import patch

from experiments.architectures import OrderOperator, Probe
from lowwater.stream.operators import Promise, Row, StreamOperator


@dataclass
class Output:
    """What one operator gives."""

    lasts: list[int] = field(default_factory=list)
    promised: int = 0
    early: int = 0
    readers: set[type[StreamOperator]] = field(default_factory=set)


@contextmanager
def outputs() -> Iterator[dict[str, Output]]:
    """The outputs of the operators of an experiment, by name."""
    found: dict[str, Output] = {}
    count = Probe.row

    def output_of(probe: Probe) -> Output:
        readers = {type(reader) for reader, _ in probe._operator._consumers} - {Probe}
        return found.setdefault(probe.observed.operator, Output(readers=readers))

    def row(probe: Probe, port: int, row: Row) -> None:
        count(probe, port, row)
        output = output_of(probe)
        output.lasts.append(row.last)
        output.early += row.last < output.promised

    def promise(probe: Probe, port: int, promise: Promise) -> None:
        output = output_of(probe)
        if not promise.origin and not promise.of:
            output.promised = max(output.promised, promise.instant)

    with patch.object(Probe, "row", row), patch.object(Probe, "promise", promise):
        yield found


def check_order(found: dict[str, Output]) -> None:
    """Every operator gives its rows in order, or gives them to a merge only; windows are not tagged (IOP)."""
    kinds = {name: name.split("/")[1] for name in found}
    assert "Bucket" not in kinds.values()
    for name, output in found.items():
        assert not output.early, f"{name}: {output.early} rows below a promise"
        if kinds[name] in ("Source", "Join", "FilterJoin"):
            assert output.readers == {OrderOperator}, f"{name}: {output.readers}"
        else:
            assert output.lasts == sorted(output.lasts), f"{name}: {output.lasts}"
