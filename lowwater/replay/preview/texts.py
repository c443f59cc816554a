"""Which names a query that is only tried may use: links, protocols and functions, no files and no Python of users.

Read by the page on which queries are written, for its checks, and by `evaluation`, for the preview itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from lowwater.config import Config
from lowwater.lake.layout import Lake
from lowwater.plan.context import Context
from lowwater.replay.job import lake_links, set_context

LONGEST = 12_000
"""Most characters of a text."""
FILE = "/dev/null/query.gsql"
"""Name of the file of a text. A query may read files beside its own: beside this one there can be none."""


def preview_context(lake: Lake, config: Config, query_set: str, links: Iterable[str]) -> Context:
    """Returns the names that a tried query may use.

    Args:
        lake: the lake.
        config: its settings.
        query_set: the query set whose protocols, functions and parameters it may use; empty for none.
        links: the links that it may read.
    """
    every, allowed = lake_links(config, lake), set(links)
    known = every.names if every.names is not None else ()
    names = tuple(name for name in known if name in allowed or allowed & set(every.interfaces.get(name, ())))
    sets = {name: members for name, members in every.sets.items() if set(members) <= {*names}}
    limited = replace(every, names=names, sets=sets)
    return replace(set_context(config, query_set, python=False), links=limited, folders=())
