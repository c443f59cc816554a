"""Failures of file systems and stores as one message; retries, and progress that they say."""

from __future__ import annotations

import errno
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from lowwater.errors import AwayError, LakeError, LowwaterError

# Messages of a store: without keys and without XML

SECRETS = (
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AZURE_STORAGE_ACCOUNT_KEY",
    "AZURE_STORAGE_KEY",
    "AZURE_STORAGE_SAS_TOKEN",
    "AZURE_STORAGE_CLIENT_SECRET",
    "AZURE_CLIENT_SECRET",
    "GOOGLE_SERVICE_ACCOUNT_KEY",
)
"""Environment variables whose values no message may have."""

KEYS = "check the keys in the environment: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY for S3"
RIGHTS = "give the keys the rights to list, read, write and delete below the lake's prefix"
MAY = (
    "this user has no right to it: run the command as another one; or give the rights to the group of the lake, chmod "
    "-R g+rwX with its folder, and let all who write there have umask 007"
)
LATER = "run the command again later"
ANSWER = "check the address of the store (AWS_ENDPOINT_URL) and the network, then run the command again"

_KINDS = (
    (
        r"too many open files|os error 24",
        "this process may open no further file",
        "raise the limit before the command: ulimit -n 1024",
    ),
    (
        r"CredentialsNotLoaded|metadata token|169\.254\.|Missing ?(SecretAccessKey|AccessKeyId)",
        "there are no keys for the object store",
        KEYS,
    ),
    (
        r"InvalidAccessKeyId|InvalidClientTokenId",
        "the object store refuses the keys: it does not know the ID of the key",
        "check AWS_ACCESS_KEY_ID: the ID is of another store or account, or its key was removed",
    ),
    (
        r"SignatureDoesNotMatch",
        "the object store refuses the keys: the secret is not that of the key",
        "check AWS_SECRET_ACCESS_KEY, which belongs to AWS_ACCESS_KEY_ID",
    ),
    (
        r"ExpiredToken|TokenRefreshRequired|token (has|is) expired",
        "the object store refuses the keys: their session has ended",
        "get new ones: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN change together",
    ),
    (
        r"InvalidToken",
        "the object store refuses the keys: the session token is not theirs",
        "check AWS_SESSION_TOKEN; unset it where the keys are of no session",
    ),
    (r"AuthenticationFailed|401 Unauthorized|Unauthenticated", "the object store refuses the keys", KEYS),
    (
        r"RequestTimeTooSkewed",
        "the clock of this machine is too far from that of the object store",
        "set the clock of this machine",
    ),
    (
        r"AuthorizationHeaderMalformed|PermanentRedirect|IllegalLocationConstraint|redirect without LOCATION"
        r"|301 Moved|AuthorizationQueryParametersError",
        "the bucket is in another region",
        "set AWS_REGION to the region of the bucket, or AWS_ENDPOINT_URL to its store",
    ),
    (
        r"AccessDenied|403 Forbidden|PermissionDenied|AuthorizationFailure|AllAccessDisabled",
        "the object store does not allow it",
        RIGHTS,
    ),
    (
        r"NotImplemented|501 Not|status code: 501",
        "the object store cannot do it",
        "`lowwater doctor --lake LAKE` says what a store must do; use another one",
    ),
    (
        r"NoSuchBucket|ContainerNotFound|bucket does not exist",
        "there is no such bucket",
        "make the bucket, or name another",
    ),
    (
        r"peer certificate|UnknownIssuer|certificate verify",
        "the certificate of the object store cannot be verified",
        "add its issuer to the certificates of this machine, or name a file with it: SSL_CERT_FILE",
    ),
    (r"credential(?!=)", "there are no keys for the object store", KEYS),
    (r"SlowDown|503 Service|ServiceUnavailable|429 Too Many", "the object store is overloaded", LATER),
    (
        r"timed? ?out|connect|error sending request|500 Internal|502|504|InternalError|retries|decoding|body",
        "the object store does not answer",
        ANSWER,
    ),
)
"""Pattern of the texts of stores and their clients, what it means, what to do."""

_PASSING = (LATER, ANSWER)
_AWAY = {errno.ENOSPC, errno.EDQUOT, errno.ECONNREFUSED, errno.ECONNRESET}
_AWAY |= {errno.ESTALE, errno.ENOTCONN, errno.ETIMEDOUT, errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENETUNREACH}
_ROOM = re.compile(r"No space left on device|[Qq]uota exceeded")
"""How libraries tell of a full disk in the texts of their own errors."""
_BUSY = re.compile(r"status code: ((?!501)5\d\d|429|408|409)")
"""What a store answers while it is busy or disturbed; 501 is for good."""
_SILENT = re.compile(r"timed? ?out|connect|error sending request|dns", re.IGNORECASE)
"""Texts of requests to which no answer came."""


class StoreError(LakeError, OSError):
    """An object store refused or failed; `lasting` if the same request fails again until somebody has done something.
    It is an OSError too, for callers that have a better message."""

    def __init__(self, message: str, hint: str = "", lasting: bool = False, answered: bool = True) -> None:
        super().__init__(message, hint)
        self.lasting, self.answered = lasting, answered
        self.errno, self.strerror = errno.EIO, message


def store_error(error: BaseException) -> StoreError:
    """Makes the error of a failed request.

    Example:
        >>> store_error(Exception("403 Forbidden: <Code>AccessDenied</Code>")).message
        'the object store does not allow it'
    """
    if isinstance(error, StoreError):
        return error
    text = str(error)
    if found := _BUSY.search(text):  # its body may have any word
        message = "is overloaded" if found[1] in ("503", "429") else "does not answer"
        return StoreError(f"the object store {message} ({found[1]})", LATER if found[1] in ("503", "429") else ANSWER)
    for pattern, message, hint in _KINDS:
        if re.search(pattern, text, re.IGNORECASE):
            return StoreError(
                message + _detail(message, text), hint, hint not in _PASSING, _SILENT.search(text) is None
            )
    return StoreError(f"the object store failed: {redacted(text.splitlines()[0] if text else repr(error))}", ANSWER)


def away(error: BaseException | None) -> bool:
    """Whether an error is of a disk without room, or of a store that does not answer: one that passes by itself, or
    when somebody makes room.

    Example:
        >>> away(OSError(errno.ENOSPC, "No space left on device")), away(PermissionError(errno.EACCES, "no"))
        (True, False)
    """
    if error is None or isinstance(error, AwayError):
        return error is not None
    if isinstance(error, StoreError):
        return not error.lasting
    if isinstance(error, OSError) and error.errno in _AWAY:
        return True
    context = None if isinstance(error, LowwaterError) and error.repeats else error.__context__
    return _ROOM.search(str(error)) is not None or away(error.__cause__ or context)


def passing(error: LowwaterError, cause: BaseException | None = None) -> LowwaterError:
    """Returns an error as one that says that it passes, if its cause does: whoever sends it on would lose that."""
    if isinstance(error, AwayError) or not away(cause or error):
        return error
    told = AwayError(error.message, error.hint)
    told.__cause__ = error
    return told


@contextmanager
def outages() -> Iterator[None]:
    """Turns every error of a full disk or an absent store into an AwayError, whoever has given it words before."""
    try:
        yield
    except AwayError:
        raise
    except (LowwaterError, OSError) as error:
        if not away(error):
            raise
        if isinstance(error, LowwaterError):
            raise passing(error) from error
        what = error.filename or "a file"
        raise AwayError(f"{what} cannot be written: {error.strerror or error}", "make room on its disk") from error


def lake_error(error: BaseException, message: str, hint: str) -> LakeError:
    """Makes the error of a lake of an error of its disk or store: one that says whether it passes."""
    return (AwayError if away(error) else LakeError)(message, hint)


class Door:
    """Turns errors of a client into ours, which hold nothing of them: neither the error, whose text may show keys, nor
    its frames, whose variables may. A cause that a new error names stays. `translate` returns the error for one of a
    client; None or the error itself for one that passes."""

    def __init__(
        self, translate: Callable[[BaseException], BaseException | None], done: Callable[[], None] = lambda: None
    ) -> None:
        self.translate, self.done = translate, done

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, _frames: object) -> None:
        if error is None:
            self.done()
            return
        told = self.translate(error)
        if told is None:
            return
        del error, _frames  # programs that report errors show the variables of this frame too
        cause = told.__cause__
        try:
            raise told.with_traceback(None) from cause
        finally:
            told.__context__ = cause


_DONE = {"PUT": "write", "POST": "write", "DELETE": "remove", "GET": "read", "HEAD": "read"}


def _detail(message: str, text: str) -> str:
    """Returns what else the text of an error tells of a cause: the region that is right, the two clocks, or what was
    not allowed; empty without any."""
    region = re.search(r"expecting '([a-z0-9-]+)'|<Region>([a-z0-9-]+)</Region>", text)
    if region and re.search(r"AuthorizationHeaderMalformed|PermanentRedirect", text):
        return f": {region[1] or region[2]}"
    clocks = [re.search(rf"<{name}>([0-9TZ:.-]{{8,32}})</{name}>", text) for name in ("RequestTime", "ServerTime")]
    if "RequestTimeTooSkewed" in text and clocks[0] and clocks[1]:
        return f": this one says {clocks[0][1]}, the store {clocks[1][1]}"
    asked = re.search(r"\b(PUT|POST|DELETE|GET|HEAD) https?://[^/\s]+/([^?\s]*)(\?list-type)?", text)
    if asked and message.endswith("no such bucket"):
        return f": {asked[2].partition('/')[0]}"
    if asked and message.endswith("not allow it"):
        return f" to {'list' if asked[3] else _DONE[asked[1]]} {asked[2]}"
    removed = re.search(r"DeleteObjects request failed for key ([^:\s]+)", text)
    return f" to remove {removed[1]}" if removed and "AccessDenied" in text else ""


def hint_of(error: OSError, otherwise: str) -> str:
    """Returns what to do about an error: the hint of an error of a store; for another error the given text."""
    return error.hint if isinstance(error, StoreError) else otherwise


def hint_in_lake(error: OSError, otherwise: str = "check that the lake is writable") -> str:
    """Returns what to do about an error of a file of a lake: of its store, or of the rights to it."""
    return MAY if isinstance(error, PermissionError) else hint_of(error, otherwise)


def redacted(text: str) -> str:
    """Returns a text without the keys of the environment, and without XML of a store, which may contain them."""
    text = re.sub(r"(?<=\w)\?[^\s\"')]+", "?(left out)", text)  # a signature may stand there
    for name in SECRETS:
        value = os.environ.get(name, "")
        if len(value) > 2:
            text = text.replace(value, "(key)")
    return re.sub(r"<\?xml.*", "(answer of the store)", text, flags=re.DOTALL)


# Whether this process still gets on with its work: a lease is renewed as long as it does, and not as long as it
# lives. Signs of work are answers of the store, what a registered sign says (tasks of
# Spark on other machines), and processor time of the process and of those that it started, such as a JVM: a process
# that waits for ever has none.

RENEWER = "lowwater-lease"  # name of the threads whose own requests are no work
SHARE = 0.1  # processor seconds a second of silence that are work; a JVM without any takes a tenth of this

_last = time.monotonic()
_signs: dict[str, Callable[[], object]] = {}


class Watch:
    """Looks for signs of work since it was made."""

    def __init__(self) -> None:
        self._at, self._spent = time.monotonic(), _processor()
        self._said = _said()

    def silence(self) -> float:
        """Seconds since the last sign of work."""
        now = time.monotonic()
        if _last <= self._at and now > self._at:
            spent, said = _processor(), _said()
            if said == self._said and spent - self._spent < SHARE * (now - self._at):
                return now - self._at
            self._spent, self._said = spent, said
            self._at = now
        self._at = max(self._at, _last)
        return now - self._at


def made() -> None:
    """Says that this process got on: an answer came."""
    global _last
    if threading.current_thread().name != RENEWER:
        _last = time.monotonic()


def sign(name: str, value: Callable[[], object]) -> None:
    """Registers a sign: what differs from look to look as long as work that this process waits for gets on."""
    _signs[name] = value


def _said() -> list[object]:
    said: list[object] = []
    for value in list(_signs.values()):
        try:
            said.append(value())
        except Exception:  # noqa: BLE001  # a session that has ended says nothing
            said.append(None)
    return said


def _processor() -> float:
    """Processor seconds of this process and of all that it started, as far as the system tells."""
    own = time.process_time()
    tick = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
    for child in _descendants(os.getpid()):
        try:
            fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
            own += (int(fields[11]) + int(fields[12])) / tick
        except (OSError, IndexError, ValueError):
            continue  # it has ended
    return own


def _descendants(process: int) -> list[int]:
    found: list[int] = []
    waiting = [process]
    while waiting:
        try:
            threads = list(Path(f"/proc/{waiting.pop()}/task").iterdir())
            children = [int(text) for each in threads for text in (each / "children").read_text().split()]
        except (OSError, ValueError):
            continue
        found += children
        waiting += children
    return found
