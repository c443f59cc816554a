"""No DAG: an import error that names the files of queries that get none, while those of all others are there."""

from __future__ import annotations

from lowwater_airflow.settings import Settings

Settings.load().require_names()
