"""Random questions about the links of packets and about durations, as GSQL and as SQL over the packets `p`."""

from __future__ import annotations

from random import Random

from tests.law.questions import IP, SECOND, Question
from tests.plan.batch_join_questions import KINDS

SOURCES = {
    "DataProtocol": IP,
    "[main1, control].DataProtocol": f"link IN ('main1', 'control') AND {IP}",
    "main2.DataProtocol": f"link = 'main2' AND {IP}",
    "TCP": "flags IS NOT NULL",
}
CONDITIONS = {
    "link = 'main1'": "link = 'main1'",
    "NOT (link = 'main1' OR len > 60)": "NOT (link = 'main1' OR len > 60)",
    "link LIKE 'main%'": "link LIKE 'main%'",
    "link IN ['main2', 'control'] AND len > 50": "link IN ('main2', 'control') AND len > 50",
    "CASE WHEN link > 'm' THEN len > 55 ELSE srcPort = 80 END": (
        "CASE WHEN link > 'm' THEN len > 55 ELSE sport = 80 END"
    ),
    "str_match_start[link, 'con'] OR SYN": "starts_with(link, 'con') OR (flags & 2) <> 0",
    "link IS NOT NULL AND timestamp % 1 s < 500 ms": f"ts % {SECOND} < 500000000",
    "timestamp_ms % 4 sec >= 1500ms": "ts // 1000000 % 4000 >= 1500",
}
EPOCHS = {
    "time/5 s": f"ts // {SECOND} // 5",
    "timestamp/2500 ms": "ts // 2500000000",
    "(timestamp_us - 1.5 s)/4 sec": "trunc((ts // 1000 - 1500000) / 4000000)::BIGINT",
    "time/60*60 + 1 min": f"ts // {SECOND} // 60 * 60 + 60",
}
BANDS = (
    ("timestamp", 1, "2500 ms", 2_500_000_000, "0.5 s", 500_000_000),
    ("timestamp", 1, "0 s", 0, "3 s", 3_000_000_000),
    ("timestamp_us", 1_000, "1 s", 1_000_000, "1500 ms", 1_500_000),
    ("time", 1_000_000_000, "1 s", 1, "4 s", 4),
)
"""Column, ns of its unit, how far it reaches down and up, as written and as a number."""


def question(seed: int) -> Question:
    """The question of a number."""
    random = Random(f"linked {seed}")
    return random.choice((_selection, _groups, _cubes, _join, _join, _named))(random)


def _from(random: Random) -> tuple[str, str]:
    (source, member), (where, sql) = (random.choice(list(pool.items())) for pool in (SOURCES, CONDITIONS))
    return f"FROM {source} WHERE {where}", f"FROM p WHERE {member} AND ({sql})"


def _question(text: str, sql: str) -> Question:
    return Question("q", f"DEFINE{{query_name 'q';}} {text}", sql, "law.linked")


def _selection(random: Random) -> Question:
    packets, sql = _from(random)
    return _question(
        f"SELECT link, timestamp + 20 ms AS later, CASE WHEN link = 'main2' THEN len END AS c, len {packets}",
        f"SELECT link, ts + 20000000, CASE WHEN link = 'main2' THEN len END, len {sql}",
    )


def _groups(random: Random) -> Question:
    packets, sql = _from(random)
    epoch, epoch_sql = random.choice(list(EPOCHS.items()))
    having, having_sql = random.choice(
        (
            ("", "TRUE"),
            ("HAVING link <> 'main1'", "link <> 'main1'"),
            ("HAVING max(timestamp) - min(timestamp) >= 1 s", f"b - a >= {SECOND}"),
        )
    )
    port, port_sql = random.choice(((", destPort", ", dport"), ("", "")))
    return _question(
        f"SELECT tb, link{port}, count(*) AS n, max(link) AS m, sum(len) {packets} "
        f"GROUP BY {epoch} AS tb, link{port} {having}",
        f"SELECT tb, link{port_sql}, n, m, s FROM (SELECT {epoch_sql} AS tb, link{port_sql}, count(*) AS n, "
        f"max(link) AS m, sum(len)::BIGINT AS s, min(ts) AS a, max(ts) AS b {sql} GROUP BY tb, link{port_sql}) "
        f"WHERE {having_sql}",
    )


def _cubes(random: Random) -> Question:
    packets, sql = _from(random)
    shape = random.choice(("CUBE", "ROLLUP"))
    return _question(
        f"SELECT tb, link, destPort, count(*), max(len) {packets} GROUP BY time/10 s AS tb, {shape}(link, destPort)",
        f"SELECT tb, link, dport, count(*), max(len) FROM (SELECT *, ts // {SECOND} // 10 AS tb {sql}) "
        f"GROUP BY tb, {shape}(link, dport)",
    )


def _join(random: Random) -> Question:
    """A band join in which the sides are of one link, of two, or of any."""
    column, unit, down, below, up, above = random.choice(BANDS)
    kind = random.choice(("INNER_JOIN", "LEFT_OUTER_JOIN"))
    tied, tied_sql = random.choice(
        (
            ("A.link = B.link", "A.link = B.link"),
            ("A.link <> B.link", "A.link <> B.link"),
            ("A.link <= B.link AND A.link <> 'main1'", "A.link <= B.link"),
        )
    )
    band = random.choice(
        (
            f"A.{column} - {down} <= B.{column} AND B.{column} <= A.{column} + {up}",
            f"B.{column} BETWEEN A.{column} - {down} AND A.{column} + {up}",
            f"B.{column} - A.{column} >= -{down} AND B.{column} - A.{column} <= {up}",
        )
    )
    left = " AND link <> 'main1'" if "<>" in tied and "<=" in tied else ""
    side = f"SELECT *, ts // {unit} AS t FROM p WHERE"
    return _question(
        f"SELECT A.time AS ta, B.time AS tb, A.link AS la, B.link AS lb, A.len AS na, B.len AS nb {kind} "
        f"FROM TCP A, [main1, main2].DataProtocol B WHERE {band} AND {tied} AND A.destPort = B.destPort",
        f"SELECT A.ts // {SECOND}, B.ts // {SECOND}, A.link, B.link, A.len, B.len "
        f"FROM ({side} flags IS NOT NULL{left}) A {KINDS[kind]} ({side} link IN ('main1', 'main2') AND {IP}) B "
        f"ON B.t - A.t BETWEEN -{below} AND {above} AND {tied_sql} AND A.dport IS NOT DISTINCT FROM B.dport",
    )


def _named(random: Random) -> Question:
    """A column `link` that a query selected, merged and grouped above, where nothing is folded any more."""
    packets, sql = _from(random)
    below = f"DEFINE{{query_name 'qb'; visibility 'internal';}} SELECT time, link, len {packets};\n"
    found = _question(
        "SELECT tb, link, count(*), sum(len) FROM qb WHERE link <> 'control' GROUP BY time/10 s AS tb, link",
        f"SELECT ts // {SECOND} // 10 AS tb, link, count(*), sum(len)::BIGINT FROM (SELECT * {sql}) "
        "WHERE link <> 'control' GROUP BY tb, link",
    )
    return Question("q", below + found.text, found.sql, found.family)
