"""Finds how queries read the links whose records are no packets: by the protocol that they name.

Also the skews of links, whose values may be those of a field of the protocol.
"""

from __future__ import annotations

from lowwater.capture.tables.reader import TableOptions
from lowwater.catalog.records import RecordLayout
from lowwater.catalog.time import Skews, link_skews
from lowwater.config import Config, section_of
from lowwater.errors import ConfigError
from lowwater.lake.ingestion.record_options import text_options
from lowwater.plan.queryset import Plan


def planned_options(config: Config, plan: Plan, link: str) -> TableOptions | None:
    """Returns how the records of a link are read; None for packets, and for a link that no query reads.

    Raises:
        ConfigError: queries read the link by several protocols, or by another one than its settings say.
    """
    settings = config.link(link)
    if settings.kind == "pcap":
        return None
    layouts: dict[str, RecordLayout] = {}
    for lfta in plan.lftas:
        if link in lfta.links and lfta.layout is not None:
            layouts[lfta.protocol] = lfta.layout
    if settings.protocol is not None and layouts.keys() - {settings.protocol}:
        other = min(layouts.keys() - {settings.protocol})
        message = f"link {link} has records of {settings.protocol}, and a query reads it by {other}"
        raise ConfigError(message, f"name {settings.protocol} in FROM, or change protocol in {section_of(link)}")
    if len(layouts) > 1:
        message = f"queries read link {link} by {' and '.join(sorted(layouts))}"
        raise ConfigError(message, "a link has the records of one protocol: declare a protocol with all of the fields")
    return next((TableOptions(settings.kind, layout, text_options(settings)) for layout in layouts.values()), None)


def planned_skews(config: Config, plan: Plan, link: str) -> Skews:
    """Returns the skews of the records of a link that queries read (SEMANTICS T8).

    Raises:
        ConfigError: `group_skew` of the link names an unknown column or a wrong value.
    """
    layouts = (lfta.layout for lfta in plan.lftas if link in lfta.links and lfta.layout is not None)
    return link_skews(config, link, next(layouts, None))
