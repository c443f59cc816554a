"""Review pages: show the state of every interval of a lake and its reason, as HTML without scripts or network.

They read the ledgers of a lake. Airflow serves them (`lowwater_airflow.views`); `lowwater report --html` writes them.
Modules import each other relatively, because the folder `review/` is installed as `lowwater_review`.
"""

from __future__ import annotations

from .acts.effects import Act
from .ledgers import Ledgers
from .pages import render
from .site import write_site

__all__ = ["Act", "Ledgers", "render", "write_site"]
