"""What is on a page, as GX's page renderers arrange it: a table of outcomes, or the list of a suite's expectations.

Between the cells of `rules` and the `view`. GX's renderers do the work; what differs from them is said at each class.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from great_expectations.core import ExpectationSuite
from great_expectations.expectations.expectation_configuration import ExpectationConfiguration
from great_expectations.render import (
    RenderedBulletListContent,
    RenderedDocumentContent,
    RenderedHeaderContent,
    RenderedMarkdownContent,
    RenderedSectionContent,
)
from great_expectations.render.renderer.column_section_renderer import (
    ExpectationSuiteColumnSectionRenderer,
    ValidationResultsColumnSectionRenderer,
)
from great_expectations.render.renderer.content_block import (
    ExpectationSuiteBulletListContentBlockRenderer,
    ValidationResultsTableContentBlockRenderer,
)
from great_expectations.render.renderer.page_renderer import ExpectationSuitePageRenderer, ValidationResultsPageRenderer

from .cells import Shown, cell


class ResultTable(ValidationResultsTableContentBlockRenderer):
    """The table of outcomes; an expectation shows its own cells even where it has a description."""

    _default_content_block_styling = {"body": {"classes": ["results"]}, "classes": ["table-responsive"]}  # noqa: RUF012
    _rendered_component_default_init_kwargs: dict[str, Any] = {}  # noqa: RUF012 - GX's own is mutable too

    @classmethod
    def _get_content_block_fn_from_expectation_description(
        cls, expectation_config: ExpectationConfiguration
    ) -> Callable[..., Any] | None:
        return None

    @classmethod
    def _process_content_block(cls, content_block: Any, has_failed_evr: Any, render_object: Any = None) -> None:
        content_block.header_row = ["Outcome", "Expectation", "Rows"]


class ResultSection(ValidationResultsColumnSectionRenderer):
    """The section with the table, under a heading of its own: every expectation is about rows of one frame."""

    def __init__(self) -> None:
        super().__init__(table_renderer={"class_name": ResultTable.__name__, "module_name": __name__})

    @classmethod
    def _render_header(cls, validation_results: Any) -> tuple[Any, RenderedHeaderContent]:
        return validation_results, RenderedHeaderContent(header=cell("What was expected", tag="h2"))


class ResultPage(ValidationResultsPageRenderer):
    """The page of a validation: the outcomes first, statistics and run at the end; the page's frame has the header."""

    def __init__(self) -> None:
        super().__init__(column_section_renderer={"class_name": ResultSection.__name__, "module_name": __name__})

    def _collect_rendered_document_content_sections(self, *args: Any, **kwargs: Any) -> list[RenderedSectionContent]:
        overview, *outcomes = super()._collect_rendered_document_content_sections(*args, **kwargs)
        _, *run = overview.content_blocks
        return [*outcomes, RenderedSectionContent(section_name="Run", content_blocks=run)]


class SuiteList(ExpectationSuiteBulletListContentBlockRenderer):
    """The expectations of a suite, each as one item with its notes unfolded."""

    @classmethod
    def _get_content_block_fn(
        cls, expectation_type: str, expectation_config: ExpectationConfiguration | None = None
    ) -> Callable[..., Any] | None:
        return _item

    @classmethod
    def _render_expectation_notes(cls, expectation_config: ExpectationConfiguration) -> None:
        return None


def _item(configuration: ExpectationConfiguration, **_: Any) -> list[Any]:
    severity = configuration.severity.value
    notes = [
        RenderedMarkdownContent(content_block_type="markdown", markdown=note, styling={"parent": {}})
        for note in configuration.notes or ()
    ]
    names = cell(f"{configuration.type} · {configuration.id}", "names", tag="div")
    return [[cell(severity, "badge", severity), *Shown._prescriptive_renderer(configuration), *notes, names]]


class SuiteSection(ExpectationSuiteColumnSectionRenderer):
    """The section with the list."""

    def __init__(self) -> None:
        super().__init__(bullet_list_renderer={"class_name": SuiteList.__name__, "module_name": __name__})


class SuitePage(ExpectationSuitePageRenderer):
    """The page of a suite: the list alone; the page's frame has the header and the notes of the suite."""

    def __init__(self) -> None:
        super().__init__(column_section_renderer={"class_name": SuiteSection.__name__, "module_name": __name__})

    def render(self, expectations: ExpectationSuite) -> RenderedDocumentContent:
        """Renders the content of a suite's page."""
        document: RenderedDocumentContent = super().render(expectations)
        for section in document.sections:
            blocks = section.content_blocks
            section.content_blocks = [block for block in blocks if isinstance(block, RenderedBulletListContent)]
            for block in section.content_blocks:
                block.header = None
        return document
