"""What a strategy gives for a number: the same on every machine and in every process."""

from __future__ import annotations

from random import Random
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.control import BuildContext
from hypothesis.internal.conjecture.data import ConjectureData
from hypothesis.internal.conjecture.providers import PrimitiveProvider

T = TypeVar("T")


class Seeded(PrimitiveProvider):
    """Choices of one generator of random numbers; our strategies make no texts, bytes and floats."""

    avoid_realization = False

    def __init__(self, data: ConjectureData | None, /, random: Random) -> None:
        super().__init__(data)
        self.random = random

    def draw_boolean(self, p: float = 0.5) -> bool:
        return self.random.random() < p

    def draw_integer(
        self,
        min_value: int | None = None,
        max_value: int | None = None,
        *,
        weights: dict[int, float] | None = None,
        shrink_towards: int = 0,
    ) -> int:
        assert min_value is not None and max_value is not None
        return self.random.randint(min_value, max_value)

    def draw_float(self, **kwargs: Any) -> float:
        raise NotImplementedError("floats")

    def draw_string(self, *args: Any, **kwargs: Any) -> str:
        raise NotImplementedError("texts")

    def draw_bytes(self, *args: Any, **kwargs: Any) -> bytes:
        raise NotImplementedError("bytes")


def drawn(strategy: st.SearchStrategy[T], seed: int) -> T:
    """The value of a strategy for a number."""
    data = ConjectureData(random=None, provider=Seeded, provider_kw={"random": Random(seed)})
    with BuildContext(data, wrapped_test=drawn):
        return data.draw(strategy)
