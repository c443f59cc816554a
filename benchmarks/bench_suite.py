"""Processor seconds of a suite of ten expectations over the rows of a stream, judged in this process.

.venv/bin/python -m benchmarks.bench_suite [--rows N]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lowwater.catalog.schemas import ROW

C = "expect_column_"
SUITE = [
    ("expect_table_row_count_to_be_between", {"min_value": 1}),
    (f"{C}values_to_not_be_null", {"column": "srcIP"}),
    (f"{C}values_to_be_between", {"column": "port", "min_value": 0, "max_value": 65535}),
    (f"{C}values_to_be_in_set", {"column": "protocol", "value_set": [1, 6, 17], "mostly": 0.9}),
    (f"{C}values_to_match_regex", {"column": "srcIP", "regex": r"^10\."}),
    (f"{C}value_lengths_to_be_between", {"column": "srcIP", "min_value": 7, "max_value": 15}),
    (f"{C}mean_to_be_between", {"column": "bytes", "min_value": 1}),
    (f"{C}quantile_values_to_be_between",
     {"column": "bytes", "quantile_ranges": {"quantiles": [0.5], "value_ranges": [[1, 1_000_000]]}}),
    (f"{C}unique_value_count_to_be_between", {"column": "port", "min_value": 10}),
    ("expect_compound_columns_to_be_unique", {"column_list": ["tb", "srcIP"]}),
]  # fmt: skip


def rows(count: int) -> pa.Table:
    """Rows of a query by minute and source."""
    draw, numbers = np.random.default_rng(7), np.arange(count)
    octets = (numbers >> 16) & 255, (numbers >> 8) & 255, numbers & 255
    return pa.table({
        "tb": numbers // 65536,
        "srcIP": [f"10.{a}.{b}.{c}" for a, b, c in zip(*(each.tolist() for each in octets), strict=True)],
        "port": draw.integers(0, 65536, count),
        "protocol": draw.choice([1, 6, 17, 50], count, p=[0.03, 0.6, 0.36, 0.01]),
        "bytes": draw.integers(40, 1_000_000, count),
    })  # fmt: skip


def main() -> None:
    """Prints the seconds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    table = rows(parser.parse_args().rows)
    from lowwater_expectations.judging import judge

    entries = [{"type": kind, "kwargs": kwargs, "severity": "critical"} for kind, kwargs in SUITE]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.parquet"
        pq.write_table(table.append_column("_kind", pa.array([ROW] * table.num_rows)), file)
        list(judge([str(file)], table.schema, entries, 1))  # what is imported at the first use
        begin = time.process_time()
        judged = list(judge([str(file)], table.schema, entries, 1024))
        spent = time.process_time() - begin
    print(f"{len(judged)} expectations over {table.num_rows:,} rows: {spent:.1f} processor seconds")
    for each in sorted(judged, key=lambda each: each.number):
        print(f"  {SUITE[each.number][0]}: {'holds' if each.success else 'broken'} {each.observed}")


if __name__ == "__main__":
    main()
