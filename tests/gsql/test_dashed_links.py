"""A link with `-` in its name: the message shows how FROM names it."""

from __future__ import annotations

import pytest

from lowwater.errors import QueryError
from lowwater.gsql.parser import parse


@pytest.mark.parametrize("source", ["{}.TCP", "[main1, {}].TCP", "[{}, main1].TCP"])
@pytest.mark.parametrize("name", ["my-link", "my-link-2", "a-1", "a-b_c-d"])
def test_a_link_with_a_dash_is_quoted(name: str, source: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse(f"SELECT len FROM {source.format(name)}")
    assert f'is written in double quotes: `"{name}"`' in str(caught.value)
    quoted = f'"{name}"'
    parse(f"SELECT len FROM {source.format(quoted)}")
