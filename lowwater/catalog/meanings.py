"""What the shipped functions and aggregates mean, one line each.

Beside `builtin` and `native`; editors show it, and the tables of the language reference are made from it.
"""

from __future__ import annotations

_LESS, _MORE = "the smaller; floats are truncated to integers", "the larger; floats are truncated to integers"
_CAST = "the integer; truncated toward zero, a bool as 1 or 0, an IPv4 address as its 32 bits"
_CHOICE = "the second argument where the first is true (not 0), else the third"
_MATHS = {
    "sqrt": "square root",
    "sin": "sine of radians",
    "cos": "cosine of radians",
    "tan": "tangent of radians",
    "asin": "arc sine, radians",
    "acos": "arc cosine, radians",
    "atan": "arc tangent, radians",
    "log": "natural logarithm",
    "log2": "logarithm to base 2",
    "log10": "logarithm to base 10",
    "ceil": "smallest whole number not below it",
    "floor": "largest whole number not above it",
    "trunc": "the whole part",
    "pow": "first to the power of the second",
    "fmod": "remainder, with the sign of the first",
}

FUNCTIONS: dict[str, str] = {
    **{f"{prefix}MIN": _LESS for prefix in ("U", "L", "LL", "ULL")},
    **{f"{prefix}MAX": _MORE for prefix in ("U", "L", "LL", "ULL")},
    "FMIN": "the smaller",
    "FMAX": "the larger",
    "EQ": "1 where equal, else 0",
    "GEQ": "1 where first >= second, else 0",
    "GE": "1 where first > second, else 0",
    "LEQ": "1 where first <= second, else 0",
    "LE": "1 where first < second, else 0",
    **dict.fromkeys(("IF", "if_else", *(f"if_else_{kind}" for kind in ("i", "u", "ll", "ul", "f"))), _CHOICE),
    **dict.fromkeys(("INT", "UINT", "LLONG", "ULLONG"), _CAST),
    "FLOAT": "the float",
    "local_day": "the latest date that has begun in a time zone, in days since 1970-01-01; the clock in seconds,"
    " or in a unit that is known; temporal of a temporal clock",
    "non_temporal": "the value, no longer temporal",
    **_MATHS,
    "endian_swap_ui": "the low 32 bits, their bytes reversed",
    "str_match_start": "whether the first begins with the second",
    "str_exists_substr": "whether the first contains the second",
    "str_compare": "whether both are equal",
    "str_match_offset": "whether the second argument stands in the third at the offset, from 0",
    "byte_match_offset": "whether the byte of the string at the offset, from 0, is the value",
    "byte_match_reverse_offset": "the same, the offset counted from the end: 1 is the last byte",
    "net_word_match_offset": "whether the four bytes at the offset are the value, most significant first",
    "little_endian_word_match_offset": "the same, least significant first",
    "str_truncate": "the first characters, at most so many",
    "str_suffix": "the last characters, at most so many",
    "get_suffix": "from a position on, which counts from 1",
    "get_list_entry": "the entry of a list at an index from 0; the second argument separates entries",
    "sum_uint_in_list": "the sum of a list of numbers, the second argument its separator",
    "string_hash": "CRC-32",
    "string_hash_long": "64 bits of BLAKE2b, signed",
    "to_hex_string": "the bytes as hexadecimal digits",
    "to_llong": "the number that the text is, or the 32 bits of an IPv4 address",
    "strtoi": "the first run of digits as a number",
    "strtoi_c": "the same of a constant",
    "strtoip": "the address that the text is",
    "strtoip_c": "the same of a constant",
    "int_to_string_map": "the string that the file gives to the number, else the empty string",
    "str_regex_match": "whether the pattern matches somewhere",
    "str_partial_regex_match": "whether the pattern matches in the first characters, the third argument says how many",
    "str_extract_regex": "the first part that matches; it fails where there is none",
    "str_extract_regex_null": "the first part that matches, else the empty string",
    "like": "what `LIKE` means",
    "getlpmid": "the identifier of the longest prefix of the file that holds the address, else -1",
    "getv6lpmid": "the same",
    "community_id": "the Community ID of a flow: addresses, protocol, ports, or type and code of ICMP; "
    "without ports for protocols that have none; the sixth argument is the seed",
}

NATIVES: dict[str, str] = {
    "count": "rows; with an argument, rows where it is not NULL",
    "sum": "exact for integers; of bool, how many are true",
    "min": "the least value",
    "max": "the greatest value",
    "avg": "sum by count, as a float",
    "and_aggr": "bitwise, or logical, and",
    "or_aggr": "bitwise, or logical, or",
    "xor_aggr": "bitwise, or logical, exclusive or",
}
"""Of the native aggregates."""

AGGREGATES: dict[str, str] = {
    **NATIVES,
    "extr_avg": "the average of integers, rounded once",
    "POSAVG": "the average of the values that are not negative, -1 for none",
    "count_distinct": "distinct values; also `count(DISTINCT x)`",
    "approx_count_distinct": "distinct values by HyperLogLog, standard error 1.6 %",
    "running_approx_count_distinct": "the same since the group began",
    "quantile_of": "the value of rank ceil(phi * n)",
    "median_of": "`quantile_of(x, 0.5)`",
    "FIRST": "the first value that is not NULL",
    "LAST": "the last value that is not NULL",
    "count_diff": "how often a value differs from the one before, the first counted",
    "CAT_aggr": "the second argument of all rows, the first between them",
    "CAT_aggr_diff": "the strings that differ from the one before, divided by `:`",
    "moving_sum": "the sum over this epoch and the n - 1 before it",
    "moving_sum_exp": "the same, an epoch i epochs back weighted by alpha to the i",
    "running_sum": "the sum since the group began",
    "running_sum_max": "the greatest value that this sum had in the epoch",
    "running_array_aggr": "all values since the group began, divided by commas",
    "time_avg": "the average over time of a value x, sampled at t, in epochs of the third argument",
    "heavy_hitters": "`value:count` pairs of the values that make up the share phi, by lossy counting",
}

STATES: dict[str, str] = {
    "ssample": "whether a packet of this length is sampled, so that about so many groups are kept",
    "ssthreshold": "the threshold now",
    "ssdo_clean": "whether there are too many groups, so that a cleaning is due",
    "ssclean_with": "in a cleaning, whether a group of this weight stays",
    "ssfinal_clean": "at the end of the epoch, whether it stays",
    "flow_ssample": "takes every packet; so many flows are to be kept",
    "flow_ssdo_clean": "as `ssdo_clean`, at this time",
    "flow_ssclean_with": "as `ssclean_with`: closed, delay, time of the last packet, weight",
    "flow_ssfinal_clean": "as `ssfinal_clean`: closed, delay, time of the last packet, weight",
    "packet_count": "packets offered in the epoch",
    "gamma": "the factor of `ssdo_clean`",
    "do_clean_count": "cleanings in the epoch",
    "init_threshold": "the threshold at the beginning of the epoch",
    "delay": "the delay of the last call",
    "newly_closed": "flows closed since the last count",
    "nssample": "as `ssample`, the second argument a fixed threshold",
    "local_count": "counts a packet; whether it ends a bucket of so many packets",
    "current_bucket": "number of the bucket, from 1",
}
