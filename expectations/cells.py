"""How one expectation looks on a page: outcome, rule, failure messages, measures.

The renderers of the custom expectations, in the form in which GX asks for them; `rules` builds on this class,
`renderers` puts the cells into a page, and `view` escapes whatever text is in them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from great_expectations.core import ExpectationValidationResult
from great_expectations.expectations.expectation import BatchExpectation
from great_expectations.expectations.expectation_configuration import ExpectationConfiguration
from great_expectations.render import (
    CollapseContent,
    LegacyDiagnosticRendererType,
    LegacyRendererType,
    RenderedBulletListContent,
    RenderedStringTemplateContent,
    RenderedTableContent,
)
from great_expectations.render.renderer.renderer import renderer

from .text import count, label, shown

MOST_ROWS = 50
"""Most rows of measures on a page; broken ones come first."""


def cell(value: str, *classes: str, tag: str = "span", of_cell: Sequence[str] = (), anchor: str = "") -> Any:
    """A piece of text on a page.

    Args:
        value: the text, not escaped.
        classes: the classes of the element around it.
        tag: of that element.
        of_cell: classes of the table cell that it is in.
        anchor: its id, or "" for none.
    """
    attributes = {"id": anchor} if anchor else {}
    return RenderedStringTemplateContent(
        content_block_type="string_template",
        string_template={
            "template": "$value",
            "params": {"value": value},
            "tag": tag,
            "styling": {"classes": list(classes), "attributes": attributes},
        },
        styling={"parent": {"classes": list(of_cell)}},
    )


class Shown(BatchExpectation, ABC):
    """A custom expectation on the pages.

    Attributes:
        noun: what a row of its frame is.
    """

    noun: ClassVar[str]

    @abstractmethod
    def title(self) -> str:
        """The rule in words."""

    @classmethod
    @renderer(renderer_type=LegacyRendererType.PRESCRIPTIVE)
    def _prescriptive_renderer(
        cls,
        configuration: ExpectationConfiguration | None = None,
        result: ExpectationValidationResult | None = None,
        runtime_configuration: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> list[RenderedStringTemplateContent]:
        assert configuration is not None
        expectation = configuration.to_domain_obj()
        assert isinstance(expectation, Shown)
        return [
            cell(expectation.title(), "title", tag="div", anchor=configuration.id or ""),
            cell(configuration.description or "", "description", tag="div"),
        ]

    @classmethod
    @renderer(renderer_type=LegacyDiagnosticRendererType.STATUS_ICON)
    def _diagnostic_status_icon_renderer(
        cls,
        configuration: ExpectationConfiguration | None = None,
        result: ExpectationValidationResult | None = None,
        runtime_configuration: dict[str, Any] | None = None,
    ) -> RenderedStringTemplateContent:
        assert result is not None and result.expectation_config is not None
        severity = str(result.expectation_config.severity.value)
        outcome = "passed" if result.success else "failed" if severity == "critical" else "warned"
        return RenderedStringTemplateContent(
            content_block_type="string_template",
            string_template={
                "template": "$outcome $severity",
                "params": {"outcome": outcome, "severity": f"severity: {severity}"},
                "styling": {
                    "params": {
                        "outcome": {"classes": ["badge", outcome]},
                        "severity": {"classes": ["severity"], "tag": "div"},
                    }
                },
            },
            styling={"parent": {"classes": ["outcome"]}},
        )

    @classmethod
    @renderer(renderer_type=LegacyDiagnosticRendererType.UNEXPECTED_STATEMENT)
    def _diagnostic_unexpected_statement_renderer(
        cls,
        configuration: ExpectationConfiguration | None = None,
        result: ExpectationValidationResult | None = None,
        runtime_configuration: dict[str, Any] | None = None,
    ) -> list[Any]:
        assert result is not None
        messages = result.result["details"]["messages"]
        if not messages:
            return []
        lines = [cell(message, "message") for message in messages]
        return [RenderedBulletListContent(bullet_list=lines, styling={"body": {"classes": ["messages"]}})]

    @classmethod
    @renderer(renderer_type=LegacyDiagnosticRendererType.UNEXPECTED_TABLE)
    def _diagnostic_unexpected_table_renderer(
        cls,
        configuration: ExpectationConfiguration | None = None,
        result: ExpectationValidationResult | None = None,
        runtime_configuration: dict[str, Any] | None = None,
    ) -> list[RenderedTableContent | CollapseContent] | None:
        assert result is not None
        table = _measures(result.result)
        if not result.success:
            return [table]
        return [CollapseContent(collapse=[table], collapse_toggle_link="what was measured")]

    @classmethod
    @renderer(renderer_type=LegacyDiagnosticRendererType.OBSERVED_VALUE)
    def _diagnostic_observed_value_renderer(
        cls,
        configuration: ExpectationConfiguration | None = None,
        result: ExpectationValidationResult | None = None,
        runtime_configuration: dict[str, Any] | None = None,
    ) -> str:
        assert result is not None
        rows, broken = result.result["element_count"], result.result["unexpected_count"]
        if broken:
            return f"{count(broken)} of {count(rows, cls.noun)} {'fails' if broken == 1 else 'fail'}"
        return f"1 {cls.noun} holds" if rows == 1 else f"all {count(rows, cls.noun)} hold"


def _measures(result: dict[str, Any]) -> RenderedTableContent:
    columns, rows = result["details"]["columns"], result["details"]["rows"]
    broken = set(result["unexpected_index_list"])
    order = sorted(range(len(rows)), key=lambda position: (position not in broken, position))
    table = []
    for position in order[:MOST_ROWS]:
        mark = ["broken"] if position in broken else []
        cells = zip(columns, rows[position], strict=True)
        table.append([cell(shown(name, value), of_cell=[*mark, _alignment(value)]) for name, value in cells])
    headings = [label(name) for name in columns]
    return RenderedTableContent(
        header_row=headings,
        header_row_options={name: {"align": _alignment(value)} for name, value in zip(headings, rows[0], strict=True)},
        table=table,
        styling={"body": {"classes": ["measures"]}},
    )


def _alignment(value: Any) -> str:
    return "words" if isinstance(value, str) else "number"
