"""What Airflow needs to run Lowwater: settings, operators, the sensor. The folder `plugins/` is on Airflow's path."""
