"""When an LFTA makes promises, and which: ticks, lulls, policies (000 section 4; SEMANTICS T2, T4, P1, P2, P5).

Between the operators of `low.runtime.operators`, which say what is still alive, and `low.runtime.output`. A tick h of
an ordered clock promises h - skew: it precedes the records of its instant, and those are at most `skew` late. By
arrival it promises h. A punctuation is made only where it changes a promised field, and ticks with no row between them
are one stored run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from lowwater.low.settings import LowSettings, Policy
from lowwater.plan.operators import Lfta, group_last
from lowwater.plan.temporal import END_OF_TIME, INT64_MAX, Temporal

NEVER = INT64_MAX


@dataclass
class Punctuation:
    """A promise, or a lull of promises that grow by the period (T4).

    Attributes:
        before: rows of the output that precede it.
        promise: at `tick`.
        tick: first tick; `until` the last one.
    """

    before: int
    promise: int
    tick: int
    until: int


class Operator(Protocol):
    """What heartbeats need of the LFTA's operator."""

    @property
    def size(self) -> int:
        """Rows of the output so far."""

    def flush(self, tick: int, promise: int) -> int:
        """Writes the groups that leave at a promise as rows of the tick; the least `_last` of those left alive."""

    def wake(self) -> int:
        """The least promise at which another group leaves though no record comes."""

    def finish(self, tick: int) -> int:
        """Writes all groups as rows of the tick; how many they were."""


class Heartbeats:
    """The promises of one LFTA.

    Args:
        lfta: the node.
        settings: the settings of the run.
        read_from: begin of its read range, which everybody knows.
        end: the end of the run.
        grain: clock between two promises that a reader can use, ns.
        entered: clock of the link up to which promises were made before; -1 for none.

    Attributes:
        made: punctuations not yet written, in order.
        due: arrival of the first record that may not be processed before `advance`.
    """

    def __init__(
        self, lfta: Lfta, settings: LowSettings, read_from: int, end: int, grain: int = 1, entered: int = -1
    ) -> None:
        self._lfta = lfta
        self._skew = 0 if lfta.arrival else settings.skew
        self._period = settings.period
        self._policy = settings.policy
        self._end = end
        self._grain = grain
        self._tick = entered // settings.period * settings.period
        self._change = self._next_change(read_from)
        self.made: list[Punctuation] = []
        self.due = self._due(entered)

    def after(self, instant: int) -> int:
        """The first tick strictly after an instant: the `_tick` of rows emitted then."""
        return (instant // self._period + 1) * self._period

    def advance(self, clock: int, seen: int, operator: Operator) -> None:
        """Makes the promises of the due ticks up to and including the clock; `seen` is the last clock before it."""
        if self._policy is Policy.PERIODIC:
            self._lull(min(clock, self._end + self._skew - 1), operator)
        elif self._policy is Policy.DATA_DRIVEN:
            self._follow(clock, seen, operator)
        self.due = self._due(clock)

    def close(self, seen: int, operator: Operator) -> None:
        """Makes the promises that are due after the last record, then flushes everything and promises the end (T6).

        Args:
            seen: largest arrival processed, -1 without any.
            operator: the operator of the LFTA.
        """
        bounded = self._end < END_OF_TIME
        if bounded and self._policy is Policy.PERIODIC and self.due < self._end:
            self._lull(self._end - 1, operator)
        elif bounded and self._policy is Policy.DATA_DRIVEN:
            self._follow(self._end - 1, seen, operator)
        tick = 0 if seen < 0 else self.after(seen)
        tick = max(tick, self._end) if bounded else tick
        operator.finish(tick)
        self.made.append(Punctuation(operator.size, self._end, tick, tick))

    def take(self, size: int, last: bool) -> list[Punctuation]:
        """Removes and returns what is made before `size` rows; unless `last`, a run that may still grow stays."""
        keep = 1 if self.made and not last and self.made[-1].before == size else 0
        taken, self.made = self.made[: len(self.made) - keep], self.made[len(self.made) - keep :]
        for punctuation in self.made:
            punctuation.before = 0
        return taken

    def _due(self, clock: int) -> int:
        """When something is to be promised, once all up to a clock is done."""
        if self._change >= self._end or self._policy is Policy.NONE:
            return NEVER
        if self._policy is Policy.PERIODIC:
            tick = self._tick_of(self._change)
            return tick if tick - self._skew < self._end else NEVER
        if clock - self._skew >= self._end:
            return NEVER
        # A record that says more is promised at the tick after it.
        return self.after(clock) if clock - self._skew >= self._change else self._change + self._skew

    def _follow(self, clock: int, seen: int, operator: Operator) -> None:
        """Promises what the last record said, at the tick after it if that is not after the clock."""
        if self._change <= seen - self._skew < self._end and self.after(seen) <= clock:
            self._make(self.after(seen), seen - self._skew, operator)

    def _tick_of(self, promise: int) -> int:
        """The first tick, after the last one done, that promises at least this."""
        return max(-(-(promise + self._skew) // self._period) * self._period, self._tick + self._period)

    def _next_change(self, promise: int) -> int:
        """The least promise that says more of some field, of those that readers can use."""
        change = promise + 1
        if any(field.temporal for field in self._lfta.fields):
            change = group_last(self._lfta.fields, self._lfta.promises(promise)) + 1
        return max(change, (promise // self._grain + 1) * self._grain)

    def _make(self, tick: int, promise: int, operator: Operator) -> int:
        """One tick: flush, then the promise, as high as the groups still alive allow (P2)."""
        alive = operator.flush(tick, promise)
        self._tick = tick
        self._say(min(promise, alive), tick, operator.size)
        return alive

    def _lull(self, clock: int, operator: Operator) -> None:
        last = clock // self._period * self._period
        while self._change < self._end and (tick := self._tick_of(self._change)) <= last:
            alive = self._make(tick, tick - self._skew, operator)
            # Until the next group leaves nothing but the formula changes, however many ticks that takes.
            quiet = min(last, self._tick_of(operator.wake()) - self._period)
            if alive < tick - self._skew:
                self._tick = max(tick, quiet)
                continue
            quiet = min(quiet, self._tick_of(alive + 1) - self._period)
            if quiet <= tick:
                continue
            promise = self._since(quiet - self._skew)
            if promise > tick - self._skew:
                self._tick = self._tick_of(promise)
                self._say(self._tick - self._skew, self._tick, operator.size)

    def _since(self, promise: int) -> int:
        """The least promise that says the same of every field."""
        pairs = zip(self._lfta.fields, self._lfta.promises(promise), strict=True)
        firsts = [
            Temporal((steps,)).first(value)
            for field, value in pairs
            if field.temporal and value is not None
            for steps in field.temporal.components
        ]
        return min(max(firsts, default=promise), promise // self._grain * self._grain)

    def _say(self, promise: int, tick: int, size: int) -> None:
        if promise < self._change:
            return
        self._change = self._next_change(promise)
        last = self.made[-1] if self.made else None
        grows = last is not None and last.before == size and promise - last.promise == tick - last.tick
        if last is not None and grows and self._policy is Policy.PERIODIC:
            last.until = tick
        else:
            self.made.append(Punctuation(size, promise, tick, tick))
