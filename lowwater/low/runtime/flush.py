"""Flush policies: when groups of closed epochs leave the table of an aggregation (002, section 6).

No policy changes rows. The code of `low.code.aggregation` and `low.runtime.lfta_operators` read them. A group that
stays in the table delays the promise of the stream (P2).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from lowwater.errors import ConfigError


class FlushKind(StrEnum):
    """The kinds of flush policies.

    With IMMEDIATE all groups leave at the promise. With SLOW and OOP_SLOW a group leaves every so many records, in
    order or not. With LAZY groups leave when a collision needs their slot.
    """

    IMMEDIATE = "immediate"
    SLOW = "slow"
    OOP_SLOW = "oop-slow"
    LAZY = "lazy"


_PARAMETERS = {
    FlushKind.IMMEDIATE: (),
    FlushKind.SLOW: ("every",),
    FlushKind.OOP_SLOW: ("every", "windows"),
    FlushKind.LAZY: ("windows",),
}
_MAX_NUMBER = 1_000_000


@dataclass(frozen=True)
class Flush:
    """A flush policy.

    `slow` is the policy of Gigascope: one group leaves every so many records. All remaining ones leave at the next
    close, and also before a collision ejects a group of an open epoch. `oop-slow` keeps no order, and groups may stay
    for some windows. With `lazy` groups leave at collisions only.

    Attributes:
        kind: the kind of the policy.
        every: the number of records between two groups that leave.
        windows: how long a group may stay after its epoch has closed, in lengths of its window.

    Example:
        >>> Flush.parse("oop-slow 160 2")
        Flush(kind=<FlushKind.OOP_SLOW: 'oop-slow'>, every=160, windows=2)
    """

    kind: FlushKind = FlushKind.IMMEDIATE
    every: int = 1
    windows: int = 0

    def __post_init__(self) -> None:
        if not (1 <= self.every <= _MAX_NUMBER and 0 <= self.windows <= _MAX_NUMBER):
            hint = f"give 1 to {_MAX_NUMBER:,} records, and 0 to {_MAX_NUMBER:,} windows: flush of [replay]"
            raise ConfigError(f"the flush policy {self} is out of bounds", hint)

    @staticmethod
    def parse(text: str) -> Flush:
        """Returns the policy that a text names: a kind, then its numbers.

        Raises:
            ConfigError: the text names no policy.
        """
        word, *numbers = text.split() or [""]
        kinds = {str(kind): kind for kind in FlushKind}
        if (
            word not in kinds
            or len(numbers) != len(_PARAMETERS[kinds[word]])
            or not all(n.isdecimal() for n in numbers)
        ):
            forms = ", ".join(f'"{" ".join((kind, *map(str.upper, _PARAMETERS[kind])))}"' for kind in FlushKind)
            raise ConfigError(f"the flush policy {text!r} is not known", f"write one of {forms}")
        kind = kinds[word]
        parameters = dict(zip(_PARAMETERS[kind], map(int, numbers), strict=True))
        return Flush(kind, **({"windows": 1} if kind is FlushKind.SLOW else {}) | parameters)

    def __str__(self) -> str:
        return " ".join([self.kind, *(str(getattr(self, name)) for name in _PARAMETERS[self.kind])])

    @property
    def steps(self) -> bool:
        """Whether groups leave between promises."""
        return self.kind in (FlushKind.SLOW, FlushKind.OOP_SLOW)

    @property
    def ordered(self) -> bool:
        """Whether groups of closed epochs leave before any group of an open epoch."""
        return self.kind is FlushKind.SLOW

    @property
    def waits(self) -> bool:
        """Whether a group may stay after its epoch has closed."""
        return self.windows > 0


IMMEDIATE = Flush()
"""The policy by which every group leaves at the promise that closes its epoch."""
