"""The expectations that suites may have, with arguments that hold of ROWS and some that do not."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

ROWS: dict[str, list[Any]] = {
    "port": [80, 443, 53, 80, 22, 8080],
    "most": [100, 500, 60, 80, 22, 9000],
    "same": [80, 443, 53, 80, 22, 8080],
    "share": [0.5, 0.25, 0.75, 1.0, 0.0, 0.5],
    "seq": [1, 2, 3, 4, 5, 6],
    "name": ["dns", "tls", "www", "dns", None, "ssh"],
    "json": ['{"a": 1}', '{"a": 2}', '{"a": 3}', "{}", '{"b": 1}', '{"a": 0}'],
    "day": ["2026-01-01", "2026-01-02", "2026-01-03", "2026-01-04", "2026-01-05", "2026-01-06"],
}
TABLE = pa.table(ROWS)

_V = "expect_column_values_to_"
_C = "expect_column_"
NAMES = ["dns", "tls", "www", "ssh"]
_QUANTILES = {"quantiles": [0.0, 0.5, 1.0], "value_ranges": [[1, 1], [3, 4], [6, 6]]}
_WRONG_QUANTILES = {"quantiles": [0.5], "value_ranges": [[5, 6]]}
_PARTITION = {"values": NAMES, "weights": [0.4, 0.2, 0.2, 0.2]}
_OTHER = {"values": NAMES, "weights": [0.97, 0.01, 0.01, 0.01]}

Kwargs = dict[str, Any]
GALLERY: list[tuple[str, Kwargs, Kwargs]] = [
    (_V + "not_be_null", {"column": "port"}, {"column": "name"}),
    (_V + "be_null", {"column": "name", "mostly": 0.1}, {"column": "name", "mostly": 0.5}),
    (_V + "be_between", {"column": "port", "min_value": 22}, {"column": "port", "max_value": 443}),
    (_V + "be_in_set", {"column": "name", "value_set": NAMES}, {"column": "port", "value_set": [80]}),
    (_V + "not_be_in_set", {"column": "port", "value_set": [23]}, {"column": "name", "value_set": ["ssh"]}),
    (_V + "match_regex", {"column": "name", "regex": "^[a-z]{3}$"}, {"column": "name", "regex": "s(?=h)"}),
    (_V + "not_match_regex", {"column": "name", "regex": "[0-9]"}, {"column": "name", "regex": "^d"}),
    (_V + "match_regex_list", {"column": "name", "regex_list": ["^d", "s"], "mostly": 0.8},
     {"column": "name", "regex_list": ["^d", "^w"], "match_on": "all"}),
    (_V + "not_match_regex_list", {"column": "name", "regex_list": ["x", "y"]},
     {"column": "name", "regex_list": ["x", "w"]}),
    (_V + "match_like_pattern", {"column": "name", "like_pattern": "___"}, {"column": "name", "like_pattern": "%s"}),
    (_V + "not_match_like_pattern", {"column": "name", "like_pattern": "%.%"},
     {"column": "name", "like_pattern": "d%"}),
    (_V + "match_like_pattern_list", {"column": "name", "like_pattern_list": ["%s%", "www"]},
     {"column": "name", "like_pattern_list": ["%s%", "www"], "match_on": "all"}),
    (_V + "not_match_like_pattern_list", {"column": "name", "like_pattern_list": ["q%", "!%%"], "escape": "!"},
     {"column": "name", "like_pattern_list": ["q%", "s%"]}),
    (_C + "value_lengths_to_be_between", {"column": "name", "min_value": 3, "max_value": 3},
     {"column": "name", "min_value": 4}),
    (_C + "value_lengths_to_equal", {"column": "name", "value": 3}, {"column": "day", "value": 3}),
    (_V + "be_unique", {"column": "seq"}, {"column": "port"}),
    (_V + "be_increasing", {"column": "seq", "strictly": True}, {"column": "port"}),
    (_V + "be_decreasing", {"column": "seq", "mostly": 0.1}, {"column": "seq"}),
    (_V + "be_of_type", {"column": "port", "type_": "int"}, {"column": "port", "type_": "str"}),
    (_V + "be_in_type_list", {"column": "name", "type_list": ["str", "object"]},
     {"column": "name", "type_list": ["int"]}),
    (_C + "type_to_be", {"column": "port", "type_": "int64"}, {"column": "port", "type_": "float"}),
    (_V + "be_json_parseable", {"column": "json"}, {"column": "day"}),
    (_V + "match_json_schema", {"column": "json", "json_schema": {"type": "object"}},
     {"column": "json", "json_schema": {"required": ["a"]}}),
    (_V + "be_dateutil_parseable", {"column": "day"}, {"column": "json"}),
    (_V + "match_strftime_format", {"column": "day", "strftime_format": "%Y-%m-%d"},
     {"column": "day", "strftime_format": "%d.%m.%Y"}),
    (_C + "value_z_scores_to_be_less_than", {"column": "seq", "threshold": 3, "double_sided": True},
     {"column": "most", "threshold": 1, "double_sided": True}),
    (_V + "not_be_outliers", {"column": "seq"}, {"column": "most"}),
    (_C + "pair_values_to_be_equal", {"column_A": "port", "column_B": "port"},
     {"column_A": "port", "column_B": "most"}),
    (_C + "pair_values_a_to_be_greater_than_b", {"column_A": "most", "column_B": "port", "or_equal": True},
     {"column_A": "most", "column_B": "port"}),
    (_C + "pair_values_to_be_in_set",
     {"column_A": "port", "column_B": "seq", "value_pairs_set": [[port, n + 1] for n, port in enumerate(ROWS["port"])]},
     {"column_A": "port", "column_B": "seq", "value_pairs_set": [[80, 1]]}),
    ("expect_compound_columns_to_be_unique", {"column_list": ["port", "seq"]}, {"column_list": ["port", "name"]}),
    ("expect_select_column_values_to_be_unique_within_record", {"column_list": ["seq", "share"]},
     {"column_list": ["port", "most"]}),
    ("expect_multicolumn_sum_to_equal", {"column_list": ["port", "seq"], "sum_total": 84, "mostly": 0.1},
     {"column_list": ["port", "seq"], "sum_total": 84}),
    ("expect_multicolumn_values_to_be_equal", {"column_list": ["port", "same"]}, {"column_list": ["port", "most"]}),
    (_C + "max_to_be_between", {"column": "port", "max_value": 8080},
     {"column": "port", "max_value": 8080, "strict_max": True}),
    (_C + "min_to_be_between", {"column": "share", "min_value": 0, "max_value": 0},
     {"column": "port", "min_value": 23}),
    (_C + "mean_to_be_between", {"column": "share", "min_value": 0.5, "max_value": 0.5},
     {"column": "seq", "max_value": 3}),
    (_C + "median_to_be_between", {"column": "seq", "min_value": 3.5, "max_value": 3.5},
     {"column": "seq", "max_value": 3}),
    (_C + "sum_to_be_between", {"column": "seq", "min_value": 21, "max_value": 21}, {"column": "seq", "min_value": 22}),
    (_C + "stdev_to_be_between", {"column": "seq", "min_value": 1.8, "max_value": 1.9},
     {"column": "seq", "max_value": 1}),
    (_C + "quantile_values_to_be_between", {"column": "seq", "quantile_ranges": _QUANTILES},
     {"column": "seq", "quantile_ranges": _WRONG_QUANTILES}),
    (_C + "unique_value_count_to_be_between", {"column": "port", "min_value": 5, "max_value": 5},
     {"column": "name", "min_value": 5}),
    (_C + "proportion_of_unique_values_to_be_between", {"column": "seq", "min_value": 1},
     {"column": "port", "min_value": 1}),
    (_C + "proportion_of_non_null_values_to_be_between", {"column": "name", "min_value": 0.8},
     {"column": "name", "min_value": 0.9}),
    (_C + "most_common_value_to_be_in_set", {"column": "port", "value_set": [80]},
     {"column": "name", "value_set": ["tls"]}),
    (_C + "distinct_values_to_be_in_set", {"column": "name", "value_set": ["dns", "tls", "www", "ssh", "x"]},
     {"column": "name", "value_set": ["dns"]}),
    (_C + "distinct_values_to_contain_set", {"column": "name", "value_set": ["dns"]},
     {"column": "name", "value_set": ["ftp"]}),
    (_C + "distinct_values_to_equal_set", {"column": "port", "value_set": [80, 443, 53, 22, 8080]},
     {"column": "port", "value_set": [80]}),
    (_C + "kl_divergence_to_be_less_than", {"column": "name", "partition_object": _PARTITION, "threshold": 0.1},
     {"column": "name", "partition_object": _OTHER, "threshold": 0.1}),
    (_C + "to_exist", {"column": "port"}, {"column": "prt"}),
    ("expect_table_column_count_to_equal", {"value": 8}, {"value": 7}),
    ("expect_table_column_count_to_be_between", {"min_value": 8, "max_value": 8}, {"max_value": 7}),
    ("expect_table_columns_to_match_ordered_list", {"column_list": list(ROWS)}, {"column_list": ["most", "port"]}),
    ("expect_table_columns_to_match_set", {"column_set": ["port"], "exact_match": False}, {"column_set": ["port"]}),
    ("expect_table_row_count_to_equal", {"value": 6}, {"value": 5}),
    ("expect_table_row_count_to_be_between", {"min_value": 6, "max_value": 6}, {"min_value": 7}),
    ("unexpected_rows_expectation", {"unexpected_rows_query": "SELECT * FROM {batch} WHERE port > most"},
     {"unexpected_rows_query": "SELECT name, count(*) AS n FROM {batch} GROUP BY name HAVING n > 1"}),
]  # fmt: skip
"""(type, arguments that hold, arguments that do not)."""
