"""All DAGs of Lowwater as names of one module, for a DAG folder of one's own.

The one line of a file in that folder is `from lowwater_airflow.dags import *`. Airflow parses files that hold the words
`airflow` and `dag`, and so this one.
"""

from __future__ import annotations

import logging
import runpy

from airflow.sdk import DAG

from lowwater.errors import ConfigError
from lowwater.extras import shared

log = logging.getLogger(__name__)
_dags: dict[str, DAG] = {}
for _file in sorted(shared("dags").glob("*.py")):
    try:
        _names = runpy.run_path(str(_file), run_name=f"lowwater_dags.{_file.stem}")
    except ConfigError as error:
        if _file.stem != "misnamed":
            raise
        log.error("%s", error)  # an error of the import would end all DAGs
        continue
    _dags |= {value.dag_id: value for value in _names.values() if isinstance(value, DAG)}

globals().update(_dags)
__all__ = sorted(_dags)
