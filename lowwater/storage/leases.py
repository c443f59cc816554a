"""Leases in an object store: locks that end when their holder does not renew them, with numbers that fence it off.

Below `lake.locks`. The claims on a thing are one object, changed only by conditional writes, so two holders never see
different claims. No clock of another machine is believed: a claim is dead once the taker itself has seen it unchanged
for LENGTH seconds, and is renewed as long as its process gets on with its work (docs/adr/0152).
"""

from __future__ import annotations

import json
import random
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace

from lowwater.documents import json_value
from lowwater.errors import LakeError
from lowwater.storage import objects, progress
from lowwater.storage.failures import StoreError
from lowwater.storage.file_locks import HeldError
from lowwater.storage.holders import Holder, here
from lowwater.storage.object_paths import ObjectPath

LENGTH = 30.0
"""Seconds for which a claim must stay unchanged before another process takes it over; a holder renews it thrice in
this time, and writes nothing once it could not renew it for so long."""

PATIENCE = 900.0
"""Seconds without a sign of work after which a holder no longer renews its claim; the longest wait for a store is far
shorter."""

PAUSE = 0.5
"""Seconds between two looks at a claim that another process holds."""

WRITES = 50
"""Most tries to change claims that others change too."""

FAILURES = 3
"""Failed requests after which a change of claims fails; the client has sent each of them several times."""

Range = tuple[int, int]
ALL: Range = 0, 1
"""The range of a lease without ranges."""


class LostError(Exception):
    """A lease is no longer held: its holder was silent for too long, and another process took it over."""


@dataclass(frozen=True)
class Claim:
    """A claim on a range of a thing.

    Attributes:
        first: begin of the range, ns.
        end: end of the range, ns, exclusive.
        holder: process and machine, for messages.
        token: names the claim.
        beat: number of renewals.
        fence: number of the claim; a later one has a larger number.
        place: machine of the process, see `Holder`.
    """

    first: int
    end: int
    holder: str
    token: str
    beat: int
    fence: int
    place: str = ""

    @property
    def process(self) -> Holder:
        """The process of the claim."""
        number, _, where = self.holder.partition(" on ")
        return Holder(number, where, self.place)


@dataclass(frozen=True)
class Claims:
    """The claims on a thing, and the number of the last one ever made."""

    fence: int = 0
    claims: tuple[Claim, ...] = ()

    def data(self) -> bytes:
        """The content of the object."""
        return json.dumps({"fence": self.fence, "claims": [asdict(claim) for claim in self.claims]}).encode()

    @staticmethod
    def of(data: bytes) -> Claims:
        """Reads the content of the object."""
        values = json_value(data)
        return Claims(int(values["fence"]), tuple(Claim(**claim) for claim in values["claims"]))

    def meeting(self, first: int, end: int) -> list[Claim]:
        """Returns the claims on ranges that overlap [first, end)."""
        return [claim for claim in self.claims if claim.first < end and first < claim.end]

    def without(self, tokens: set[str]) -> Claims:
        """Returns the claims without some of them."""
        return replace(self, claims=tuple(claim for claim in self.claims if claim.token not in tokens))


@dataclass(frozen=True)
class Fence:
    """What a commit carries, so that a former holder cannot commit after it; see `lake.tables.commit`.

    Attributes:
        names: names of the range, and of ranges that were taken over for it.
        number: number of the lease.
        lease: the lease, which says whether it is still held.
        taken: whether it was taken over from a holder that did not give it up, and may have requests on their way.
    """

    names: tuple[str, ...]
    number: int
    lease: Lease
    taken: bool = field(default=False, compare=False)

    def require(self) -> None:
        """Checks that the lease is still held, as far as its holder knows.

        Raises:
            LostError: if it is not.
        """
        self.lease.require()

    def doubt(self) -> None:
        """Says that it is not known whether a request was done, or will be: the lease then lapses instead of being
        given up, so that the next holder takes it over, and fences off what comes late."""
        self.lease.doubted = True

    def written(self) -> None:
        """Says that the number of the lease is in all tables of its work: the former holder changes them no more."""
        self.lease.unfenced = False


class Lease:
    """A lease that is held, and renewed by a thread of its own.

    Args:
        path: the object with the claims.
        claim: the own claim.
        begun: when the write of the claim began, s of the monotonic clock.
        length: seconds after which others take it over.
        taken: whether it was taken over, see `Fence`.

    Attributes:
        doubted: whether a request under it may still be on its way.
        unfenced: whether requests of the former holder may still be done, as its number is not in the tables yet.
    """

    def __init__(self, path: ObjectPath, claim: Claim, begun: float, length: float, taken: bool = False) -> None:
        self.claim = claim
        self._path, self._length = path, length
        self._renewed, self._lost = begun, ""
        self.doubted, self.unfenced = False, taken
        self._work = progress.Watch()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._renew, name=progress.RENEWER, daemon=True)
        self._thread.start()

    def require(self) -> None:
        """Checks that the lease is still held; raises LostError otherwise."""
        if self._lost or time.monotonic() - self._renewed > self._length:
            raise LostError(f"{self._path}: {self._lost or f'the lease was not renewed for {self._length:g} s'}")

    def release(self) -> None:
        """Gives the lease up. If the store cannot be reached, others take it over when it was silent for LENGTH."""
        self._over.set()
        self._thread.join()
        if self.doubted:
            return
        with suppress(OSError, HeldError):
            _change(self._path, lambda claims: claims.without({self.claim.token}))

    def _renew(self) -> None:
        while not self._over.wait(self._length / 3 * random.uniform(0.8, 1.0)):
            if self._work.silence() > PATIENCE:
                self._lost = f"this process has done nothing for {PATIENCE / 60:g} minutes, so it let its lease go"
                return
            begun = time.monotonic()
            try:
                with objects.patience(self._length / 3):
                    changed = _change(self._path, self._beaten)
            except (OSError, HeldError):
                continue  # the next try may succeed in time
            if self.claim.token not in {claim.token for claim in changed.claims}:
                self._lost = "another process has taken the lease over"
                return
            self._renewed = begun

    def _beaten(self, claims: Claims) -> Claims:
        mine = {self.claim.token}
        return replace(
            claims,
            claims=tuple(
                replace(claim, beat=claim.beat + 1) if claim.token in mine else claim for claim in claims.claims
            ),
        )


@contextmanager
def hold(path: ObjectPath, first: int, end: int, wait: float = 0.0, length: float | None = None) -> Iterator[Fence]:
    """Holds a lease on a range of a thing.

    Args:
        path: the object with the claims on the thing.
        first: begin of the range, ns since the epoch.
        end: end of the range, ns since the epoch, exclusive.
        wait: seconds to wait for a holder that lives. A dead one is always waited for.
        length: seconds after which a claim that is not renewed is dead; None for LENGTH.

    Raises:
        HeldError: if another process holds an overlapping range, and lives.
        OSError: if the store fails.
    """
    seconds = LENGTH if length is None else length
    dead: tuple[str, ...] = ()
    deadline, watch = time.monotonic() + wait, _Watch(seconds)
    while True:
        begun = time.monotonic()
        taken = _claim(path, first, end, watch)
        if isinstance(taken, tuple):
            claim, dead = taken
            break
        if watch.lives and time.monotonic() >= deadline:
            raise HeldError(taken.process, taken.first, taken.end)
        time.sleep(min(PAUSE, seconds / 10))
    lease = Lease(path, claim, begun, seconds, bool(dead))
    try:
        names = [f"{path.name}:{first}-{end}", *dead]
        yield Fence(tuple(dict.fromkeys(names)), claim.fence, lease, bool(dead))
    except BaseException:
        lease.doubted = lease.doubted or lease.unfenced  # whoever takes it over next writes its number
        raise
    finally:
        lease.release()


def ranges(path: ObjectPath) -> dict[Range, Holder]:
    """Returns the claimed ranges of a thing with their holders, of whom some may be dead."""
    return {(claim.first, claim.end): claim.process for claim in _read(path)[0].claims}


class _Watch:
    """How long the claims of others have been unchanged, by the clock of this process.

    Attributes:
        lives: whether a claim was seen to change, so that its holder lives.
    """

    def __init__(self, length: float) -> None:
        self.lives = False
        self._length = length
        self._since: dict[str, tuple[int, float]] = {}

    def dead(self, claims: list[Claim]) -> set[str]:
        """Returns the tokens of claims that were unchanged for long enough."""
        now, dead = time.monotonic(), set()
        for claim in claims:
            beat, since = self._since.setdefault(claim.token, (claim.beat, now))
            if beat != claim.beat:
                self.lives = True
                self._since[claim.token] = claim.beat, now
            elif now - since > self._length:
                dead.add(claim.token)
        return dead


def _claim(path: ObjectPath, first: int, end: int, watch: _Watch) -> tuple[Claim, tuple[str, ...]] | Claim:
    """Claims a range; returns the claim and the names of ranges that were taken over, or a claim that stands."""
    token, names = uuid.uuid4().hex, tuple[str, ...]()
    standing: Claim | None = None

    def add(claims: Claims) -> Claims:
        nonlocal standing, names
        if any(claim.token == token for claim in claims.claims):
            return claims  # written already, without an answer
        others = claims.meeting(first, end)
        gone = watch.dead(others)
        standing = next((claim for claim in others if claim.token not in gone), None)
        if standing is not None:
            return claims
        names = tuple(f"{path.name}:{claim.first}-{claim.end}" for claim in others)
        number = claims.fence + 1
        mine = here()
        own = Claim(first, end, f"{mine.process} on {mine.where}", token, 0, number, mine.place)
        return Claims(number, (*claims.without(gone).claims, own))

    changed = _change(path, add)
    if standing is not None:
        return standing
    return next(claim for claim in changed.claims if claim.token == token), names


def _change(path: ObjectPath, change: Callable[[Claims], Claims]) -> Claims:
    """Changes the claims on a thing, and tries again while others are faster; returns the claims that stand.

    After a write without an answer the claims are read again: `change` then finds its own work done, or does it.

    Raises:
        HeldError: if others are faster every time.
        OSError: if the store refuses the write, or fails again and again.
    """
    failures = 0
    for attempt in range(WRITES):
        claims, version = _read(path)
        changed = change(claims)
        if changed == claims:
            return claims
        try:
            objects.swap(path, changed.data(), version)
            return changed
        except objects.ChangedError:
            if _read(path)[0] == changed:
                return changed  # the answer to the own write was lost, and it was sent again
        except OSError as error:
            if _read(path)[0] == changed:
                return changed
            failures += 1
            if failures == FAILURES or (isinstance(error, StoreError) and error.lasting):
                raise
        time.sleep(random.uniform(0, min(0.02 * 2**attempt, 1.0)))
    raise HeldError(Holder("many"))


def _read(path: ObjectPath) -> tuple[Claims, objects.Version | None]:
    try:
        data, version = objects.read(path)
    except FileNotFoundError:
        return Claims(), None
    try:
        return Claims.of(data), version
    except (ValueError, KeyError, TypeError) as error:
        hint = "another program wrote it; remove it once no process works on the lake"
        raise LakeError(f"{path}: holds no claims on ranges", hint) from error
