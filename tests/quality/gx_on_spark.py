"""Great Expectations by hand, by its engine for Spark; `python -m tests.quality.gx_on_spark RULES FILE ...`."""

from __future__ import annotations

import json
import sys

import great_expectations as gx
from pyspark.sql import SparkSession


def main(rules: str, *files: str) -> None:
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", False).getOrCreate()
    source = gx.get_context(mode="ephemeral").data_sources.add_spark("spark", persist=False)
    asset = source.add_dataframe_asset("q").add_batch_definition_whole_dataframe("all")
    batch = asset.get_batch({"dataframe": spark.read.parquet(*files).drop("_kind").coalesce(1)})
    entries = [{"type": kind, "kwargs": of} for kind, of in json.loads(rules)]
    results = [batch.validate(gx.ExpectationSuite(name="q", expectations=[entry])).results for entry in entries]
    print(json.dumps([result.success for (result,) in results]))


if __name__ == "__main__":
    main(*sys.argv[1:])
