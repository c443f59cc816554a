"""Answers that may take longer than a page: work goes on behind the page, and what is ready is shown at once.

A plot over a year with a filter reads every row of the year, and a skew concerns every interval. The page waits a
moment, then shows how far the work is, and a link to look again.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from contextlib import nullcontext
from dataclasses import dataclass, field
from math import inf
from typing import Any

from lowwater.errors import LakeError, LowwaterError

from ..memory import give_back

WAIT = 0.5
"""Seconds that a page waits for all of its answers together, where they read much."""
PATIENT = 30.0
"""Seconds that a page waits where they read little, which takes that long only if the machine has much else to do."""
MUCH = 200
"""Files, or intervals, of which more are much."""
AT_WORK = 1
"""Most answers with much to read that are worked on at a time; more wait."""
KEPT = 64
"""Answers that are kept."""
FORGOTTEN = 120.0
"""Seconds after which work ends for which nobody has asked again."""


class _AbandonedError(Exception):
    """Nobody wants the answer any more, or the process ends."""


@dataclass(eq=False)
class Answer:
    """An answer, or the work on it.

    Attributes:
        value: the answer, once it is `ready`.
        error: why there is none; None as long as nothing is wrong.
        share: how much of the work is done, 0 to 1.
    """

    value: Any = None
    error: LowwaterError | None = None
    share: float = 0.0
    asked_at: float = field(default_factory=time.monotonic)
    ready_at: float = inf
    done: threading.Event = field(default_factory=threading.Event)

    @property
    def ready(self) -> bool:
        """Whether the value is there.

        Raises:
            LowwaterError: there will be none.
        """
        if self.error is not None:
            raise self.error
        return self.done.is_set()


class Answers:
    """Answers of the pages of a process, by what was asked."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, Answer] = OrderedDict()
        self._places = threading.Semaphore(AT_WORK)

    def ask(
        self, key: Hashable, files: int, make: Callable[[Callable[[int], None]], Any], fresh: float = inf
    ) -> Answer:
        """Returns the answer of a key, which is begun if nobody has asked for it.

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
            answer = self._kept[key] = Answer()
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        threading.Thread(target=self._work, args=(key, answer, max(1, files), make), name="answer").start()
        return answer

    def _work(self, key: Hashable, answer: Answer, files: int, make: Callable[[Callable[[int], None]], Any]) -> None:
        read = 0

        def watch(number: int) -> None:
            nonlocal read
            read += number
            answer.share = min(1.0, read / files)
            if time.monotonic() - answer.asked_at > FORGOTTEN or not threading.main_thread().is_alive():
                raise _AbandonedError

        try:
            with self._places if files > MUCH else nullcontext():
                watch(0)
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
            give_back()


def wait_for(number: int, *answers: Answer) -> None:
    """Waits until answers are ready.

    Args:
        number: number of files or intervals that they look at.
        answers: the answers.
    """
    until = time.monotonic() + (WAIT if number > MUCH else PATIENT)
    for answer in answers:
        answer.done.wait(max(0.0, until - time.monotonic()))
