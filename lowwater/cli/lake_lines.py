"""The lines below the intervals of `status` and `report`: what is to be said of a lake as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from lowwater.config import Config
from lowwater.lake.answers import answered
from lowwater.lake.layout import Lake
from lowwater.lake.ledgers import captures, coverage, files, missing
from lowwater.lake.ledgers.statements import erased_lines
from lowwater.lake.results.published import stray_lines


def lake_lines(lake: Lake, config: Config) -> Sequence[str]:
    """Says what lies outside of links, what was lost, damaged, not decoded, not read, put in by others and erased.
    Raises LakeError if the lake cannot be read."""

    def said() -> list[str]:
        lines = (
            missing.outside_lines(lake, config),
            coverage.tolerated_lines(lake, config),
            coverage.undeclared_lines(lake, config),
            coverage.damage_lines(lake, config),
            missing.drop_lines(lake),
            captures.stray_end_lines(lake),
            captures.shared_lines(lake),
            captures.undecoded_lines(lake),
            files.unread_lines(lake, config),
            stray_lines(lake),
            erased_lines(lake),
        )
        return [*chain(*lines)]

    found: Sequence[str] = answered(lake, "lines", repr((config, config.ended)), said)
    return found
