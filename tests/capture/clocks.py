"""The rule of time jumps (SEMANTICS T3) as it is written, slowly, and recorders whose clocks are set."""

from __future__ import annotations

from collections.abc import Sequence


def leads(stamps: Sequence[int]) -> list[int]:
    """How far each timestamp leads."""
    return [_lead(stamps, index) for index in range(len(stamps))]


def _lead(stamps: Sequence[int], index: int) -> int:
    first = max(min(index - 16, len(stamps) - 33), 0)
    before, after = stamps[first:index], stamps[index + 1 : first + 33]
    window = [*before, stamps[index], *after]
    found = 0
    for level in {level for level in window if level < stamps[index]}:
        if 2 * sum(at <= level for at in window) <= len(window):
            continue
        last = next((place for place, stamp in enumerate(after) if stamp <= level), None)
        if last is None:
            continue  # nothing in the capture says whether time goes on there
        above = [stamp for stamp in (*before, stamps[index], *after[:last]) if stamp > level]
        lower = [stamp for stamp in before if stamp <= level]
        if (not lower and index >= 16) or max(stamp for stamp in after if stamp <= level) < min(lower, default=0):
            continue
        near = [stamp for stamp in stamps[max(index - 32, 0) : first + 33] if stamp <= level]
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
