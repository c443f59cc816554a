"""The runner on Spark; only this folder imports pyspark."""
