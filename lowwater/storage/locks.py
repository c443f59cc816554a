"""Locks of a lake, wherever it is: of the kernel in a folder, leases in an object store; and who holds them."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import random
import re
import socket
import stat
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path, PurePath

from lowwater import documents, errors
from lowwater.storage import failures as progress, objects, untrusted
from lowwater.storage.failures import StoreError
from lowwater.storage.object_paths import ObjectPath

# Process, machine and container, since two containers have a process 2 each.

_CONTAINER = re.compile(r"(?:docker[-/]|cri-containerd[-:]|crio-|libpod-|kubepods[^\n]*/)([0-9a-f]{64})")
_MOUNTED = re.compile(r"/([0-9a-f]{64})/(?:userdata/)?hostname /etc/hostname")
_MARKS = (Path("/.dockerenv"), Path("/run/.containerenv"), Path("/var/run/secrets/kubernetes.io"))


@dataclass(frozen=True)
class Holder:
    """A process that holds a lock."""

    process: str = "unknown"  # its number, among those of its machine or container
    where: str = ""  # its machine and container, in words; empty where it is unknown
    # names the numbering of processes: the start of the machine and the namespace; empty where it is unknown
    place: str = ""

    @property
    def is_here(self) -> bool:
        """Whether its number is one of the processes that this process sees."""
        return bool(self.place) and self.place == here().place

    def text(self) -> str:
        return "\n".join((self.process, self.where, self.place))

    @staticmethod
    def of(text: str) -> Holder:
        parts = [*text.split("\n"), "", ""]
        return Holder(*parts[:3]) if parts[0].isdigit() else Holder()

    def __str__(self) -> str:
        return f"{self.process} on {self.where}" if self.where else self.process

    def advice(self) -> str:
        """What to do about a lock that it holds. A number of another machine is nobody's to end here."""
        if self.is_here:
            return "wait until it has finished, or end that process; its lock goes with it"
        if not self.place:
            return "wait until it has finished"
        return "wait until it has finished: it is a process of another machine or container; its lock goes with it"


@lru_cache(maxsize=1)
def _place() -> tuple[str, str]:
    host = socket.gethostname()
    try:
        start = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        place = f"{start} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        place = host  # no Linux: the machine is its name
    return f"{host}{_container()}", place


def here() -> Holder:
    """This process."""
    return Holder(str(os.getpid()), *_place())


def _container() -> str:
    for name, pattern in (("cgroup", _CONTAINER), ("mountinfo", _MOUNTED)):
        with suppress(OSError):
            if found := pattern.search(Path("/proc/self", name).read_text()):
                return f", container {found[1][:12]}"
    return ", a container" if any(mark.exists() for mark in _MARKS) else ""


# In a folder of this machine the kernel frees locks when their process dies.

PAUSE = 0.02  # seconds between two looks at a lock that another process holds
_BOUNDS = re.compile(r"(-?[0-9]{1,20})_(-?[0-9]{1,20})")  # name of the file of a range

Range = tuple[int, int]


class HeldError(Exception):
    """Somebody else holds a lock, on a range (ns), or (0, 0) where the lock has none."""

    def __init__(self, holder: Holder, first: int = 0, end: int = 0) -> None:
        super().__init__(holder, first, end)
        self.holder = holder
        self.range = first, end


@contextmanager
def hold_file(path: Path, wait: float = 0.0) -> Iterator[None]:
    """Holds the lock of a file, which is made if it is not there; waits so many seconds for its holder.
    Raises HeldError if another process still holds it, and OSError if the file cannot be made."""
    handle = _open(path)
    try:
        _wait_for(handle, _acquire, wait)
        yield
    finally:
        os.close(handle)  # the file stays: if it were removed, a third process could lock a new one beside a waiter


def _wait_for(handle: int, take: Callable[[int], bool], seconds: float) -> None:
    """Takes a lock as soon as its holder frees it. Raises HeldError if that takes longer."""
    deadline = time.monotonic() + seconds
    while not take(handle):
        if time.monotonic() >= deadline:
            raise HeldError(_holder(handle))
        time.sleep(PAUSE)


def claim_range(folder: Path, first: int, end: int) -> int:
    """Locks a range and returns the handle of its file. The caller holds the lock of the folder.
    Raises HeldError if another process holds a range that overlaps, and OSError if the file cannot be made."""
    while True:
        # Its file is made before the others are read: NFS reads a folder again after a file was made in it.
        handle = _open(folder / f"{first}_{end}.lock")
        try:
            acquired = _acquire(handle)
            others = ranges_of_folder(folder)
            if acquired:
                del others[first, end]
            for (other_first, other_end), process in sorted(others.items()):
                if other_first < end and first < other_end:
                    raise HeldError(process, other_first, other_end)
        except BaseException:
            os.close(handle)
            raise
        if acquired:
            return handle
        os.close(handle)  # who held this range freed it between the two looks: the handle locks nothing


def ranges_of_folder(folder: Path) -> dict[Range, Holder]:
    """Returns the locked ranges with their processes; removes the files of processes that have ended."""
    ranges = {}
    for path in folder.glob("*_*.lock"):
        if bounds := _BOUNDS.fullmatch(path.stem):
            handle = _open(path)
            try:
                if _free(handle):
                    path.unlink(missing_ok=True)
                else:
                    ranges[int(bounds[1]), int(bounds[2])] = _holder(handle)
            finally:
                os.close(handle)
    return ranges


def seen_ranges(folder: Path, wait: float) -> dict[Range, Holder]:
    """Returns the locked ranges with their processes, for one who may only read: nothing is made, written or removed.
    Raises HeldError if somebody changes them for more than so many seconds, and OSError if they cannot be read."""
    with ExitStack() as stack:
        try:
            # Whoever claims a range has this file alone, and so does not meet the locks of this look.
            handle = stack.enter_context(_reading(lock_of(folder)))
        except FileNotFoundError:
            return {}  # nothing ever ran
        _wait_for(handle, lambda handle: _free(handle, fcntl.LOCK_SH), wait)
        ranges = {}
        for path in folder.glob("*_*.lock"):
            if bounds := _BOUNDS.fullmatch(path.stem):
                with suppress(FileNotFoundError), _reading(path) as claimed:
                    if not _free(claimed, fcntl.LOCK_SH):
                        ranges[int(bounds[1]), int(bounds[2])] = _holder(claimed)
        return ranges


def lock_of(folder: Path) -> Path:
    """The lock of a folder of ranges."""
    return folder.with_name(f"{folder.name}.lock")


@contextmanager
def _reading(path: Path) -> Iterator[int]:
    untrusted.require_folder(path.parent)
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        yield handle
    finally:
        os.close(handle)


def _open(path: Path) -> int:
    """Opens the file of a lock, or makes it. The number of the process is written into it, so it is never a link.
    Raises LakeError if it is a link or no plain file, or a folder above it is a link that leads out of the lake, and
    OSError if it cannot be made."""
    untrusted.require_folder(path.parent)
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
            raise _no_lock(path) from None
        raise
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise _no_lock(path)
    return handle


def _no_lock(path: Path) -> errors.LakeError:
    return errors.LakeError(f"{path}: is no plain file, so it cannot be a lock", "remove it; the next command makes it")


def _free(handle: int, kind: int = fcntl.LOCK_EX) -> bool:
    """Locks an open file if nobody else has it locked; returns whether it did."""
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _acquire(handle: int) -> bool:
    """Locks an open file if it is free, and writes the process into it; returns whether it did."""
    if not _free(handle):
        return False
    os.ftruncate(handle, 0)
    try:
        os.pwrite(handle, here().text().encode(), 0)
    except OSError as error:
        if error.errno not in ROOMLESS:  # the kernel has the lock all the same; only its holder has no name
            raise
    return True


def _holder(handle: int) -> Holder:
    try:
        return Holder.of(os.pread(handle, 512, 0).decode(errors="replace"))
    except IsADirectoryError:  # in the place of a file for which there was no room
        return Holder.of("")


# A lease ends when its holder does not renew it, and its number fences it off. The claims on a thing are one object,
# changed only by conditional writes, so two holders never see different claims. No clock of another machine is
# believed: a claim is dead once the taker itself has seen it unchanged for LEASE_LENGTH seconds, and is renewed as
# long as its process gets on with its work (docs/adr/0152).

LEASE_LENGTH = 30.0
"""Seconds for which a claim must stay unchanged before another process takes it over; a holder renews it thrice in
this time, and writes nothing once it could not renew it for so long."""

LEASE_PATIENCE = 900.0
"""Seconds without a sign of work after which a holder no longer renews its claim; the longest wait for a store is far
shorter."""

LEASE_PAUSE = 0.5  # seconds between two looks at a claim that another process holds
WRITES = 50  # most tries to change claims that others change too
FAILURES = 3  # failed requests after which a change of claims fails; the client has sent each of them several times
WHOLE: Range = 0, 1  # the range of a lease without ranges


class LostError(Exception):
    """A lease is no longer held: its holder was silent for too long, and another process took it over."""


@dataclass(frozen=True)
class Claim:
    """A claim on a range of a thing."""

    first: int
    end: int
    holder: str  # process and machine, for messages
    token: str  # names the claim
    beat: int  # number of renewals
    fence: int  # number of the claim; a later one has a larger number
    place: str = ""  # machine of the process, see `Holder`

    @property
    def process(self) -> Holder:
        number, _, where = self.holder.partition(" on ")
        return Holder(number, where, self.place)


@dataclass(frozen=True)
class Claims:
    """The claims on a thing, and the number of the last one ever made."""

    fence: int = 0
    claims: tuple[Claim, ...] = ()

    def data(self) -> bytes:
        return json.dumps({"fence": self.fence, "claims": [asdict(claim) for claim in self.claims]}).encode()

    @staticmethod
    def of(data: bytes) -> Claims:
        values = documents.json_value(data)
        return Claims(int(values["fence"]), tuple(Claim(**claim) for claim in values["claims"]))

    def meeting(self, first: int, end: int) -> list[Claim]:
        """Returns the claims on ranges that overlap [first, end)."""
        return [claim for claim in self.claims if claim.first < end and first < claim.end]

    def without(self, tokens: set[str]) -> Claims:
        return replace(self, claims=tuple(claim for claim in self.claims if claim.token not in tokens))


_Stored = tuple[Claims, objects.Version | None]
"""Claims, and the version of their object."""


@dataclass(frozen=True)
class Fence:
    """What a commit carries, so that a former holder cannot commit after it; see `lake.tables.commit`."""

    names: tuple[str, ...]  # names of the range, and of ranges that were taken over for it
    number: int
    lease: Lease  # the lease, which says whether it is still held
    # whether it was taken over from a holder that did not give it up, and may have requests on their way
    taken: bool = field(default=False, compare=False)

    def require(self) -> None:
        """Checks that the lease is still held, as far as its holder knows. Raises LostError if it is not."""
        self.lease.require()

    def doubt(self) -> None:
        """Says that it is not known whether a request was done, or will be: the lease then lapses instead of being
        given up, so that the next holder takes it over, and fences off what comes late."""
        self.lease.doubted = True

    def written(self) -> None:
        """Says that the number of the lease is in all tables of its work: the former holder changes them no more."""
        self.lease.unfenced = False


class Lease:
    """A lease that is held, and renewed by a thread of its own. The write of its claim began at an instant, s of the
    monotonic clock; others take it over after so many seconds of silence."""

    def __init__(
        self, path: ObjectPath, claim: Claim, stored: _Stored, begun: float, length: float, taken: bool
    ) -> None:
        self.claim, self._stored = claim, stored
        self._path, self._length = path, length
        self._renewed, self._lost = begun, ""
        self.doubted = False  # whether a request under it may still be on its way
        # whether requests of the former holder may still be done, as its number is not in the tables yet
        self.unfenced = taken
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
            _change(self._path, lambda claims: claims.without({self.claim.token}), self._stored)

    def _renew(self) -> None:
        while not self._over.wait(self._length / 3 * random.uniform(0.8, 1.0)):
            if self._work.silence() > LEASE_PATIENCE:
                self._lost = (
                    f"this process has done nothing for {LEASE_PATIENCE / 60:g} minutes, so it let its lease go"
                )
                return
            self.renew()
            if self._lost:
                return

    def renew(self) -> None:
        """Renews the claim, if the store answers in time, and finds out whether it is lost."""
        begun = time.monotonic()
        try:
            with objects.patience(self._length / 3):
                self._stored = _change(self._path, self._beaten)
        except (OSError, HeldError):
            return  # the next try may succeed in time
        if self.claim.token in {claim.token for claim in self._stored[0].claims}:
            self._renewed = begun
        else:
            self._lost = "another process has taken the lease over"

    def _beaten(self, claims: Claims) -> Claims:
        own = self.claim.token
        beaten = (replace(each, beat=each.beat + 1) if each.token == own else each for each in claims.claims)
        return replace(claims, claims=tuple(beaten))


@contextmanager
def hold_lease(
    path: ObjectPath, first: int, end: int, wait: float = 0.0, length: float | None = None
) -> Iterator[Fence]:
    """Holds a lease on a range of a thing; waits so many seconds for a holder that lives, and always for a dead one,
    whose claim was not renewed for `length` seconds, or LEASE_LENGTH.
    Raises HeldError if another process holds an overlapping range, and lives, and OSError if the store fails."""
    seconds = LEASE_LENGTH if length is None else length
    dead: tuple[str, ...] = ()
    deadline, watch = time.monotonic() + wait, _Watch(seconds)
    while True:
        begun = time.monotonic()
        taken = _claim(path, first, end, watch)
        if isinstance(taken, tuple):
            claim, dead, stored = taken
            break
        if watch.lives and time.monotonic() >= deadline:
            raise HeldError(taken.process, taken.first, taken.end)
        time.sleep(min(LEASE_PAUSE, seconds / 10))
    lease = Lease(path, claim, stored, begun, seconds, bool(dead))
    try:
        if time.monotonic() - begun > seconds / 3:  # the store took long to write the claim: it is old already
            lease.renew()
        names = [f"{path.name}:{first}-{end}", *dead]
        yield Fence(tuple(dict.fromkeys(names)), claim.fence, lease, bool(dead))
    except BaseException:
        lease.doubted = lease.doubted or lease.unfenced  # whoever takes it over next writes its number
        raise
    finally:
        lease.release()


class _Watch:
    """How long the claims of others have been unchanged, by the clock of this process."""

    def __init__(self, length: float) -> None:
        self.lives = False  # whether a claim was seen to change, so that its holder lives
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


def _claim(path: ObjectPath, first: int, end: int, watch: _Watch) -> tuple[Claim, tuple[str, ...], _Stored] | Claim:
    """Claims a range; returns the claim, names of ranges that were taken over and all claims, or that of another."""
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

    # What this process saw last need not be read again, unless somebody had the range then: the write tells.
    known = _LAST.get(path)
    stored = _change(path, add, known if known is not None and not known[0].meeting(first, end) else None)
    if standing is not None:
        return standing
    return next(claim for claim in stored[0].claims if claim.token == token), names, stored


def _change(path: ObjectPath, change: Callable[[Claims], Claims], known: _Stored | None = None) -> _Stored:
    """Changes the claims on a thing, and tries again while others are faster; returns the claims that stand.

    After a write without an answer the claims are read again: `change` then finds its own work done, or does it. Claims
    that are known, and may still stand, need not be read.
    Raises HeldError if others are faster every time, and OSError if the store refuses the write, or fails again and
    again."""
    failures = 0
    for attempt in range(WRITES):
        claims, version = known or _read(path)
        changed, known = change(claims), None
        if changed == claims:
            return claims, version
        try:
            stored = _LAST[path] = changed, objects.swap(path, changed.data(), version)
            return stored
        except objects.ChangedError:
            found = _read(path)
            if found[0] == changed:
                return found  # the answer to the own write was lost, and it was sent again
        except OSError as error:
            found = _read(path)
            if found[0] == changed:
                return found
            failures += 1
            if failures == FAILURES or (isinstance(error, StoreError) and error.lasting):
                raise
        time.sleep(random.uniform(0, min(0.02 * 2**attempt, 1.0)))
    raise HeldError(Holder("many"))


_LAST: dict[ObjectPath, _Stored] = {}
"""Claims on things as this process saw them last."""


def _read(path: ObjectPath) -> _Stored:
    stored = _LAST[path] = _as_stored(path)
    return stored


def _as_stored(path: ObjectPath) -> _Stored:
    try:
        data, version = objects.read(path)
    except FileNotFoundError:
        # Tables may have numbers of claims whose object is gone, as after a restore: numbers only grow, so those of a
        # new object begin with the seconds of the clock, which no count of claims has reached.
        return Claims(int(time.time())), None
    try:
        return Claims.of(data), version
    except (ValueError, KeyError, TypeError) as error:
        hint = "another program wrote it; remove it once no process works on the lake"
        raise errors.LakeError(f"{path}: holds no claims on ranges", hint) from error


# Either kind, by the path.

RANGES_WAIT = 30.0
"""Seconds to wait for the lock of a folder of ranges; its holders only look at some files."""


@contextmanager
def hold_lock(
    path: PurePath, wait: float = 0.0, sees: Sequence[PurePath] = (), roomless: bool = False
) -> Iterator[Fence | None]:
    """Holds a lock; waits so many seconds for its holder. Yields the fence of the lease; None where the kernel has the
    lock, which nobody can take from a living process. `sees`: tables of a store that are looked at again, since the
    holder before may have written them; all if empty. `roomless`: on a disk without room, or one that is read only,
    where the file of the lock cannot be made, its folder is locked.
    Raises HeldError if another process still holds it, and OSError if the lock cannot be made."""
    if isinstance(path, ObjectPath):
        with hold_lease(path, *WHOLE, wait) as fence:
            objects.look_again(*sees)
            yield fence
    else:
        with _hold_file_or_folder(Path(path), wait) if roomless else hold_file(Path(path), wait):
            yield None


ROOMLESS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
"""Errors of a disk on which no file can be made."""


@contextmanager
def _hold_file_or_folder(path: Path, wait: float) -> Iterator[None]:
    try:
        handle = _open(path)
    except OSError as error:
        if error.errno not in ROOMLESS or not path.parent.is_dir():
            raise
        untrusted.require_folder(path.parent)
        handle = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        take: Callable[[int], bool] = _free
    else:
        take = _acquire
    try:
        _wait_for(handle, take, wait)
        yield
    finally:
        os.close(handle)


@contextmanager
def hold_range(path: PurePath, first: int, end: int, sees: Sequence[PurePath] = ()) -> Iterator[Fence | None]:
    """Holds the range [first, end), ns, of a thing, as `hold_lock` does."""
    if isinstance(path, ObjectPath):
        with hold_lease(path, first, end) as fence:
            objects.look_again(*sees)
            yield fence
        return
    folder = Path(path)
    with hold_file(lock_of(folder), RANGES_WAIT):  # meanwhile no other process adds or removes a range
        folder.mkdir(exist_ok=True)
        handle = claim_range(folder, first, end)
    try:
        yield None
    finally:
        os.close(handle)  # the next process that looks finds its file free, and removes it


def held_ranges(path: PurePath) -> dict[Range, Holder]:
    """Returns the held ranges with the processes that hold them; in an object store some of these may be dead.
    Raises HeldError if the ranges of a folder are locked for too long, and OSError if they cannot be read."""
    if isinstance(path, ObjectPath):
        return {(claim.first, claim.end): claim.process for claim in _read(path)[0].claims}
    return seen_ranges(Path(path), RANGES_WAIT)
