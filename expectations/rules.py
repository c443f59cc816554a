"""Base class of the custom expectations: a rule for every row of a frame, and a message for a row that breaks it.

`lowwater.quality` measures the frames. An expectation is a class in `links`, `lftas`, `queries`, `rows` or `history`,
with a rule in words, the columns that it reads, `holds` and `reason`. A suite file names it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from great_expectations.core.metric_domain_types import MetricDomainTypes
from great_expectations.execution_engine import ExecutionEngine, PandasExecutionEngine
from great_expectations.expectations.expectation import BatchExpectation
from great_expectations.expectations.metrics.metric_provider import metric_value
from great_expectations.expectations.metrics.table_metric_provider import TableMetricProvider

from .text import count, percent

ROWS = "table.lowwater_rows"
Row = Mapping[str, Any]


class MeasureRows(TableMetricProvider):
    """Rows of a measure frame as a metric of GX's pandas engine, read once for all expectations of a suite."""

    metric_name = ROWS

    @metric_value(engine=PandasExecutionEngine)
    def _pandas(
        cls,
        execution_engine: PandasExecutionEngine,
        metric_domain_kwargs: dict[str, Any],
        metric_value_kwargs: dict[str, Any],
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any],
    ) -> list[dict[str, Any]]:
        frame, _, _ = execution_engine.get_compute_domain(metric_domain_kwargs, MetricDomainTypes.TABLE)
        return [dict(zip(frame.columns, row, strict=True)) for row in frame.itertuples(index=False, name=None)]


class Rule(BatchExpectation, ABC):
    """An expectation that checks every row of a measure frame by itself.

    Attributes:
        noun: subject of a row, such as `link`.
        rule: the rule in words; `{name}` stands for an argument of the expectation.
        subjects: columns that identify the subject of a row.
        measures: columns that the rule reads; `{name}` as above.
        message_columns: further columns that only messages use.
    """

    noun: ClassVar[str]
    rule: ClassVar[str]
    subjects: ClassVar[tuple[str, ...]]
    measures: ClassVar[tuple[str, ...]]
    message_columns: ClassVar[tuple[str, ...]] = ("interval", "captures")
    metric_dependencies = (ROWS,)

    @abstractmethod
    def holds(self, row: Row) -> bool:
        """Whether the row keeps the rule."""

    @abstractmethod
    def reason(self, row: Row) -> str:
        """Describes the fault of a row that breaks the rule, with numbers and first offsets."""

    @abstractmethod
    def about(self, row: Row) -> str:
        """Names the subject of the row: a link, an LFTA or a query."""

    def title(self) -> str:
        """Returns the rule in words."""
        return self.rule.format(**self.configuration.kwargs)

    def columns(self) -> tuple[str, ...]:
        """Returns the columns that the pages show: subjects, then measures."""
        return (*self.subjects, *(name.format(**self.configuration.kwargs) for name in self.measures))

    def needs(self) -> set[str]:
        """Returns all columns that the expectation reads."""
        return {*self.columns(), *self.message_columns}

    def may_lack(self) -> set[str]:
        """Returns the columns without a value where nothing was measured; such a row keeps the rule."""
        return set()

    def message(self, row: Row) -> str:
        """Describes the failure of a row in one sentence: subject, interval, numbers, offsets, captures."""
        return f"{self.about(row)}, {row['interval']}: {self.reason(row)}; captures: {row['captures']}"

    def _validate(
        self,
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any] | None = None,
        execution_engine: ExecutionEngine[Any] | None = None,
    ) -> dict[str, Any]:
        rows: list[Row] = metrics[ROWS]
        failed = [position for position, row in enumerate(rows) if not self.holds(row)]
        columns = self.columns()
        return {
            "success": not failed,
            "result": {
                "element_count": len(rows),
                "unexpected_count": len(failed),
                "unexpected_percent": 100 * len(failed) / len(rows) if rows else 0.0,
                "unexpected_index_list": failed,
                "details": {
                    "title": self.title(),
                    "noun": self.noun,
                    "messages": [self.message(rows[position]) for position in failed],
                    "columns": list(columns),
                    "rows": [[row[name] for name in columns] for row in rows],
                },
            },
        }


class Within(Rule, ABC):
    """A share stays within a limit of the link.

    Attributes:
        limit: selects the column of the limit: `<kind>_warning` or `<kind>_critical`.
        kind: column of the count; the column `<kind>_share` holds its share of `whole`.
        whole: column of the total count.
        first: column that describes the first counted records; empty without one.
    """

    limit: Literal["warning", "critical"]
    success_keys = ("limit",)
    kind: ClassVar[str]
    whole: ClassVar[str]
    first: ClassVar[str]

    @abstractmethod
    def fault(self, row: Row) -> str:
        """Describes the counted records, such as "are malformed"."""

    def holds(self, row: Row) -> bool:
        return bool(row[f"{self.kind}_share"] <= row[f"{self.kind}_{self.limit}"])

    def reason(self, row: Row) -> str:
        share, limit = percent(row[f"{self.kind}_share"]), percent(row[f"{self.kind}_{self.limit}"])
        counted = f"{count(row[self.kind])} of {count(row[self.whole], 'record')} ({share}) {self.fault(row)}"
        first = f"; the first: {row[self.first]}" if self.first and row[self.first] else ""
        return f"{counted}, more than the {self.limit} limit of {limit}{first}"

    def needs(self) -> set[str]:
        return super().needs() | ({self.first} if self.first else set())
