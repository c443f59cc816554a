"""Requests that go to the address they name and nowhere else.

Below `alerts`: a redirect would hand a token to whatever host an answer names.
"""

from __future__ import annotations

from http.client import HTTPMessage
from typing import IO, Any
from urllib.request import HTTPRedirectHandler, Request, build_opener


class _Refused(HTTPRedirectHandler):
    """Leaves an answer that names another address as what it is: no success."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        return None


def send(request: Request, timeout: float) -> Any:
    """Sends a request and returns the answer, to be closed.

    Args:
        timeout: most seconds without an answer.

    Raises:
        HTTPError: the answer is no success; one that names another address is none either.
        OSError: there is no answer.
    """
    return build_opener(_Refused()).open(request, timeout=timeout)
