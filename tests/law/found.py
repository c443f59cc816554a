"""Cases that failed once, made small, each with its cause; `fuzz --seed N` prints them in this form."""

from __future__ import annotations

from tests.law.cases import Case

FOUND: dict[str, Case] = {}
