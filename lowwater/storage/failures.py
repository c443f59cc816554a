"""Makes the messages of errors of an object store: what happened and what to do, without keys and without XML.

Used by `objects`, and by `lake.tables` for errors of Delta.
"""

from __future__ import annotations

import errno
import os
import re

from lowwater.errors import LakeError

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
LATER = "run the command again later"
ANSWER = "check the address of the store (AWS_ENDPOINT_URL) and the network, then run the command again"

_KINDS = (
    (
        r"InvalidAccessKeyId|SignatureDoesNotMatch|InvalidToken|ExpiredToken|AuthenticationFailed|401 Unauthorized"
        r"|InvalidClientTokenId|Unauthenticated",
        "the object store refuses the keys",
        KEYS,
    ),
    (
        r"RequestTimeTooSkewed",
        "the clock of this machine is too far from that of the object store",
        "set the clock of this machine",
    ),
    (
        r"AccessDenied|403 Forbidden|PermissionDenied|AuthorizationFailure|AllAccessDisabled",
        "the object store does not allow it",
        RIGHTS,
    ),
    (
        r"NoSuchBucket|ContainerNotFound|bucket does not exist",
        "there is no such bucket",
        "make the bucket, or name another",
    ),
    (
        r"CredentialsNotLoaded|credential(?!=)|metadata token|169\.254",
        "there are no keys for the object store",
        KEYS,
    ),
    (
        r"SlowDown|503 Service|ServiceUnavailable|429 Too Many",
        "the object store is overloaded",
        LATER,
    ),
    (
        r"timed? ?out|connect|error sending request|500 Internal|502|504|InternalError|retries|decoding|body",
        "the object store does not answer",
        ANSWER,
    ),
)
"""Pattern of the texts of stores and their clients, what it means, what to do."""

_PASSING = (LATER, ANSWER)


class StoreError(LakeError, OSError):
    """An object store refused or failed. It is an OSError too, for callers that have a better message.

    Args:
        message: what happened.
        hint: what to do.
        lasting: whether the same request fails again until somebody has done something.
    """

    def __init__(self, message: str, hint: str = "", lasting: bool = False) -> None:
        super().__init__(message, hint)
        self.lasting = lasting
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
    for pattern, message, hint in _KINDS:
        if re.search(pattern, text, re.IGNORECASE):
            return StoreError(message, hint, hint not in _PASSING)
    return StoreError(f"the object store failed: {redacted(text.splitlines()[0] if text else repr(error))}", ANSWER)


def hint_of(error: OSError, otherwise: str) -> str:
    """Returns what to do about an error: the hint of an error of a store; for another error the given text."""
    return error.hint if isinstance(error, StoreError) else otherwise


def redacted(text: str) -> str:
    """Returns a text without the keys of the environment, and without XML of a store, which may contain them."""
    for name in SECRETS:
        value = os.environ.get(name, "")
        if len(value) > 2:
            text = text.replace(value, "(key)")
    return re.sub(r"<\?xml.*", "(answer of the store)", text, flags=re.DOTALL)
