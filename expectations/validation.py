"""Runs the suites on the measure frames of an interval, with Great Expectations and its pandas engine.

`lowwater.quality` measures the frames, and the replay decides by the results whether to publish. Validation writes no
files and uses no network: the context is ephemeral, and results stay in memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from great_expectations.core import ExpectationSuite, ExpectationValidationResult
from great_expectations.expectations.expectation_configuration import ExpectationConfiguration

from lowwater.errors import LawError

from .engine import ONE_AT_A_TIME, validate_frame
from .findings import SUITES, Finding, Severity, Validation
from .rules import Rule
from .suites import load_suite

if TYPE_CHECKING:
    import pandas


def validate(frames: Mapping[str, pandas.DataFrame], run: str) -> tuple[Validation, ...]:
    """Validates the measure frames of an interval.

    Threads take turns. GX has one current context for a process, so this call replaces a context of the caller.

    Args:
        frames: measure frames by suite, one row for each link, LFTA and link, or query.
        run: name of the run, such as "demo 2026-01-01T00:00:00Z".

    Returns:
        One validation for each suite, in the order of `SUITES`.

    Raises:
        LawError: a frame is missing, has no rows, or lacks a column or value; or an expectation raised an error.
    """
    with ONE_AT_A_TIME:
        for name, suite in _suites().items():
            _check(name, frames.get(name), suite, run)
        return tuple(_validate(suite, frames[name], run) for name, suite in _suites().items())


@cache
def _suites() -> dict[str, ExpectationSuite]:
    return {name: load_suite(name) for name in SUITES}


def _check(name: str, frame: pandas.DataFrame | None, suite: ExpectationSuite, run: str) -> None:
    """Refuses a frame without rows or with missing values, because an audit of an empty frame would pass."""
    if frame is None or frame.empty:
        raise LawError(f"{run}: nothing was measured for the suite {name}", "its frame is missing or has no rows")
    needed = {name for rule in suite.expectations if isinstance(rule, Rule) for name in rule.needs()}
    if missing := sorted(needed - set(frame.columns)):
        raise LawError(f"{run}: the measures {name} lack the columns {', '.join(missing)}")
    required = {
        name for rule in suite.expectations if isinstance(rule, Rule) for name in rule.needs() - rule.may_lack()
    }
    if missing := sorted(column for column in required if frame[column].hasnans):
        raise LawError(f"{run}: the measures {name} lack values in the columns {', '.join(missing)}")


def _validate(suite: ExpectationSuite, frame: pandas.DataFrame, run: str) -> Validation:
    result = validate_frame(frame.reset_index(drop=True), suite, "COMPLETE")
    result.meta |= {
        "run_id": {"run_name": run, "run_time": datetime.now(UTC).isoformat()},
        "intervals": sorted(set(frame["interval"])),
    }
    findings = tuple(_finding(suite.name, entry, run) for entry in result.results)
    document: dict[str, Any] = result.to_json_dict()
    return Validation(suite.name, findings, document)


def _finding(suite: str, result: ExpectationValidationResult, run: str) -> Finding:
    config = _config(result)
    rule = config.to_domain_obj()
    if "details" not in result.result:  # GX reports an exception of an expectation as a failure
        raise LawError(f"{run}: {config.type} of the suite {suite} could not be evaluated: {result.exception_info}")
    assert isinstance(rule, Rule)
    return Finding(
        suite=suite,
        expectation=config.id or "",
        kind=config.type,
        severity=cast(Severity, config.severity.value),
        success=bool(result.success),
        evaluated=result.result["element_count"],
        unexpected=result.result["unexpected_count"],
        rows=tuple(result.result["unexpected_index_list"]),
        messages=tuple(result.result["details"]["messages"]),
        title=rule.title(),
    )


def _config(result: ExpectationValidationResult) -> ExpectationConfiguration:
    assert result.expectation_config is not None
    return result.expectation_config
