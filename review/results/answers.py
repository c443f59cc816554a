"""Answers that may take longer than a page: work goes on behind the page, and what is ready is shown at once.

A plot over a year with a filter reads every row of the year, and a skew concerns every interval. The page waits a
moment, then shows how far the work is, and a link to look again. Few answers are worked on at a time and few wait, of
one person and in all; a further one is refused at once.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import Any

from fastapi.responses import Response

from lowwater.errors import LakeError, LowwaterError

from ..memory import give_back

log = logging.getLogger(__name__)

WAIT = 0.5
"""Seconds that a page waits for all of its answers together, where they read much."""
PATIENT = 30.0
"""Seconds that a page waits where they read little, which takes that long only if the machine has much else to do."""
MUCH = 200
"""Files, or intervals, of which more are much."""
AT_WORK, AT_WORK_SMALL = 1, 3
"""Most answers with much to read, and with little, that are worked on at a time; more wait."""
WAITING, WAITING_OF_ONE = 48, 12
"""Most answers that are worked on or wait, in all and of one person. A page asks for three."""
OWN_SITE = ("", "same-origin", "none")
"""Values of `Sec-Fetch-Site` of requests that no other site has made."""
OTHER_SITE = "Another site asked for this page, so nothing was computed. Open it from the pages."
PERSON = "lowwater_person"
"""Key of the scope of a request: who is logged in."""
KEPT = 64
"""Answers that are kept."""
LOOK = 0.5
"""Seconds between two looks whether a reader has left."""
FORGOTTEN = 120.0
"""Seconds after which work ends for which nobody has asked again."""


_LATER = "ask again later"


class BusyError(LowwaterError):
    """Too many answers wait already."""


class _AbandonedError(Exception):
    """Nobody wants the answer any more, or the process ends."""


def _require_reader(left: bool) -> None:
    """Ends work for which nobody waits: its reader has `left`, or the process ends."""
    if left or not threading.main_thread().is_alive():
        raise _AbandonedError


class TaskQueue:
    """Works on tasks, a few at a time; refuses a task where too many wait. People take turns, each in their order.

    Args:
        at_once: most tasks at a time.
    """

    def __init__(self, at_once: int) -> None:
        self._lock = threading.Lock()
        self._at_once, self._threads = at_once, 0
        self._tasks: list[tuple[Hashable, Callable[[], None]]] = []
        self._of: Counter[Hashable] = Counter()
        self._served: dict[Hashable, int] = {}  # who has tasks here -> the number of the turn that was theirs
        self._turn = 0

    def put(self, who: Hashable, task: Callable[[], None]) -> bool:
        """Takes a task of somebody; returns whether it is begun at once, else it waits for others.
        Raises BusyError: too many of all, or of this person, are worked on or wait."""
        with self._lock:
            if self._of.total() >= WAITING or self._of[who] >= WAITING_OF_ONE:
                raise BusyError("the server works on other answers, and this one was not begun", _LATER)
            self._of[who] += 1
            self._tasks.append((who, task))
            self._served.setdefault(who, 0)
            if self._threads == self._at_once:
                return False
            self._threads += 1
            threading.Thread(target=self._work, name="answers", daemon=True).start()
            return True

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._tasks:
                    self._threads -= 1
                    return
                who, task = min(self._tasks, key=lambda each: self._served[each[0]])
                self._tasks.remove((who, task))
                self._turn += 1
                self._served[who] = self._turn
            try:
                task()
            except Exception:
                log.exception("an answer of the pages could not be computed")  # the next one may be
            finally:
                with self._lock:
                    self._of[who] -= 1
                    if not self._of[who]:
                        del self._of[who], self._served[who]


_LARGE, _SMALL, _FILES = TaskQueue(AT_WORK), TaskQueue(AT_WORK_SMALL), TaskQueue(AT_WORK)
"""The queues of the process: pages of all lakes and of all kinds share them."""


@dataclass(eq=False)
class Answer:
    """An answer, or the work on it."""

    value: Any = None  # the answer, once it is `ready`
    error: LowwaterError | None = None  # why there is none; None as long as nothing is wrong
    share: float = 0.0  # how much of the work is done, 0 to 1
    begun: bool = False  # whether it is worked on, or was
    asked_at: float = field(default_factory=time.monotonic)
    ready_at: float = inf
    done: threading.Event = field(default_factory=threading.Event)

    @property
    def ready(self) -> bool:
        """Whether the value is there. Raises LowwaterError if there will be none."""
        if self.error is not None:
            raise self.error
        return self.done.is_set()


class Answers:
    """Answers of the pages of a process, by what was asked."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, Answer] = OrderedDict()

    def ask(
        self,
        key: Hashable,
        files: int,
        make: Callable[[Callable[[int], None]], Any],
        fresh: float = inf,
        who: Hashable = "",
    ) -> Answer:
        """Returns the answer of a key, which is begun if nobody has asked for it.
        Raises BusyError: too many answers wait.

        Args:
            key: what is asked, with the version of the table.
            files: number of files that may have to be read.
            make: computes the answer; gets a function that it tells the number of files it has read.
            fresh: seconds after which an answer is computed again.
        """
        with self._lock:
            answer = self._kept.get(key)
            now = time.monotonic()
            if answer is not None and answer.error is None and now - answer.ready_at <= fresh:
                answer.asked_at = now
                self._kept.move_to_end(key)
                return answer
            answer = Answer()
            task = partial(self._work, key, answer, max(1, files), make)
            if (_LARGE if files > MUCH else _SMALL).put(who, task):
                answer.begun = True  # its thread may say so late, on a machine with much else to do
            self._kept[key] = answer
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return answer

    def _work(self, key: Hashable, answer: Answer, files: int, make: Callable[[Callable[[int], None]], Any]) -> None:
        read = 0

        def watch(number: int) -> None:
            nonlocal read
            read += number
            answer.share = min(1.0, read / files)
            _require_reader(time.monotonic() - answer.asked_at > FORGOTTEN)

        try:
            watch(0)
            answer.begun = True
            if files > MUCH:
                give_back()  # what other pages have left
            answer.value = make(watch)
        except _AbandonedError:
            with self._lock:
                if self._kept.get(key) is answer:
                    del self._kept[key]
            answer.error = LakeError("nobody has asked for this answer for a while, and the work on it has ended")
        except LowwaterError as error:
            answer.error = error
        except Exception as error:
            answer.error = LakeError(f"the answer could not be computed: {error}")
            raise
        finally:
            answer.ready_at = time.monotonic()
            answer.done.set()
            if files > MUCH:  # in an Airflow, whose objects are many, it takes a third of a second
                give_back()


class _Places:
    """Who has responses that are worked on, wait or are being sent: each may have a temporary file."""

    def __init__(self) -> None:
        self._lock, self._of = threading.Lock(), Counter[Hashable]()

    def take(self, who: Hashable) -> None:
        """Takes a place. Raises BusyError: all have too many, or this person has."""
        with self._lock:
            if self._of.total() >= WAITING or self._of[who] >= WAITING_OF_ONE:
                raise BusyError("the server works on other answers, or sends them, and this one was not begun", _LATER)
            self._of[who] += 1

    def leave(self, who: Hashable) -> None:
        with self._lock:
            self._of[who] -= 1
            if not self._of[who]:
                del self._of[who]


_PLACES = _Places()


class _Sent(Response):
    """A response that keeps its place until it is sent, or its reader has left."""

    def __init__(self, response: Response, leave: Callable[[], None]) -> None:
        self.response, self.leave, self.status_code = response, leave, response.status_code
        self.background = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await self.response(scope, receive, send)
        finally:
            self.leave()


async def computed(
    request: Any, make: Callable[[Callable[[int], None]], Any], refuse: Callable[[str, int], Any]
) -> Any:
    """Returns a response that is computed behind others and kept by nobody: a file, packets, a comparison.

    No thread of the server waits for it, and the work ends where the reader leaves. It counts among those of its person
    until it is sent: its file takes room on the disk for as long as somebody takes it slowly.

    Args:
        make: makes the response; it calls the function that it gets now and then, which raises where nobody waits.
        refuse: makes the response of a text and a status.
    """
    if not asked_by_person(request):
        return refuse(OTHER_SITE, 403)
    answer, left = Future[Any](), threading.Event()

    def watch(_: int) -> None:
        _require_reader(left.is_set())

    def task() -> None:
        try:
            watch(0)
            answer.set_result(make(watch))
        except _AbandonedError:
            answer.cancel()
        except Exception as error:
            answer.set_exception(error)
            raise

    with ExitStack() as stack:
        try:
            _PLACES.take(who := person(request))
            stack.callback(_PLACES.leave, who)
            _FILES.put(who, task)
        except BusyError as error:
            return refuse(str(error), 503)
        stack.callback(left.set)
        gone = asyncio.create_task(_gone(request))
        stack.callback(gone.cancel)
        await asyncio.wait({made := asyncio.wrap_future(answer), gone}, return_when=asyncio.FIRST_COMPLETED)
        if not made.done():
            return refuse("Nobody reads this answer.", 503)
        response = made.result()
        left.set()
        gone.cancel()
        stack.pop_all()
        return _Sent(response, partial(_PLACES.leave, who))


async def _gone(request: Any) -> None:
    while not await request.is_disconnected():
        await asyncio.sleep(LOOK)


def wait_for(number: int, *answers: Answer) -> None:
    """Waits until answers are ready.

    A page has a thread of the server while it waits, so it waits long only for an answer that is worked on. `number`:
    number of files or intervals that they look at."""
    begin = time.monotonic()
    for answer in answers:
        answer.done.wait(max(0.0, begin + WAIT - time.monotonic()))
    if number <= MUCH:
        for answer in answers:
            while answer.begun and time.monotonic() < begin + PATIENT and not answer.done.wait(WAIT):
                pass


def person(request: Any) -> Hashable:
    """Whose request it is: who is logged in, as the door or Airflow has found; without a login, the address.

    Never by what a request merely says, of which one person can say much: another cookie with each request.
    """
    found: Hashable = request.scope.get(PERSON) or (request.client and request.client.host)
    return found


def asked_by_person(request: Any) -> bool:
    """Whether a person asked for a page, on this site or by a link to it; and no other site made a browser ask.

    What costs much is computed for people only. Programs that are no browsers do not send these headers.
    """
    headers = request.headers
    if headers.get("sec-fetch-site", "") in OWN_SITE:
        return True
    followed = headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest"), headers.get("sec-fetch-user")
    return followed == ("navigate", "document", "?1")
