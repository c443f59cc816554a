"""The review pages: what became of every interval of a lake, and why, as HTML that needs no script and no network.

Reads the ledgers of a lake; served by Airflow (`lowwater_airflow.views`) or written by `lowwater report --html`.
Modules import each other relatively, because the folder `review/` is installed as `lowwater_review`.
"""

from __future__ import annotations

from .board import Board
from .pages import render
from .site import write_site

__all__ = ["Board", "render", "write_site"]
