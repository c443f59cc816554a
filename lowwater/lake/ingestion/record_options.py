"""How the records of a link that are no packets are read: by the protocol that its settings or its queries name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from lowwater.capture.content.retention import RESOLUTIONS, ContentOptions
from lowwater.capture.tables.options import TableOptions, TextOptions
from lowwater.catalog.protocols import BUILTIN, LOG_KINDS, READY, Protocol
from lowwater.catalog.records import RecordLayout
from lowwater.catalog.time import Skews, link_skews
from lowwater.config import Config, Link, section_of
from lowwater.documents import FILE_NAME
from lowwater.errors import ConfigError, nearest
from lowwater.instants import format_instant
from lowwater.lake.files.patterns import settings_of

if TYPE_CHECKING:
    from lowwater.plan.queryset import Plan

# By the settings of the link: ingest, and what looks for new files.


def record_options(config: Config, link: str) -> TableOptions | None:
    """Returns how the records of a link are read; None for packets.
    Raises ConfigError if the settings do not name the protocol of the link, or its records cannot be read by it, and
    QueryError if a PROTOCOL block of the link is wrong."""
    settings = config.link(link)
    if settings.kind == "pcap":
        return None
    protocols = _protocols(settings)
    layouts = {name: layout for name, protocol in protocols.items() if (layout := protocol.layout) is not None}
    name = _protocol_of(settings, link, protocols, layouts)
    layout, of = layouts.get(name), protocols[name].kind
    if layout is None or (of != settings.kind and {of, settings.kind} & set(LOG_KINDS)):
        records = "packets" if layout is None else f"{of} records"
        message = f"link {link!r}: protocol {name} is of {records}, and the link has {settings.kind} records"
        raise ConfigError(message, f"name another protocol in {section_of(link)} of {FILE_NAME}")
    if layout.refused:
        raise ConfigError(
            f"link {link!r}: the records of {layout.protocol} cannot be read: {layout.refused}",
            "declare an increasing field of the record, such as: uint time get_csv_uint_pos1 (increasing);",
        )
    return TableOptions(settings.kind, layout, text_options(settings))


def known_protocol(settings: Link) -> str | None:
    """Returns the protocol of the records of a link, if its settings name one, or its schemas have one.
    Raises QueryError if a PROTOCOL block of the link is wrong."""
    if settings.kind == "pcap" or settings.protocol is not None or not settings.schemas:
        return settings.protocol
    declared = [name for name, each in _protocols(settings).items() if each.layout is not None and name not in BUILTIN]
    return declared[0] if len(declared) == 1 else None


def _protocols(settings: Link) -> dict[str, Protocol]:
    """Returns the protocols that the settings of a link know."""
    from lowwater.plan.context import Links  # only links with records need the planner
    from lowwater.plan.definitions import make_context

    return dict(make_context(Links(), [Path(file) for file in settings.schemas]).protocols)


def text_options(settings: Link) -> TextOptions:
    """Returns how the delimited text of a link is written."""
    plain = TextOptions()
    quote = plain.quote if settings.quote is None else settings.quote
    null = plain.null if settings.null is None else settings.null
    separator, decimal = settings.separator or plain.separator, settings.decimal or plain.decimal
    return TextOptions(separator, quote, settings.header, null, decimal)


def _protocol_of(
    settings: Link, link: str, protocols: Mapping[str, Protocol], layouts: Mapping[str, RecordLayout]
) -> str:
    """Returns the name of the protocol of a link: the one in its settings, or the only one of its schemas."""
    section = f"{section_of(link)} of {FILE_NAME}"
    if settings.protocol is not None:
        if settings.protocol in protocols:
            return settings.protocol
        raise ConfigError(
            f"link {link!r}: there is no protocol {settings.protocol}",
            f"write schemas = ['FILE'] with its PROTOCOL block in {section}; {nearest(settings.protocol, layouts)}",
        )
    ready = [name for name, protocol in READY.items() if protocol.kind == settings.kind]
    if len(ready) > 1:
        raise ConfigError(
            f"link {link!r} has {settings.kind} records, and its settings do not say of which log",
            f"write protocol = '{ready[0]}' in {section}; ready are {', '.join(ready)}",
        )
    declared = ready or sorted(layouts.keys() - BUILTIN.keys())
    if len(declared) == 1:
        return declared[0]
    said = f"its schemas have several: {', '.join(declared)}" if declared else "its settings name none"
    raise ConfigError(
        f"link {link!r} has {settings.kind} records, and a lake keeps them by a protocol: {said}",
        f"write protocol = 'NAME' and schemas = ['FILE'] in {section}, as docs/records.md shows; `lowwater init` "
        "proposes both",
    )


def content_of_file(content: ContentOptions | TableOptions, link: Link, path: Path) -> ContentOptions | TableOptions:
    """Returns how a file is read, by the period of its link, given what holds for the link."""
    if not link.read_by:
        return content
    own = settings_of(link, path)
    if isinstance(content, TableOptions):
        return replace(content, text=text_options(own))
    untimed = -1 if own.untimed == "file" else None
    return replace(content, untimed=untimed, resolution=RESOLUTIONS[own.resolution])


# By the queries: `lowwater run`. Also the skews of links, whose values may be those of a field of the protocol.


def planned_options(config: Config, plan: Plan, link: str) -> TableOptions | None:
    """Returns how the records of a link are read; None for packets, and for a link that no query reads.
    Raises ConfigError if queries read the link by several protocols, or by another one than its settings say."""
    settings = config.link(link)
    if settings.kind == "pcap":
        return None
    layouts = {lfta.protocol: lfta.layout for lfta in plan.lftas if link in lfta.links and lfta.layout is not None}
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
    Raises ConfigError if `group_skew` of the link names an unknown column or a wrong value."""
    layouts = [lfta.layout for lfta in plan.lftas if link in lfta.links and lfta.layout is not None]
    if (turns := config.link(link).turns) and (beside := next((each for each in layouts if each.bands), None)):
        raise ConfigError(
            f"link {link} has another skew from {format_instant(turns[0][0])} on, and {beside.protocol} has times "
            "beside its clock, by which records may be late as well",
            "give all periods of the link one skew, or declare the protocol with its clock alone",
        )
    return link_skews(config, link, next(iter(layouts), None))
