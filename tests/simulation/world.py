"""The simulated world: one thread, virtual time, processes that take turns, a store with faults, drawn by seed."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import md5
from typing import Any

from greenlet import greenlet

from lowwater.storage.failures import StoreError
from lowwater.storage.objects import ChangedError

EPOCH = 1_800_000_000.0
"""The store's time at the begin, s since the epoch."""
TIMEOUT = 20.0
"""Seconds after which a client gives a request up."""
MOST_EVENTS = 60_000
"""Events after which a schedule counts as one that never ends."""


class DeadError(BaseException):
    """Ends what a killed process was doing."""


class Violation(AssertionError):  # what a schedule is searched for
    """The lake is not as it has to be."""


@dataclass
class Process:
    """A process of the world."""

    number: int
    wall: float = 0.0
    rate: float = 1.0
    frozen: float = 0.0
    paused: float = 0.0
    dead: bool = False
    tables: dict[Any, Any] = field(default_factory=dict)
    worked: float = 0.0
    ended: Any = None


@dataclass
class Faults:
    """How often what happens."""

    lost: float = 0.0
    late: float = 0.0
    failed: float = 0.0
    slow: float = 0.0
    stopped: float = 0.0
    died: float = 0.0
    stale: float = 0.0


@dataclass(frozen=True)
class Stored:
    """An object: content, tag, and when it was written, s of virtual time."""

    data: bytes
    tag: str
    at: float


class World:
    """Time, processes and the store. Everything is drawn from the seed."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.now = 0.0
        self.faults = Faults()
        self.objects: dict[str, Stored] = {}
        self.history: list[tuple[float, str, bool]] = []
        self.processes: list[Process] = []
        self.watchers: list[Callable[[str, bytes | None], None]] = []
        self.log: list[str] | None = None
        self.closed = False
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._names = 0
        self._running: dict[greenlet, Process] = {}
        self._greens: list[greenlet] = []
        self._main = greenlet.getcurrent()

    # time and turns

    def at(self, when: float, act: Callable[[], None]) -> None:
        """Does something at a time."""
        self._count += 1
        heapq.heappush(self._queue, (when, self._count, act))

    def run(self) -> None:
        """Runs until nothing happens any more."""
        events = 0
        while self._queue:
            when, _, act = heapq.heappop(self._queue)
            self.now = max(self.now, when)
            events += 1
            if events > MOST_EVENTS:
                raise Violation(f"still {len(self._queue)} events after {self.now:.0f} s: something never ends")
            act()

    def close(self) -> None:
        """Ends all that still waits."""
        self.closed = True
        for green in self._greens:
            if not green.dead and green:
                green.throw(DeadError)

    def me(self) -> Process:
        """The process whose turn it is."""
        return self._running[greenlet.getcurrent()]

    def start(self, program: Callable[[], Any], process: Process | None = None, delay: float = 0.0) -> Process:
        """Starts a program as a process of its own, or as a thread of one."""
        own = process is None
        if process is None:
            process = Process(len(self.processes) + 1)
            self.processes.append(process)

        def body() -> None:
            try:
                result = program()
            except DeadError:
                return
            except Violation:
                raise
            except Exception as error:  # noqa: BLE001  # it ends, and says why
                result = error
            if own and not process.dead:
                process.ended = result if result is not None else "done"
                self.say(f"ended: {process.ended!r}", process)

        green = greenlet(body, self._main)
        self._running[green] = process
        self._greens.append(green)
        self.at(self.now + delay, lambda: self._resume(green))
        return process

    def _resume(self, green: greenlet) -> None:
        process = self._running[green]
        if process.dead or green.dead:
            return
        if process.paused > self.now:
            self.at(process.paused, lambda: self._resume(green))
            return
        green.switch()

    def wait(self, until: float, woken: list[Callable[[], None]] | None = None) -> None:
        """Gives the turn away until a time, or until something wakes it: `woken` gets what does that."""
        self._check()
        green = greenlet.getcurrent()
        state = {"due": True}

        def wake() -> None:
            if state["due"]:
                state["due"] = False
                self._resume(green)

        if woken is not None:
            woken.append(lambda: self.at(self.now, wake))
        if until < float("inf"):
            self.at(until, wake)
        self._main.switch()
        self._check()

    def _check(self) -> None:
        if self.closed or self.me().dead:
            raise DeadError

    def kill(self, process: Process) -> None:
        """Kills a process; its requests that are on their way arrive nevertheless."""
        if process.ended is None and not process.dead:
            self.say("killed", process)
            process.dead = True

    def pause(self, process: Process, seconds: float, frozen: bool) -> None:
        """Stops a process for a time; with `frozen` its monotonic clock too, as on a machine that is suspended."""
        if process.ended is None and not process.dead:
            self.say(f"paused for {seconds:.1f} s{', its clock too' if frozen else ''}", process)
            process.paused = self.now + seconds
            process.frozen += seconds if frozen else 0.0

    # what a process asks its machine

    def monotonic(self) -> float:
        """The monotonic clock of the process whose turn it is."""
        self._check()
        me = self.me()
        return (self.now - me.frozen) * me.rate

    def wall(self) -> float:
        """The clock of the process whose turn it is, s since the epoch."""
        me = self.me()
        return EPOCH + me.wall + self.now * me.rate

    def name(self) -> str:
        """A name that nobody has had."""
        self._names += 1
        return f"{self._names:032x}"

    def say(self, text: str, process: Process | None = None) -> None:
        """Keeps a line of the story, where somebody reads it."""
        if self.log is not None:
            number = (process or self.me()).number
            self.log.append(f"{self.now:9.2f}  p{number}  {text}")

    # the store

    def request(self, what: str, act: Callable[[], Any], writes: bool = False) -> Any:
        """Sends a request; returns or raises what the store answers, if that comes in time."""
        self._check()
        draw, faults = self.draw, self.faults
        outcome: list[tuple[bool, Any]] = []
        process = self.me()

        def done() -> None:
            try:
                outcome.append((True, act()))
            except (OSError, ChangedError) as error:
                outcome.append((False, error))

        if writes and draw.random() < faults.stopped:
            self.pause(process, 35.0 + 60.0 * draw.random(), draw.random() < 0.5)
            self.wait(process.paused)
        chance = draw.random()
        trip = 0.01 + 0.02 * draw.random()
        if chance < faults.slow:
            trip += 8.0 * draw.random()
        chance = draw.random()
        if chance < faults.failed:
            self.wait(self.now + trip)
            self.say(f"{what}: refused")
            raise StoreError("the object store failed: Generic S3 error: 500 InternalError")
        chance -= faults.failed
        if chance < faults.lost:
            self.at(self.now + trip, done)
            self.wait(self.now + TIMEOUT * draw.random())
            self.say(f"{what}: the answer is lost")
            raise StoreError("the object store does not answer: Generic S3 error: timed out")
        chance -= faults.lost
        if writes and chance < faults.late:
            self.at(self.now + TIMEOUT + 60.0 * draw.random(), done)
            self.wait(self.now + TIMEOUT * draw.random())
            self.say(f"{what}: on its way, given up")
            raise StoreError("the object store does not answer: Generic S3 error: timed out")
        self.at(self.now + trip / 2, done)
        self.wait(self.now + trip)
        while not outcome:
            self.wait(self.now + trip)
        process.worked = self.now
        if writes and faults.died and draw.random() < faults.died:
            self.kill(process)
            raise DeadError
        good, value = outcome[0]
        if self.log is not None:
            self.say(f"{what}{'' if good else ': ' + type(value).__name__}")
        if good:
            return value
        raise value

    def put(self, key: str, data: bytes, before: str | None = None, absent: bool = False) -> str:
        """Does a write: at all, of an object with a tag, or of one that is not there."""
        found = self.objects.get(key)
        if (absent and found is not None) or (before is not None and (found is None or found.tag != before)):
            raise ChangedError
        tag = md5(data, usedforsecurity=False).hexdigest()[:12]
        self.objects[key] = Stored(data, tag, self.now)
        self.history.append((self.now, key, True))
        for watch in self.watchers:
            watch(key, data)
        return tag

    def drop(self, key: str) -> None:
        """Does a removal."""
        if self.objects.pop(key, None) is not None:
            self.history.append((self.now, key, False))
            for watch in self.watchers:
                watch(key, None)

    def get(self, key: str) -> Stored:
        """Does a read."""
        found = self.objects.get(key)
        if found is None:
            raise FileNotFoundError(2, "there is no such object")
        return found

    def listed(self, prefix: str) -> list[tuple[str, Stored]]:
        """Does a list; of a store whose lists are behind, the changes of the last seconds are not in it."""
        names = {key for key in self.objects if key.startswith(prefix)}
        if self.faults.stale:
            since = self.now - self.faults.stale * self.draw.random()
            for when, key, added in reversed(self.history):
                if when < since:
                    break
                if key.startswith(prefix):
                    (names.discard if added else names.add)(key)
        found = ((key, self.objects.get(key)) for key in sorted(names))
        return [(key, stored or Stored(b"", "", self.now)) for key, stored in found]

    def modified(self, stored: Stored) -> datetime:
        """When an object was written, by the clock of the store, as it says it: in whole seconds."""
        return datetime.fromtimestamp(int(EPOCH + stored.at), UTC)


class SimTime:
    """`time`, for a process of the world."""

    def __init__(self, world: World) -> None:
        self._world = world

    def monotonic(self) -> float:
        """As of the process whose turn it is."""
        return self._world.monotonic()

    def time(self) -> float:
        """As of the process whose turn it is."""
        return self._world.wall()

    def time_ns(self) -> int:
        """As of the process whose turn it is."""
        return int(self._world.wall() * 1e9)

    def sleep(self, seconds: float) -> None:
        """Gives the turn away."""
        self._world.wait(self._world.now + seconds / self._world.me().rate)


class SimUuid:
    """`uuid`, with names in the order of the schedule."""

    def __init__(self, world: World) -> None:
        self._world = world

    def uuid4(self) -> Any:
        """A new name."""
        name = self._world.name()

        class Name:
            hex = name[::-1]

        return Name


class SimThreading:
    """`threading`, whose threads are programs of the same process."""

    def __init__(self, world: World) -> None:
        sim = world

        class Event:
            """An event of one process."""

            def __init__(self) -> None:
                self._set = False
                self._woken: list[Callable[[], None]] = []

            def set(self) -> None:
                self._set = True
                for wake in self._woken:
                    wake()
                self._woken.clear()

            def is_set(self) -> bool:
                return self._set

            def wait(self, timeout: float | None = None) -> bool:
                if not self._set:
                    until = float("inf") if timeout is None else sim.now + timeout / sim.me().rate
                    sim.wait(until, self._woken)
                return self._set

        class Thread:
            """A thread of one process."""

            def __init__(self, target: Callable[[], None], name: str = "", daemon: bool = True) -> None:
                self._target, self._over = target, Event()

            def start(self) -> None:
                def body() -> None:
                    self._target()
                    self._over.set()

                sim.start(body, sim.me())

            def join(self) -> None:
                self._over.wait()

        self.Event, self.Thread = Event, Thread


def drawn(world: World, low: float, high: float) -> float:
    """A number between two."""
    return low + (high - low) * world.draw.random()


def spread(world: World, count: int, seconds: float) -> Iterator[float]:
    """Instants at which something happens."""
    for _ in range(count):
        yield seconds * world.draw.random()
