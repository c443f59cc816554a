"""What queries may name by the settings of a lake: links, protocols, functions, parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from lowwater import link_names
from lowwater.catalog.time import link_skews
from lowwater.config import Config
from lowwater.lake import layout
from lowwater.lake.ingestion.record_options import known_protocol
from lowwater.lake.ledgers.captures import ingested_links, interface_links, moved_to, read_captures
from lowwater.plan.context import Context, Links
from lowwater.plan.definitions import make_context


def config_links(config: Config, names: Sequence[str] | None) -> Links:
    """The links that queries may name, with their properties; None for unknown names.
    Raises ConfigError if the skews of a link refer to a column that packets do not have."""
    properties = {name: link.properties for name, link in config.links.items()}
    kinds = {name: link.kind for name, link in config.links.items()}
    groups = {name: _skewed_column(config, name) for name, link in config.links.items() if link.group_skew}
    protocols = {name: known for name, link in config.links.items() if (known := known_protocol(link)) is not None}
    listed = None if names is None else tuple(names)
    return Links(listed, config.sets, properties, kinds, groups, protocols=protocols)


def lake_links(config: Config, lake: layout.Lake) -> Links:
    """The links that queries over a lake may name: configured ones, otherwise ingested ones, and their interfaces
    (T1)."""
    ingested, moved = ingested_links(lake), dict[str, tuple[str, ...]]()
    if config.ended:  # one all of whose captures are of other links now was renamed
        there = {
            link_names.family_of(link) for link, rows in read_captures(lake, ingested, config).items() if len(rows)
        }
        renamed = config.ended.keys() - there
        moved = {name: others for name, others in moved_to(lake, config).items() if name in there}
        ingested = [link for link in ingested if link_names.family_of(link) not in renamed]
        config = config.model_copy(update={"links": {k: v for k, v in config.links.items() if k not in renamed}})
    standing = interface_links(ingested)
    chosen = set(config.links) or {*ingested, *standing}
    chosen |= {link for link in ingested if link_names.family_of(link) in chosen}
    links = config_links(config, sorted(chosen))
    return replace(links, interfaces=standing, moved=moved)


def _skewed_column(config: Config, link: str) -> str:
    """The column of `group_skew` of a link, as queries name it; its values are checked with the protocol."""
    group = config.link(link).group_skew
    assert group is not None
    return link_skews(config, link).column if config.link(link).kind == "pcap" else group.column


def set_context(config: Config, query_set: str, python: bool = True) -> Context:
    """The names that the section of a query set, where it has one, adds for its queries: protocols, functions,
    parameters. Without `python` the Python files of its functions are not run, so queries can be planned only.
    Raises QueryError if a definition is wrong."""
    section = config.query_sets.get(query_set)
    if section is None:
        return make_context(Links(), config.link_schemas, folders=config.files.folders)
    schemas = list(dict.fromkeys([*config.link_schemas, *map(Path, section.schemas)]))
    functions = [Path(file) for file in section.functions]
    return make_context(Links(), schemas, functions, section.params, folders=config.files.folders, python=python)
