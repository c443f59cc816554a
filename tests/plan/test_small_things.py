"""What somebody types who comes from SQL, DuckDB or tshark: it works, or is refused with the word that does it."""

from __future__ import annotations

import pytest

from lowwater.errors import QueryError
from lowwater.plan.context import Context, Links
from lowwater.plan.queryset import plan_texts

LINKS = Links(("main1", "main2"))
MINUTE = "time_bucket(INTERVAL '1 minute', timestamp)"


def of_groups(item: str, more: str = "") -> str:
    return f"SELECT {MINUTE} AS tb, {item} AS x FROM TCP GROUP BY tb{more}"


WORKS = [
    # expressions of a packet
    *(
        f"SELECT timestamp, {item} AS x FROM main1.TCP"
        for item in (
            "coalesce(vlan_id, 0)",
            "ifnull(vlan_id, 0)",
            "nullif(destPort, 80)",
            "abs(srcPort - destPort)",
            "mod(len, 7)",
            "len % 7",
            "greatest(srcPort, destPort)",
            "least(srcPort, destPort, 1024)",
            "round(ttl)",
            "round(len*0.1, 2)",
            "lower('GET')",
            "upper('get')",
            "length('abc')",
            "substr('abcdef', 2, 3)",
            "concat('a', 'b')",
            "'a' || 'b'",
            "CAST(len AS DOUBLE)",
            "CAST(len AS BIGINT)",
            "CAST(timestamp AS TIMESTAMP)",
            "date_trunc('hour', timestamp)",
            "extract(hour FROM timestamp)",
            "date_part('minute', timestamp)",
            "CASE WHEN SYN THEN 1 ELSE 0 END",
            "CASE destPort WHEN 80 THEN 'http' ELSE 'other' END",
            "frame.len",
            "ip.src",
            "tcp.srcport",
            "tcp.flags.syn",
            "tcp.len",
            "ip.id",
            "dns.qry.name",
            "http.request.method",
            "lag(len) OVER (PARTITION BY srcIP ORDER BY timestamp)",
            "row_number() OVER (ORDER BY timestamp)",
            "sum(len) OVER (PARTITION BY srcIP ORDER BY timestamp)",
            "sqrt(len)",
            "ceil(len*0.1)",
            "floor(len*0.1)",
            "len BETWEEN 60 AND 100",
            "-len",
            "NOT SYN",
            "SYN = TRUE",
            "srcIP = destIP",
        )
    ),
    # conditions
    *(
        f"SELECT timestamp FROM main1.TCP WHERE {condition}"
        for condition in (
            "srcIP = '10.0.0.1'",
            "srcIP <<= '10.0.0.0/8'",
            "srcIP IN ('10.0.0.1', '10.0.0.2')",
            "protocol = 'tcp'",
            "destPort NOT IN (80, 443)",
            "vlan_id IS NULL",
            "vlan_id IS NOT NULL",
            "srcPort IS DISTINCT FROM 80",
            "srcPort IS NOT DISTINCT FROM 80",
            "srcPort != 80",
            "srcPort <> 80",
            "http_uri LIKE '/a%'",
            "http_uri ILIKE '/A%'",
            "http_uri NOT LIKE '%.css'",
            "NOT (SYN AND ACK)",
            "SYN OR RST",
            "CAST(timestamp AS TIMESTAMP) < '2026-01-02T00:00:00Z'",
            "tcp.dstport = 443",
            "tcp.flags.reset",
            "frame.len > 1000",
        )
    ),
    # aggregates
    *map(
        of_groups,
        (
            "count(*)",
            "count(vlan_id)",
            "count(DISTINCT srcIP)",
            "sum(len)",
            "avg(len)",
            "mean(len)",
            "min(len)",
            "max(len)",
            "stddev(len)",
            "stddev_pop(len)",
            "variance(len)",
            "var_pop(len)",
            "any_value(srcIP)",
            "arg_max(srcIP, len)",
            "arg_min(srcIP, len)",
            "string_agg('a', ',')",
            "bool_or(SYN)",
            "bool_and(ACK)",
            "quantile_cont(len, 0.95)",
            "percentile_cont(0.95) WITHIN GROUP (ORDER BY len)",
            "percentile_disc(0.5) WITHIN GROUP (ORDER BY len)",
            "count(*) FILTER (WHERE SYN)",
            "sum(len) FILTER (WHERE destPort = 443)",
            "count(*) - lag(count(*)) OVER (ORDER BY tb)",
            "sum(SYN)",
        ),
    ),
    # clauses
    f"SELECT {MINUTE} AS tb, srcIP, count(*) AS n FROM TCP GROUP BY 1, 2",
    f"SELECT {MINUTE} AS tb, srcIP, count(*) AS n FROM TCP GROUP BY ALL",
    f"SELECT {MINUTE} AS tb, srcIP, count(*) AS n FROM TCP GROUP BY tb, srcIP HAVING n > 10",
    f"SELECT {MINUTE} AS tb, srcIP, count(*) AS n FROM TCP GROUP BY tb, srcIP ORDER BY n DESC LIMIT 10",
    f"SELECT {MINUTE} AS tb, srcIP, count(*) AS n FROM TCP GROUP BY 1, 2 ORDER BY 3 DESC NULLS LAST LIMIT 1 WITH TIES",
    f"SELECT {MINUTE} AS tb, srcIP, count(*) AS n FROM TCP GROUP BY ALL\n"
    "QUALIFY row_number() OVER (PARTITION BY tb ORDER BY n DESC) <= 3",
    f"SELECT {MINUTE} AS tb, srcIP, count(*) AS n, lag(count(*)) OVER (PARTITION BY srcIP ORDER BY tb) AS before\n"
    "FROM TCP GROUP BY tb, srcIP ORDER BY n DESC LIMIT 10",
    f"SELECT {MINUTE} AS tb, count(*) AS n FROM TCP GROUP BY tb FILL",
    f"SELECT DISTINCT {MINUTE} AS tb, srcIP FROM TCP",
    "SELECT * FROM main1.TCP",
    "SELECT time, srcIP FROM TCP UNION ALL UDP",
    "SELECT Q.timestamp FROM DNS Q ASOF JOIN DNS A\n"
    "ON Q.dns_id = A.dns_id AND A.timestamp BETWEEN Q.timestamp AND Q.timestamp + 2 s",
    "SELECT a.timestamp FROM main1.TCP a ANTI JOIN main2.TCP b ON a.id = b.id AND b.time - a.time BETWEEN 0 AND 1",
    "SELECT a.timestamp FROM main1.TCP a SEMI JOIN main2.TCP b ON a.id = b.id AND b.time - a.time BETWEEN 0 AND 1",
    "SELECT a.timestamp FROM main1.TCP a\n"
    "WHERE NOT EXISTS (SELECT * FROM main2.TCP b WHERE a.id = b.id AND a.time = b.time)",
    "SELECT time, a.len FROM main1.TCP a JOIN main2.TCP b USING (time, id)",
    f"WITH m AS (SELECT {MINUTE} AS tb, count(*) AS n FROM TCP GROUP BY tb) SELECT tb, n FROM m WHERE n > 5",
    f"SELECT tb, n FROM (SELECT {MINUTE} AS tb, count(*) AS n FROM TCP GROUP BY tb) AS m WHERE n > 5",
    "SELECT Q.timestamp FROM DNS Q ASOF ONCE LEFT JOIN DNS A\n"
    "ON Q.dns_id = A.dns_id AND A.timestamp BETWEEN Q.timestamp AND Q.timestamp + 2 s",
]

BEFORE = "EXISTS (SELECT * FROM UDP B WHERE B.srcIP = TCP.srcIP AND B.time BETWEEN TCP.time - 60 AND TCP.time"
ONE, OTHER = "SELECT time, srcIP FROM main1.TCP", "SELECT time, srcIP FROM main2.TCP"
BOTH = f"WITH a AS ({ONE}), b AS ({OTHER}) SELECT"

MINUTES = "RANGE BETWEEN INTERVAL '5 minutes' PRECEDING AND CURRENT ROW"
MINUTES = f"SELECT avg(len) OVER (ORDER BY timestamp {MINUTES}) AS m FROM TCP"

REFUSED = {
    # what is typed -> what is said to write
    of_groups("median(len)"): "write quantile_cont(len, 0.5)",
    of_groups("quantile_disc(len, 0.5)"): "write quantile_of(len, 0.5)",
    of_groups("approx_quantile(len, 0.5)"): "write quantile_of(len, 0.5), which is exact",
    of_groups("count_if(SYN)"): "write count(*) FILTER (WHERE SYN)",
    of_groups("list(http_host)"): "write string_agg(http_host, ',') of a text",
    of_groups("percentile_cont(0.9)"): "write percentile_cont(0.95) WITHIN GROUP (ORDER BY x)",
    of_groups("percentile_cont(len, 0.9)"): "write percentile_cont(0.95) WITHIN GROUP (ORDER BY len)",
    of_groups("percentile_disc(0.9) WITHIN GROUP (ORDER BY len DESC)"): "count from the other end: 0.05 for 0.95",
    of_groups("string_agg('a', ',') WITHIN GROUP (ORDER BY len)"): "string_agg joins in the order of time",
    of_groups("max_by(srcIP, len)"): "write arg_max(srcIP, len)",
    "SELECT count(*) AS n FROM TCP": "GROUP BY",
    "SELECT srcIP, count(*) AS n FROM TCP GROUP BY srcIP": "time",
    f"SELECT {MINUTE} AS tb, srcIP, count(*) AS n FROM TCP GROUP BY tb": "add srcIP to GROUP BY",
    "SELECT timestamp FROM TCP ORDER BY len": "LIMIT",
    "SELECT timestamp FROM TCP LIMIT 5": "ORDER BY count(*) DESC LIMIT 10",
    "SELECT timestamp FROM TCP ORDER BY len LIMIT 5": "write of what: LIMIT 5 PER time/60",
    "SELECT timestamp FROM TCP WHERE srcIP LIKE '10.%'": "<<= '10.0.0.0/8'",
    "SELECT timestamp FROM TCP WHERE srcIP = '10.0.0.0/8'": "<<= '10.0.0.0/8'",
    "SELECT timestamp FROM TCP WHERE srcIP IN (SELECT srcIP FROM UDP)": f"write {BEFORE}), of a minute before",
    "WITH RECURSIVE a AS (SELECT time FROM a) SELECT time FROM a": "each reads the one before",
    "SELECT DISTINCT ON (srcIP) srcIP, destIP FROM TCP": "row_number() OVER (PARTITION BY time/60, srcIP",
    "SELECT time // 60 AS minute, len\nFROM TCP": "write a/60",
    "SELECT timestamp::date AS d FROM TCP": "date_trunc('day', timestamp)",
    "SELECT srcIP FROM TCP EXCEPT SELECT srcIP FROM UDP": "ANTI JOIN",
    "SELECT srcIP FROM TCP INTERSECT SELECT srcIP FROM UDP": "SEMI JOIN",
    "PIVOT TCP ON destPort USING sum(len)": "FILTER (WHERE",
    "SELECT * FROM HTTP WHERE http_host ~ '^www'": "str_regex_match[http_host, '^www']",
    "SELECT left(http_host, 3) AS x FROM HTTP": "str_truncate(http_host, 3)",
    "SELECT replace(http_host, 'a', 'b') AS x FROM HTTP": "`lowwater sql` has it",
    "SELECT time FROM TCP WHERE timestamp > now()": "a query has no now",
    "SELECT len FROM TCP WHERE timestamp BETWEEN '2024-01-01' AND '2024-01-02'": "CAST(timestamp AS TIMESTAMP) BETWEEN",
    "SELECT timestamp AT TIME ZONE 'Europe/Berlin' FROM TCP": "local_day(time, 'Europe/Berlin')",
    "SELECT time FROM TCP QUALIFY row_number() OVER (PARTITION BY srcIP ORDER BY len) = 1": "to PER or PARTITION BY",
    "SELECT time FROM TCP WHERE protocl = 6": "did you mean protocol?",
    "SELECT timee FROM TCP": "did you mean time?",
    "SELECT time FROM TPC": "did you mean TCP?",
    "SELECT time FROM main3.TCP": "main",
    "SELECT lead(len) OVER (ORDER BY timestamp) AS n FROM TCP": "write lag(x)",
    "SELECT time FROM TCP WHERE SYN = 1": "SYN is a condition: write SYN",
    "SELECT strftime(timestamp, '%H') AS h FROM TCP": "CAST(timestamp AS TIMESTAMP)",
    "SELECT hour(timestamp) AS h FROM TCP": "write extract(hour FROM timestamp)",
    "SELECT time, ln(len) AS x FROM TCP": "write log(len)",
    "SELECT time FROM TCP WHERE timestamp >= TIMESTAMP '2026-01-01T00:00:00Z'": "CAST(timestamp AS TIMESTAMP)",
    "SELECT a.time FROM main1.TCP a, main2.TCP b": "",
    "SELECT a.time FROM main1.TCP a CROSS JOIN main2.TCP b": "a join needs a temporal predicate",
    "SELECT time FROM TCP WHERE timestamp > '2026-01-01'": "",
    "SELECT CAST(len AS VARCHAR) AS x FROM TCP": "cast to BIGINT, DOUBLE or TIMESTAMP",
    "SELECT time FROM TCP WHERE ip.addr = '10.0.0.1'": "write srcIP = x OR destIP = x",
    "SELECT time FROM TCP WHERE tcp.port = 80": "write srcPort = x OR destPort = x",
    "SELECT tcp.stream FROM TCP": "`lowwater ask conversations`",
    "SELECT time FROM TCP WHERE tcp.analysis.retransmission": "`lowwater ask repeated`",
    "SELECT frame.number FROM TCP": "`lowwater sql` has position",
    # two queries with a word between them
    f"{ONE} UNION {OTHER}": f"write {BOTH} DISTINCT * FROM a UNION ALL b",
    f"{ONE} UNION ALL {OTHER}": f"write {BOTH} * FROM a UNION ALL b",
    f"{ONE} EXCEPT {OTHER}": f"write {BOTH} DISTINCT * FROM a ANTI JOIN b USING (time, srcIP)",
    f"{ONE} INTERSECT ALL {OTHER}": f"write {BOTH} DISTINCT * FROM a SEMI JOIN b USING (time, srcIP)",
    "SELECT time FROM TCP WHERE SYN AND srcIP NOT IN (SELECT srcIP FROM UDP WHERE len > 60)": (
        f"write NOT {BEFORE} AND len > 60), of a minute before"
    ),
    "SELECT T.time FROM TCP T WHERE NOT T.srcIP IN (SELECT destIP FROM UDP U WHERE U.time = T.time)": (
        "write EXISTS (SELECT * FROM UDP U WHERE U.destIP = T.srcIP AND U.time = T.time)"
    ),
    "SELECT T.time FROM TCP T, LATERAL (SELECT len FROM UDP) u": "a join pairs the rows",
    # OVER
    of_groups("ntile(4) OVER (ORDER BY tb)"): "`lowwater sql` has it",
    of_groups("count(*)*9/sum(count(*)) OVER (PARTITION BY tb)"): "write count$(*), with SUPERGROUP tb behind GROUP BY",
    "SELECT avg(len) OVER (PARTITION BY srcIP ORDER BY timestamp ROWS 4 PRECEDING) AS m FROM TCP": (
        "[RANGE 5 ROWS, SLIDE 1 ROWS, PARTITION BY srcIP]"
    ),
    MINUTES: "[RANGE 5 minutes, SLIDE 1 s, WA time]",
    "SELECT avg(len) OVER (ORDER BY timestamp ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS m FROM TCP": (
        "what comes after a row is unknown"
    ),
    "SELECT nth_value(len, 2) OVER (ORDER BY timestamp) AS m FROM TCP": "WHERE n = 2",
    "SELECT lag(len) IGNORE NULLS OVER (ORDER BY timestamp) AS m FROM TCP": "WHERE x IS NOT NULL",
    "SELECT count(DISTINCT len) OVER (ORDER BY timestamp) AS m FROM TCP": "`lowwater sql` has it",
    # conditions
    "SELECT time FROM TCP WHERE len BETWEEN SYMMETRIC 100 AND 50": "BETWEEN least(100, 50) AND greatest(100, 50)",
    "SELECT time FROM TCP WHERE (srcPort, destPort) IN ((1, 2))": "a = 1 AND b = 2",
    "SELECT time FROM TCP WHERE SYN IS NOT TRUE": "write NOT coalesce(SYN, FALSE)",
    "SELECT time FROM TCP WHERE srcPort ISNULL": "write srcPort IS NULL",
    "SELECT time FROM TCP WHERE SYN XOR ACK": "of conditions write (a) <> (b)",
    "SELECT time FROM TCP WHERE destPort = 80 OR 443": "write the comparison in full: destPort = 443",
    "SELECT time FROM TCP WHERE destPort = '80'": "without quotes: 80",
    "SELECT time FROM TCP WHERE srcIP << '10.0.0.0/8'": "write srcIP <<= '10.0.0.0/8'",
    "SELECT time FROM TCP WHERE srcIP NOT ILIKE '10.%'": "write NOT srcIP <<= '10.0.0.0/8'",
    "SELECT time FROM TCP WHERE srcMAC LIKE '02:%'": "srcMAC = '02:00:00:00:00:01'",
    'SELECT time FROM HTTP WHERE http_host = "www"': "single quotes: 'www'",
    "SELECT time FROM HTTP WHERE http_host GLOB 'w*.?'": "write http_host LIKE 'w%._'",
    "SELECT time FROM HTTP WHERE http_host NOT SIMILAR TO 'w.*'": "write NOT str_regex_match[http_host, '^(w.*)$']",
    "SELECT time FROM HTTP WHERE http_host !~* 'a'": "write NOT str_regex_match[http_host, '(?i)a']",
    "SELECT time FROM HTTP WHERE http_host LIKE 'a!_b' ESCAPE '!'": "write LIKE 'a\\_b'",
    "SELECT time FROM TCP WHERE CAST(timestamp AS TIMESTAMP) > DATE '2026-01-01'": "write TIMESTAMP '2026-01-01'",
    of_groups("count(*)", "\nHAVING x > ALL (3)"): "max(x) of the rows",
    f"SELECT {MINUTE} AS tb, count(*) AS n FROM TCP WHERE n > 3 GROUP BY tb": "HAVING behind GROUP BY",
    # values
    "SELECT substring(http_host FROM 1 FOR 3) AS x FROM HTTP": "write substr(http_host, 1, 3)",
    "SELECT ends_with(http_host, 'com') AS x FROM HTTP": "write http_host LIKE '%com'",
    "SELECT http_host || destPort AS x FROM HTTP": "a number becomes no text",
    "SELECT CAST(len AS DECIMAL(10, 2)) AS x FROM TCP": "write CAST(len AS DOUBLE)",
    "SELECT CAST(timestamp AS DATE) AS x FROM TCP": "write date_trunc('day', timestamp)",
    "SELECT date_diff('minute', time, time) AS x FROM TCP": "(time - time)/1 minute",
    "SELECT [srcPort, destPort] AS x FROM TCP": "select the columns one by one",
    of_groups("string_agg(http_host, ',' ORDER BY http_host)"): "leave ORDER BY out",
    # clauses
    "SELECT time/60 AS tb, count(*) AS n FROM TCP": "add GROUP BY ALL",
    "SELECT count(*) AS n FROM TCP GROUP BY time/60": "write time/60 AS tb",
    "SELECT time, len FROM TCP ORDER BY len LIMIT ALL": "leave ORDER BY and LIMIT out",
    "SELECT time FROM TCP USING SAMPLE 10": "DEFINE { sample '0.1'; }",
    "SELECT time FROM range(10)": "FILL",
    "SELECT * EXCEPT (len) FROM TCP": "name the columns",
    "SELECT time INTO x FROM TCP": "DEFINE { query_name 'x'; }",
    "FROM TCP": "SELECT * FROM TCP",
    "SELECT A.time FROM TCP A RIGHT ANTI JOIN UDP B ON A.time = B.time": "turn the two sources round",
    "SELECT time AS 'my time' FROM TCP": "write AS my_time",
}


def test_there_are_as_many_as_said() -> None:
    assert len(WORKS) + len(REFUSED) >= 165 and len(set(WORKS)) == len(WORKS)


@pytest.mark.parametrize("text", WORKS)
def test_it_works(text: str) -> None:
    plan_texts([("q.gsql", f"DEFINE {{ query_name 'q'; }}\n{text}\n")], LINKS, None, Context(LINKS))


@pytest.mark.parametrize("text", REFUSED)
def test_it_is_refused_with_the_word_that_does_it(text: str) -> None:
    with pytest.raises(QueryError) as refused:
        plan_texts([("q.gsql", f"DEFINE {{ query_name 'q'; }}\n{text}\n")], LINKS, None, Context(LINKS))
    hint = refused.value.hint
    assert hint and REFUSED[text] in hint, (refused.value.message, hint)


PACKETS = "SELECT time FROM TCP WHERE "
HEADS = "SELECT time FROM HTTP WHERE "


@pytest.mark.parametrize(
    ("text", "right"),
    [
        (f"{ONE} UNION {OTHER}", f"{BOTH} DISTINCT * FROM a UNION ALL b"),
        (f"{ONE} UNION ALL {OTHER}", f"{BOTH} * FROM a UNION ALL b"),
        (f"{ONE} EXCEPT {OTHER}", f"{BOTH} DISTINCT * FROM a ANTI JOIN b USING (time, srcIP)"),
        (f"{ONE} INTERSECT {OTHER}", f"{BOTH} DISTINCT * FROM a SEMI JOIN b USING (time, srcIP)"),
        (f"{PACKETS}srcIP IN (SELECT srcIP FROM UDP)", f"{PACKETS}{BEFORE})"),
        (f"{PACKETS}NOT srcIP IN (SELECT srcIP FROM UDP)", f"{PACKETS}NOT {BEFORE})"),
        (f"{PACKETS}SYN AND srcIP NOT IN (SELECT srcIP FROM UDP)", f"{PACKETS}SYN AND NOT {BEFORE})"),
        (
            "SELECT avg(len) OVER (PARTITION BY srcIP ORDER BY timestamp ROWS 4 PRECEDING) AS m FROM TCP",
            "SELECT srcIP, avg(len) AS m FROM TCP [RANGE 5 ROWS, SLIDE 1 ROWS, PARTITION BY srcIP]",
        ),
        (
            MINUTES,
            "SELECT window_start, avg(len) AS m FROM TCP [RANGE 5 minutes, SLIDE 1 s, WA time]",
        ),
        (f"{PACKETS}len BETWEEN SYMMETRIC 9 AND 5", f"{PACKETS}len BETWEEN least(9, 5) AND greatest(9, 5)"),
        (f"{PACKETS}SYN IS NOT TRUE", f"{PACKETS}NOT coalesce(SYN, FALSE)"),
        (f"{PACKETS}SYN IS FALSE", f"{PACKETS}NOT SYN"),
        (f"{PACKETS}srcPort NOTNULL", f"{PACKETS}srcPort IS NOT NULL"),
        (f"{PACKETS}destPort = 80 OR 443", f"{PACKETS}destPort = 80 OR destPort = 443"),
        (f"{PACKETS}srcIP NOT ILIKE '10.%'", f"{PACKETS}NOT srcIP <<= '10.0.0.0/8'"),
        (f"{HEADS}http_host GLOB 'w*.?'", f"{HEADS}http_host LIKE 'w%._'"),
        (f"{HEADS}http_host NOT SIMILAR TO 'w.*'", f"{HEADS}NOT str_regex_match[http_host, '^(w.*)$']"),
        (f"{HEADS}http_host REGEXP 'w.*'", f"{HEADS}str_regex_match[http_host, 'w.*']"),
        (f"{HEADS}http_host ~* 'a'", f"{HEADS}str_regex_match[http_host, '(?i)a']"),
        (f"{HEADS}http_host LIKE 'a!_b' ESCAPE '!'", f"{HEADS}http_host LIKE 'a\\_b'"),
        (f"{HEADS}ends_with(http_host, 'om')", f"{HEADS}http_host LIKE '%om'"),
        (of_groups("median(len)"), of_groups("quantile_cont(len, 0.5)")),
        (of_groups("count_if(SYN)"), of_groups("count(*) FILTER (WHERE SYN)")),
        (of_groups("max_by(srcIP, len)"), of_groups("arg_max(srcIP, len)")),
        ("SELECT left(http_host, 3) AS x FROM HTTP", "SELECT str_truncate(http_host, 3) AS x FROM HTTP"),
        ("SELECT substring(http_host FROM 2 FOR 3) AS x FROM HTTP", "SELECT substr(http_host, 2, 3) AS x FROM HTTP"),
        ("SELECT date_diff('minute', time, time) AS x FROM TCP", "SELECT (time - time)/1 minute AS x FROM TCP"),
        ("SELECT date(timestamp) AS x FROM TCP", "SELECT date_trunc('day', timestamp) AS x FROM TCP"),
    ],
)
def test_a_hint_is_made_of_the_text_that_it_answers(text: str, right: str) -> None:
    """The code in it is that of a text that plans, and nothing in it is of another question."""
    with pytest.raises(QueryError) as refused:
        plan_texts([("q.gsql", text)], LINKS, None, Context(LINKS))
    code = refused.value.hint.rpartition("write ")[2].rpartition(": ")[2].partition("), of a minute")[0]
    assert code in right, refused.value.hint
    plan_texts([("q.gsql", right)], LINKS, None, Context(LINKS))
