"""What becomes of files in the folders of links (SEMANTICS T9)."""

from __future__ import annotations

READ = "read"
REFUSED = "refused"
EMPTY = "empty"
GROWING = "still written"
NEW = "not ingested"
UNCLAIMED = "unclaimed"
OTHER = "no traffic"
ASIDE = "set aside"
OVERLAPS = "overlaps"
"""Of a capture that nobody reads, since another one is of its time (T1); no sighting has it."""
GONE = "gone"
FOLDER = "folder"
"""A folder that could not be looked into, or not wholly."""

STATES = (REFUSED, OVERLAPS, UNCLAIMED, NEW, GROWING, EMPTY, GONE, FOLDER, ASIDE, OTHER, READ)
"""All states; those of which people must know come first."""
NOWHERE = ": it lies nowhere any more, and cannot be ingested again"
"""End of what is said of a capture that was read otherwise than today, and is gone."""
