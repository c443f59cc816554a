"""The parts of Lowwater that run inside Airflow: settings, operators, the sensor. Airflow has `plugins/` on its import
path."""
