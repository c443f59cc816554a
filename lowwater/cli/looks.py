"""A look into captures or a lake: what `sql` and `ask` read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePath

import click

from lowwater.link_names import is_link_name
from lowwater.replay.sql import EVER, CaptureFiles, Source
from lowwater.storage.captures import capture_path

LINK = "main1"
"""The link of a capture whose link nobody names."""


def named_captures(captures: Sequence[str]) -> list[tuple[str, Path]]:
    """Returns link and file of each `FILE` or `LINK=FILE`; the name of a file may have a `=`.
    Raises click.BadParameter if there is no such file, or one is given twice."""
    found: list[tuple[str, Path]] = []
    for text in captures:
        link, mark, rest = text.partition("=")
        named = bool(mark and is_link_name(link) and not Path(text).exists())
        link, name = (link, rest) if named else (LINK, text)
        try:
            path = capture_path(name)
        except ValueError as error:
            raise click.BadParameter(f"--capture {text}: {error}") from None
        if not path.is_file():
            why = "it is a folder: name a file in it" if path.is_dir() else "there is no such file"
            if path.exists() and not path.is_dir():
                why = "it is no regular file, and captures are read twice: write the stream to a file"
            raise click.BadParameter(f"--capture {text}: {why}")
        if (link, path) in found:
            raise click.BadParameter(f"--capture {text}: is given twice, and a link reads a capture once")
        found.append((link, path))
    return found


def open_source(captures: Sequence[str], lake: PurePath | None, start: int | None, end: int | None) -> Source:
    """Opens what `--capture` or `--lake` name, between two instants, ns; None for no bound."""
    if bool(captures) == (lake is not None):
        raise click.UsageError("give --capture FILE or --lake LAKE: one of them")
    span = EVER[0] if start is None else start, EVER[1] if end is None else end
    if lake is None:
        return CaptureFiles(named_captures(captures), span=span)
    from lowwater.lake.layout import lake_to_read
    from lowwater.replay.lake_views import LakeSource

    return LakeSource(lake_to_read(lake), span)
