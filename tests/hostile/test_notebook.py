"""What a lake of somebody else holds is text in a notebook: no markup, and nothing that a terminal obeys."""

from __future__ import annotations

import lowwater_notebook as notebook
import pyarrow as pa
import pytest
from lowwater_notebook import Lake, Rows

from tests.cli.hostile import HOSTILE

MARKUP = "<img src=x onerror=alert(1)><script>alert(2)</script>"


@pytest.fixture
def rows() -> Rows:
    """Rows whose name, columns and values are hostile."""
    table = pa.table({MARKUP: [MARKUP, HOSTILE], HOSTILE: [1, None]})
    return Rows(HOSTILE + MARKUP, table.schema, 3, (MARKUP,), lambda: iter(table.to_batches()))


def test_a_notebook_is_given_text_and_no_markup(rows: Rows) -> None:
    """Without a form of their own notebooks show what `repr` says, escaped."""
    classes = [each for each in vars(notebook).values() if isinstance(each, type)]
    assert {Rows, Lake} <= set(classes)
    for each in classes:
        own = [name for name in dir(each) if name.startswith(("_repr_", "_ipython_"))]
        assert each.__module__ != notebook.__name__ or own == [], each


def test_a_terminal_obeys_nothing_of_it(rows: Rows) -> None:
    """Delta itself refuses a lake in a folder of such a name."""
    assert repr(rows).isprintable() and MARKUP in repr(rows)


def test_frames_escape_names_and_values(rows: Rows) -> None:
    for frame in (rows.pandas(), rows.polars()):
        shown = frame._repr_html_()
        assert "<img" not in shown and "<script" not in shown and "&lt;img" in shown
