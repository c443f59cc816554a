"""When groups of closed epochs leave the table of an aggregation (002, section 6); never which rows a query has.

Read by the code of `low.code.aggregation` and by `low.runtime.table`. What stays in the table holds the promise of the
stream back (P2).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from lowwater.errors import ConfigError


class FlushKind(StrEnum):
    """All at the promise; one every so many records, in order or not; where a collision needs the slot."""

    IMMEDIATE = "immediate"
    SLOW = "slow"
    OOP_SLOW = "oop-slow"
    LAZY = "lazy"


_NUMBERS = {
    FlushKind.IMMEDIATE: (),
    FlushKind.SLOW: ("every",),
    FlushKind.OOP_SLOW: ("every", "windows"),
    FlushKind.LAZY: ("windows",),
}
_MOST = 1_000_000


@dataclass(frozen=True)
class Flush:
    """A flush policy.

    `slow` is that of Gigascope: one group leaves every so many records, all of them at the next close, and before a
    group of an open epoch that a collision ejects. `oop-slow` keeps no order, and waits for some windows; `lazy` leaves
    the work to collisions.

    Attributes:
        kind: the kind of the policy.
        every: records between two groups that leave.
        windows: of its own length that a group stays at most after its epoch has closed.

    Example:
        >>> Flush.parse("oop-slow 160 2")
        Flush(kind=<FlushKind.OOP_SLOW: 'oop-slow'>, every=160, windows=2)
    """

    kind: FlushKind = FlushKind.IMMEDIATE
    every: int = 1
    windows: int = 0

    def __post_init__(self) -> None:
        if not (1 <= self.every <= _MOST and 0 <= self.windows <= _MOST):
            hint = f"give 1 to {_MOST:,} records, and 0 to {_MOST:,} windows: flush of [replay]"
            raise ConfigError(f"the flush policy {self} is out of bounds", hint)

    @staticmethod
    def parse(text: str) -> Flush:
        """The policy that a text names: a kind, then its numbers.

        Raises:
            ConfigError: it names none.
        """
        word, *numbers = text.split() or [""]
        kinds = {str(kind): kind for kind in FlushKind}
        if word not in kinds or len(numbers) != len(_NUMBERS[kinds[word]]) or not all(n.isdecimal() for n in numbers):
            forms = ", ".join(f'"{" ".join((kind, *map(str.upper, _NUMBERS[kind])))}"' for kind in FlushKind)
            raise ConfigError(f"the flush policy {text!r} is not known", f"write one of {forms}")
        kind = kinds[word]
        given = dict(zip(_NUMBERS[kind], map(int, numbers), strict=True))
        return Flush(kind, **({"windows": 1} if kind is FlushKind.SLOW else {}) | given)

    def __str__(self) -> str:
        return " ".join([self.kind, *(str(getattr(self, name)) for name in _NUMBERS[self.kind])])

    @property
    def steps(self) -> bool:
        """Whether groups leave between the promises."""
        return self.kind in (FlushKind.SLOW, FlushKind.OOP_SLOW)

    @property
    def ordered(self) -> bool:
        """Whether groups of closed epochs leave before any of an open one."""
        return self.kind is FlushKind.SLOW

    @property
    def waits(self) -> bool:
        """Whether a group may stay after its epoch has closed."""
        return self.windows > 0


IMMEDIATE = Flush()
"""Every group leaves at the promise that closes its epoch."""
