"""What Great Expectations has no term for: coverage, ownership and promises, each with a page in docs/expectations/.

Each is a built-in expectation whose column and range are the rule, over the measures of an audit. So people use them on
the published measures too. Importing this module registers them.
"""

from __future__ import annotations

from great_expectations.expectations.core import ExpectColumnValuesToBeBetween


class ExpectLinkToBeCovered(ExpectColumnValuesToBeBetween):
    """The captures of a link cover the whole range that an interval reads (T5, T6): docs/expectations/coverage.md."""

    column: str = "gap_ns"
    min_value: int = 0
    max_value: int = 0


class ExpectQueryRowsToBeOwned(ExpectColumnValuesToBeBetween):
    """The last instant that can change a row is in the interval (I1): docs/expectations/ownership.md."""

    column: str = "not_owned"
    min_value: int = 0
    max_value: int = 0


class ExpectQueryPromisesToBeKept(ExpectColumnValuesToBeBetween):
    """No row comes after a promise that no row so early would come (P1): docs/expectations/promises.md."""

    column: str = "below_promise"
    min_value: int = 0
    max_value: int = 0
