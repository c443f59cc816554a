"""Great Expectations and its pandas engine, as audits use them: one context of a process, in memory.

`validation` runs the suites of the audit with it, `written` those that people wrote. Validation writes no files and
uses no network.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import great_expectations as gx
from great_expectations.core import ExpectationSuite, ExpectationSuiteValidationResult
from great_expectations.core.batch_definition import BatchDefinition
from great_expectations.data_context import EphemeralDataContext
from great_expectations.data_context.data_context.context_factory import set_context
from great_expectations.data_context.types.base import (
    DataContextConfig,
    InMemoryStoreBackendDefaults,
    ProgressBarsConfig,
)

if TYPE_CHECKING:
    import pandas

ONE_AT_A_TIME = threading.RLock()  # GX has one current context for the whole process


def validate_frame(
    frame: pandas.DataFrame, suite: ExpectationSuite, result_format: Any
) -> ExpectationSuiteValidationResult:
    """Validates a frame; the results are in the order of the suite, whose expectations have ids.

    Threads take turns. GX has one current context for a process, so this call replaces a context of the caller.
    """
    with ONE_AT_A_TIME:
        set_context(_context())
        result = _whole(suite.name).get_batch({"dataframe": frame}).validate(suite, result_format=result_format)
    order = [expectation.id for expectation in suite.expectations]
    result.results.sort(key=lambda each: order.index(each.expectation_config.id))  # type: ignore[union-attr]
    return result


def raised(exception_info: Any) -> str:
    """The first exception that an expectation raised, in a line; empty without one."""
    infos: Sequence[Any] = [exception_info] if "raised_exception" in exception_info else [*exception_info.values()]
    messages = [str(info["exception_message"]) for info in infos if info["raised_exception"]]
    return " ".join(messages[0].split()) if messages else ""


@cache
def _context() -> EphemeralDataContext:
    # The default of GX for an ephemeral context creates a folder for pages.
    config = DataContextConfig(
        store_backend_defaults=InMemoryStoreBackendDefaults(init_temp_docs_sites=False),
        progress_bars=ProgressBarsConfig(globally=False),
        analytics_enabled=False,
    )
    return gx.get_context(mode="ephemeral", project_config=config)


@cache
def _whole(name: str) -> BatchDefinition[Any]:
    source = _context().data_sources.add_or_update_pandas(name)
    return source.add_dataframe_asset(name).add_batch_definition_whole_dataframe("all")
