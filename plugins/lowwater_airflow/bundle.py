"""A DAG bundle of Lowwater's DAGs, for an Airflow in which Lowwater is an installed package.

Airflow's setting `[dag_processor] dag_bundle_config_list` names the class; `lowwater_airflow.dags` is the other way.
"""

from __future__ import annotations

from typing import Any

from airflow.dag_processing.bundles.local import LocalDagBundle

from lowwater.extras import shared


class LowwaterDags(LocalDagBundle):
    """The DAGs of this installation: `capture_ingest`, `replay_<query set>`, `lowwater_maintain`, `lowwater_verify`,
    `lowwater_digest`."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(path=str(shared("dags")), **arguments)
