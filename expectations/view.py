"""Turns rendered content into a page: GX's view in Lowwater's frame, without addresses of a network, text escaped.

Between `renderers` and the finished page. GX's own page loads fifteen files from five content networks and does not
escape the cells of its tables; here page and collapsible are templates of ours, and text is escaped where it enters.
"""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

from great_expectations.render.view.view import DefaultJinjaPageView
from jinja2 import ChoiceLoader, FileSystemLoader, pass_context

TEMPLATES = Path(__file__).parent / "templates"


class Page(DefaultJinjaPageView):
    """A page of a validation or a suite.

    Templates are looked for in `templates/` first, then in GX; `*.html` escapes by itself, GX's `*.j2` does not.
    """

    _template = "document.html"

    def __init__(self) -> None:
        super().__init__()
        assert self.env.loader is not None
        self.env.loader = ChoiceLoader([FileSystemLoader(TEMPLATES), self.env.loader])

    @pass_context
    def render_content_block(
        self,
        jinja_context: Any,
        content_block: Any,
        index: Any = None,
        content_block_id: Any = None,
        render_to_markdown: bool = False,
    ) -> Any:
        """Renders a block; a bare text is escaped, also within a list."""
        if isinstance(content_block, str):
            return html.escape(content_block)
        if isinstance(content_block, list):
            content_block = [html.escape(each) if isinstance(each, str) else each for each in content_block]
        return super().render_content_block(jinja_context, content_block, index, content_block_id, render_to_markdown)

    def render_string_template(self, template: Any) -> Any:
        """Renders a text with parameters; GX escapes the parameters, here the text is escaped too."""
        if isinstance(template, dict):
            template = template | {"template": html.escape(template.get("template", ""))}
        return super().render_string_template(template)
