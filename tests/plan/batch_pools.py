"""What random queries are made of, each part as GSQL and as SQL."""

from __future__ import annotations

from lowwater.catalog.builtin.numbers import Stateless
from lowwater.catalog.expr import Type
from lowwater.catalog.functions import AggregateFunction, Catalog
from lowwater.plan.context import Context, Links

LINKS = ("control", "main1", "main2")
KNOWN = Links(LINKS, {"pair": ("main1", "main2")})
HOST = "[Hh][Oo][Ss][Tt]:[ ]*[A-Z.:0-9]*"
FROM = {
    "main1": "link = 'main1'",
    "[main1, control]": "link IN ('main1', 'control')",
    "[pair]": "link IN ('main1', 'main2')",
}
PROTOCOLS = {
    "DataProtocol": "ipversion IS NOT NULL", "TCP": "protocol = 6 AND flags IS NOT NULL", "ETH": "TRUE",
    "UDP": "protocol = 17", "IPV4": "ipversion = 4", "IPV6": "ipversion = 6", "ICMP": "protocol IN (1, 58)",
}  # fmt: skip
Pair = tuple[str, str]


class Squares(Stateless):
    """An aggregate that is split into itself and a sum."""

    def initialize(self) -> int:
        return 0

    def iterate(self, state: int, value: int) -> int:
        return state + value * value

    def output(self, state: int) -> int:
        return state


class SumModulo(Squares):
    """An aggregate with a constant for its output, which only the superaggregate has."""

    def iterate(self, state: int, value: int) -> int:
        return state + value

    def output(self, state: int, modulus: int = 1) -> int:
        return state % modulus


_NUMBER = (Type.INT,)
DECLARED = Catalog(
    aggregates=(
        AggregateFunction("squares", _NUMBER, Type.INT, Squares, sub="squares", sup="sum", lfta=True),
        AggregateFunction("sum_modulo", _NUMBER * 2, Type.INT, SumModulo, sub="sum", sup="modulo_of"),
        AggregateFunction("modulo_of", _NUMBER * 2, Type.INT, SumModulo),
    )
)
"""Aggregates of the user's own that are split."""

CONTEXT = Context(catalog=Context().catalog.extended(DECLARED))

# Conditions over one packet; the second half may not run at the low level.
SAFE: tuple[Pair, ...] = (
    ("len > 41", "len > 41"),
    ("len BETWEEN 41 AND 64", "len BETWEEN 41 AND 64"),
    ("srcPort IN [80, 1024]", "srcPort IN (80, 1024)"),
    ("srcPort NOT IN [80, 1024]", "srcPort NOT IN (80, 1024)"),
    ("srcPort IS NULL", "srcPort IS NULL"),
    ("NOT (srcPort = 53)", "NOT (srcPort = 53)"),
    ("srcPort = 80 OR destPort = 80", "srcPort = 80 OR destPort = 80"),
    ("SYN AND NOT ACK", "(flags & 2) <> 0 AND (flags & 16) = 0"),
    ("srcIP <> '10.0.0.1'", "srcIP <> '10.0.0.1'"),
    ("100 / (len - 41) > 2", "100 // (len - 41) > 2"),
    ("CASE WHEN len > 60 THEN ttl ELSE srcPort END = 64", "CASE WHEN len > 60 THEN ttl ELSE srcPort END = 64"),
    (
        "CASE srcPort WHEN 80 THEN TRUE WHEN 53 THEN len > 60 END",
        "CASE srcPort WHEN 80 THEN TRUE WHEN 53 THEN len > 60 END",
    ),
    ("interface <> 'main1'", "link <> 'main1'"),
    ("len NOT BETWEEN 50 AND 70", "len NOT BETWEEN 50 AND 70"),
    ("srcPort IS NULL OR SYN >= ACK", "srcPort IS NULL OR ((flags & 2) <> 0) >= ((flags & 16) <> 0)"),
    ("UMAX(ttl, srcPort) > 60", "ttl IS NOT NULL AND srcPort IS NOT NULL AND (ttl > 60 OR srcPort > 60)"),
)
UNSAFE: tuple[Pair, ...] = (
    ("str_match_start[TCP_data, 'GET']", "starts_with(payload, 'GET')"),
    ("TCP_data LIKE 'GET %'", "payload LIKE 'GET %'"),
    ("TCP_data NOT LIKE '%HTTP%'", "payload NOT LIKE '%HTTP%'"),
    ("len > 41 OR str_match_start[TCP_data, 'POST']", "len > 41 OR starts_with(payload, 'POST')"),
    (
        "CASE WHEN TCP_data LIKE '' THEN len > 60 ELSE len < 60 END",
        "CASE WHEN payload LIKE '' THEN len > 60 ELSE len < 60 END",
    ),
    (f"str_extract_regex(TCP_data, '{HOST}') IS NULL", f"payload IS NULL OR NOT regexp_matches(payload, '{HOST}')"),
    ("srcIP & IP_VAL'255.255.255.0' = IP_VAL'10.0.0.0'", "srcIP LIKE '10.%'"),
)
SELECTED: tuple[Pair, ...] = (
    ("len * 2 - caplen", "len * 2 - caplen"),
    ("destIP", "destIP"),
    ("interface", "link"),
    ("FIN", "(flags & 1) <> 0"),
    ("CASE WHEN len > 60 THEN 'long' WHEN len > 40 THEN 'middle' END",
     "CASE WHEN len > 60 THEN 'long' WHEN len > 40 THEN 'middle' END"),
    (f"str_extract_regex(TCP_data, '{HOST}')",
     f"CASE WHEN regexp_matches(payload, '{HOST}') THEN regexp_extract(payload, '{HOST}') END"),
    ("1000 / (srcPort - 53)", "1000 // (srcPort - 53)"),
    ("ttl IS NULL", "ttl IS NULL"),
    ("CASE WHEN srcPort IS NOT NULL THEN srcPort ELSE 0.5 END",
     "CASE WHEN srcPort IS NOT NULL THEN srcPort ELSE 0.5 END::DOUBLE"),
    ("CASE WHEN len > 60 THEN to_timestamp(timestamp) END",
     "CASE WHEN len > 60 THEN timestamp // 1000 END"),
    ("date_trunc('month', timestamp)", "epoch_us(date_trunc('month', make_timestamp(timestamp // 1000)))"),
    ("extract(hour FROM timestamp)", "extract(hour FROM make_timestamp(timestamp // 1000))"),
)  # fmt: skip
KEYS: tuple[Pair, ...] = (
    ("srcIP", "srcIP"),
    ("destPort", "destPort"),
    ("interface", "link"),
    ("len / 50", "len // 50"),
    ("extract(second FROM timestamp)", "extract(second FROM make_timestamp(timestamp // 1000))"),
    ("date_part('dow', time)", "dayofweek(make_timestamp(timestamp // 1000))"),
    (
        f"str_extract_regex(TCP_data, '{HOST}')",
        f"CASE WHEN regexp_matches(payload, '{HOST}') THEN regexp_extract(payload, '{HOST}') END",
    ),
    ("CASE WHEN TCP_data LIKE 'GET%' THEN 1 ELSE ttl END", "CASE WHEN payload LIKE 'GET%' THEN 1 ELSE ttl END"),
)
EPOCHS: tuple[Pair, ...] = (
    ("time/10", "time // 10"),
    ("time/3*3", "time // 3 * 3"),
    ("timestamp_ms/2500", "timestamp // 1000000 // 2500"),
    ("-(time/4)", "-(time // 4)"),
    ("7 - time/5", "7 - time // 5"),
    ("(time - 1767225607)/7", "trunc((time - 1767225607) / 7)::BIGINT"),
    ("time", "time"),
)
_AT = "make_timestamp(timestamp // 1000)"
MOMENTS: tuple[Pair, ...] = (
    ("time_bucket(INTERVAL '7 seconds', timestamp)", f"epoch_us(time_bucket(INTERVAL 7 SECOND, {_AT}))"),
    (
        "time_bucket(time, INTERVAL '2500 ms')",
        f"epoch_us(time_bucket(INTERVAL 2500 MILLISECOND, date_trunc('second', {_AT})))",
    ),
    ("date_trunc('minute', timestamp_ms)", f"epoch_us(date_trunc('minute', {_AT}))"),
    ("CAST(time AS TIMESTAMP) - INTERVAL '5 s'", f"epoch_us(date_trunc('second', {_AT})) - 5000000"),
)
"""Epochs that are instants."""
# Numbers near the end of 64 bits, of both signs: what leaves them is NULL (V2), and so is no argument.
HUGE = "len * 120000000000000000 - srcPort * 900000000000000"
_PARTS = ("len::HUGEINT * 120000000000000000", "srcPort::HUGEINT * 900000000000000")
_WITHIN = "abs({}) < 9223372036854775808".format
HUGE_SQL = (
    f"CASE WHEN {' AND '.join(_WITHIN(part) for part in (*_PARTS, ' - '.join(_PARTS)))} THEN {' - '.join(_PARTS)} END"
)
AGGREGATES: tuple[Pair, ...] = (
    ("count(*)", "count(*)"),
    ("count(srcPort)", "count(srcPort)"),
    ("sum(len)", "sum(len)::BIGINT"),
    ("sum(srcPort)", "sum(srcPort)::BIGINT"),
    ("min(ttl)", "min(ttl)"),
    ("max(destIP)", "max(destIP)"),
    ("min(to_timestamp(timestamp))", "min(timestamp // 1000)"),
    ("avg(srcPort)", "avg(srcPort)"),
    (f"avg({HUGE})", f"avg({HUGE_SQL})"),
    (f"max({HUGE})", f"max({HUGE_SQL})::BIGINT"),
    ("sum(len)/count(*)", "sum(len)::BIGINT // count(*)"),
    ("sum(CASE WHEN SYN THEN 1 ELSE 0 END)", "sum(CASE WHEN (flags & 2) <> 0 THEN 1 ELSE 0 END)::BIGINT"),
    ("or_aggr(flags)", "bit_or(flags)"),
    ("and_aggr(len)", "bit_and(len)"),
    ("xor_aggr(srcPort)", "bit_xor(srcPort)"),
    ("or_aggr(SYN)", "bool_or((flags & 2) <> 0)"),
    ("sum_modulo(len, 7)", "sum(len)::BIGINT % 7"),
    ("squares(srcPort)", "coalesce(sum(srcPort * srcPort), 0)::BIGINT"),
)
WHOLE: tuple[Pair, ...] = (
    ("count(DISTINCT srcIP)", "count(DISTINCT srcIP)"),
    ("max(TCP_data)", "max(payload)"),
    ("FIRST(len)", "first(len ORDER BY timestamp, link, position)"),
    ("LAST(srcPort)", "last(srcPort ORDER BY timestamp, link, position) FILTER (srcPort IS NOT NULL)"),
    ("median_of(len)", "quantile_disc(len, 0.5)"),
    (f"extr_avg({HUGE})", f"avg({HUGE_SQL})"),
    ("CAT_aggr(':', interface)", "string_agg(link, ':' ORDER BY timestamp, link, position)"),
    (
        "sum(IF(TCP_data LIKE 'GET%', len, 0))",
        "sum(CASE WHEN payload IS NULL THEN NULL WHEN payload LIKE 'GET%' THEN len ELSE 0 END)::BIGINT",
    ),
    ("stddev_samp(len)", "stddev_samp(len)"),
    ("var_pop(srcPort)", "var_pop(srcPort)"),
    ("quantile_cont(len, 0.3)", "quantile_cont(len, 0.3)"),
    ("arg_max(srcPort, len)", "arg_max(srcPort, row(len, -srcPort))"),
)
