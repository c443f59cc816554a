"""The parts of Lowwater that run inside Airflow: settings, operators, the sensor. Airflow has `plugins/` on its import
path."""

from importlib.util import find_spec

_found = find_spec("lowwater")
if _found is not None and _found.submodule_search_locations is None:
    # Airflow puts its folder of DAGs on the path, and this is the name that comes to mind first.
    raise ImportError(f"{_found.origin} hides the package lowwater: give this file another name, as lowwater_dags.py")
