"""No DAG: an import error that names the files of queries, and the lengths of intervals, that get none, while those of
all others are there.
"""

from __future__ import annotations

from lowwater_airflow.settings import Settings

_settings = Settings.load()
_settings.require_names()
_settings.require_lengths()
