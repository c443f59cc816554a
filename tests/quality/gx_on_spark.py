"""Great Expectations by hand on Spark, and Delta as people use it there, over a lake that goes on publishing.

`python -m tests.quality.gx_on_spark LAKE RULES NOTEBOOK`: RULES is a JSON list of type and arguments, and NOTEBOOK one
of cells. Prints a line of JSON: whether each rule holds, and what Delta said. A few rows need no compiled code and
one part of each shuffle; without that, each of some hundred jobs takes a second.
"""

from __future__ import annotations

import json
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import great_expectations as gx
from py4j.protocol import Py4JJavaError

from lowwater.lake.layout import open_lake
from lowwater.lake.results.published import damage_of
from lowwater.spark.jars import lake_session
from tests.lake.support import BASE
from tests.quality.test_project import CHECKS, HOUR, hour


def delta_as_known(spark: Any, root: Path) -> dict[str, Any]:
    """What delta-spark does to a published table while Lowwater publishes."""
    lake = open_lake(root)
    spark.sql("ALTER TABLE q SET TBLPROPERTIES (delta.enableChangeDataFeed = true)")
    since = spark.sql("DESCRIBE HISTORY q").agg({"version": "max"}).first()[0] + 1
    hour(lake, 3, [7, 8], checks=CHECKS)
    hour(lake, 3, [7], checks=CHECKS)
    versions = [spark.sql(f"SELECT n FROM q VERSION AS OF {at}").collect() for at in (since, since + 1)]
    changes = spark.sql(f"SELECT n, _change_type FROM table_changes('q', {since})").collect()
    spark.sql("OPTIMIZE q")
    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    spark.sql("VACUUM q RETAIN 0 HOURS")
    hour(lake, 4, [9], checks=CHECKS)
    refused = ""
    try:
        spark.sql("INSERT INTO q SELECT addr, mac, -1, _last, _hour FROM q LIMIT 1")
    except Py4JJavaError as error:
        refused = str(error)
    return {
        "then": [sorted(row.n for row in rows) for rows in versions],
        "changes": sorted((row.n, row._change_type) for row in changes),
        "now": sorted(row.n for row in spark.sql("SELECT n FROM q").collect()),
        "damage": [damage_of(lake, "set", "q", BASE + at * HOUR, BASE + (at + 1) * HOUR) for at in range(5)],
        "comments": {row.col_name: row.comment for row in spark.sql("DESCRIBE q").collect() if row.comment},
        "refused": "CHECK constraint" in refused,
    }


QUICK = {
    "spark.sql.shuffle.partitions": "1",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


def holds(frame: Any, rules: list[tuple[str, Any]]) -> list[bool]:
    """What GX says of each rule, all of them asked at once."""
    source = gx.get_context(mode="ephemeral").data_sources.add_spark("gallery", persist=False)
    asset = source.add_dataframe_asset("q").add_batch_definition_whole_dataframe("all")
    entries = [{"type": kind, "kwargs": of, "id": str(at)} for at, (kind, of) in enumerate(rules)]
    batch = asset.get_batch({"dataframe": frame})
    results = batch.validate(gx.ExpectationSuite(name="q", expectations=entries)).results
    said = {result.expectation_config.id: result for result in results}
    broken = {at: each.exception_info for at, each in said.items() if "Traceback" in str(each.exception_info)}
    assert not broken, broken
    return [bool(said[str(at)].success) for at in range(len(rules))]


def main(root: str, rules: str, cells: str) -> None:
    spark = lake_session(root, "local[1]")
    spark.sparkContext.setLogLevel("OFF")
    for name, value in QUICK.items():
        spark.conf.set(name, value)
    said = StringIO()
    with redirect_stdout(said):
        scope = {"context": gx.get_context(project_root_dir=root)}
        for cell in json.loads(cells):
            exec(compile(cell, "cell", "exec"), scope)  # noqa: S102 - what a person runs
    rows = spark.table("gallery").drop("_hour", "_last").orderBy("seq").collect()
    found = holds(spark.createDataFrame(rows).coalesce(1), json.loads(rules))
    print(json.dumps({"holds": found, "notebook": said.getvalue(), **delta_as_known(spark, Path(root))}))


if __name__ == "__main__":
    main(*sys.argv[1:])
