"""The rule of time jumps (SEMANTICS T3) as it is written, slowly, and recorders whose clocks are set."""

from __future__ import annotations

from collections.abc import Sequence


def leads(stamps: Sequence[int]) -> list[int]:
    """How far each timestamp leads."""
    return [_lead(stamps, index) for index in range(len(stamps))]


def _lead(stamps: Sequence[int], index: int) -> int:
    side = min(16, index, len(stamps) - 1 - index)
    before, after = stamps[index - side : index], stamps[index + 1 : index + 1 + side]
    window = [*before, stamps[index], *after]
    found = 0
    for level in {level for level in window if level < stamps[index] and sum(at <= level for at in window) > side}:
        last = next(place for place, stamp in enumerate(after) if stamp <= level)
        above = [stamp for stamp in (*before, stamps[index], *after[:last]) if stamp > level]
        if max(stamp for stamp in after if stamp <= level) < min(stamp for stamp in before if stamp <= level):
            continue
        near = [stamp for stamp in stamps[max(index - 32, 0) : index + 17] if stamp <= level]
        pauses = [stamp - max(near[:place]) for place, stamp in enumerate(near) if place]
        if min(above) - level > 4 * max(0, *pauses):
            found = max(found, min(above) - level)
    return found


def recorded(gaps: Sequence[float], sets: dict[int, float], begin: float = 0) -> list[float]:
    """Times of records by a clock that is set."""
    stamps, clock = [], begin
    for number in range(len(gaps) + 1):
        clock += sets.get(number, 0)
        stamps.append(clock)
        clock += gaps[number] if number < len(gaps) else 0
    return stamps
