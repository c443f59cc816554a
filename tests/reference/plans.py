"""Plans built by hand, each beside the SQL that says the same over the admitted packets."""

from __future__ import annotations

from dataclasses import dataclass

from lowwater.plan.operators import Group, JoinKind, Map, Node
from tests.planmaker import SECOND, column, group, join, neg, op, packet, select, sides, source, union

SQL_KINDS = {JoinKind.INNER: "INNER", JoinKind.LEFT: "LEFT", JoinKind.RIGHT: "RIGHT", JoinKind.OUTER: "FULL"}
SAME = "IS NOT DISTINCT FROM"


@dataclass(frozen=True)
class Case:
    plan: Node
    sql: str


def selection() -> Case:
    where = op(op(packet("len"), ">", 70), "AND", op(packet("srcPort"), "<>", 2))
    items = {"timestamp": packet("timestamp"), "ip": packet("srcIP"), "link": packet("interface"), "id": packet("id")}
    plan = select("s", source("s", "main1", "main2", protocol="UDP"), items, where)
    sql = """SELECT timestamp, srcIP, link, id FROM packets
             WHERE link <> 'control' AND protocol = 17 AND srcPort >= 0 AND len > 70 AND srcPort <> 2"""
    return Case(plan, sql)


def flows(query: str, links: tuple[str, ...], port: str, seconds: int = 10) -> Group:
    keys = {"tb": op(packet("time"), "/", seconds), "port": packet(port)}
    return group(query, source(query, *links), keys, {"cnt": ("count", None)})


def flows_sql(links: tuple[str, ...], port: str, seconds: int = 10) -> str:
    names = ", ".join(f"'{link}'" for link in links)
    where = f"WHERE link IN ({names})"
    return f"SELECT time // {seconds} AS tb, {port} AS port, count(*) AS cnt FROM packets {where} GROUP BY ALL"


def aggregation() -> Case:
    below = source("a", "control", "main1", "main2")
    keys = {"tb": op(op(packet("time"), "+", 3), "/", 10), "ip": packet("srcIP")}
    over = {"cnt": ("count", None), "total": ("sum", packet("len"))}
    over |= {"least": ("min", packet("srcPort")), "most": ("max", packet("srcIP")), "mean": ("avg", packet("destPort"))}
    plain = group("a", below, keys, over)
    items = {"t": op(op(column(plain, "tb"), "*", 10), "-", 3), **{n: column(plain, n) for n in ("ip", *over)}}
    having = op(column(plain, "cnt"), ">", 1)
    plan = group("a", below, keys, over, op(packet("len"), "<", 105), having, items)
    sql = """SELECT (time + 3) // 10 * 10 - 3, srcIP, count(*), sum(len), min(srcPort), max(srcIP),
                    sum(destPort)::DOUBLE / nullif(count(destPort), 0)
             FROM packets WHERE len < 105 GROUP BY (time + 3) // 10, srcIP HAVING count(*) > 1"""
    return Case(plan, sql)


def two_clocks() -> Case:
    keys = {"tb": op(packet("time"), "/", 10), "fine": op(packet("timestamp"), "/", 2_500_000_000)}
    plan = group("t", source("t", "main1", "control"), keys, {"cnt": ("count", None)})
    sql = """SELECT time // 10, timestamp // 2500000000, count(*) FROM packets
             WHERE link <> 'main2' GROUP BY ALL"""
    return Case(plan, sql)


def decreasing() -> Case:
    keys = {"down": op(neg(packet("time")), "/", 10), "port": packet("srcPort")}
    plan = group("d", source("d", "main1", "main2"), keys, {"total": ("sum", packet("len"))})
    sql = "SELECT -(time // 10), srcPort, sum(len) FROM packets WHERE link <> 'control' GROUP BY ALL"
    return Case(plan, sql)


def merged() -> Case:
    """Aggregates of two link sets merged, then aggregated again: the union must not close an epoch early."""
    branches = [flows("m1", ("main1",), "srcPort"), flows("m2", ("main2", "control"), "destPort", 10)]
    below = union("m", *branches)
    keys = {"minute": op(column(below, "tb"), "/", 6), "port": column(below, "port")}
    plan = group("g", below, keys, {"cnt": ("sum", column(below, "cnt")), "rows": ("count", None)})
    both = f"{flows_sql(('main1',), 'srcPort')} UNION ALL {flows_sql(('main2', 'control'), 'destPort')}"
    return Case(plan, f"SELECT tb // 6, port, sum(cnt), count(*) FROM ({both}) GROUP BY ALL")


def equality(kind: JoinKind) -> Case:
    left, right = flows("l", ("main1",), "srcPort"), flows("r", ("main2", "control"), "destPort")
    c = sides(left, right)
    items = {"tb": c["A.tb"], "tb2": op(c["B.tb"], "*", 10), "port": c["A.port"], "a": c["A.cnt"], "b": c["B.cnt"]}
    residual = op(c["A.cnt"], "<=", op(c["B.cnt"], "+", 1))
    plan = join("j", kind, left, right, (c["A.tb"], c["B.tb"]), items, (0, 0), [(c["A.port"], c["B.port"])], residual)
    sql = f"""SELECT coalesce(A.tb, B.tb), coalesce(A.tb, B.tb) * 10, coalesce(A.port, B.port), A.cnt, B.cnt
              FROM ({flows_sql(("main1",), "srcPort")}) A {SQL_KINDS[kind]} JOIN
                   ({flows_sql(("main2", "control"), "destPort")}) B
              ON A.tb = B.tb AND A.port {SAME} B.port AND A.cnt <= B.cnt + 1"""
    return Case(plan, sql)


def scaled(kind: JoinKind) -> Case:
    left, right = flows("l", ("main1",), "srcPort", 20), flows("r", ("main1", "main2"), "srcPort", 10)
    c = sides(left, right)
    items = {name: c[name] for name in ("A.tb", "B.tb", "A.port", "B.port", "A.cnt", "B.cnt")}
    on = (op(c["A.tb"], "*", 2), c["B.tb"])
    plan = join("j", kind, left, right, on, items, (0, 0), [(c["A.port"], c["B.port"])])
    sql = f"""SELECT A.tb, coalesce(B.tb, A.tb * 2), coalesce(A.port, B.port), coalesce(A.port, B.port), A.cnt, B.cnt
              FROM ({flows_sql(("main1",), "srcPort", 20)}) A {SQL_KINDS[kind]} JOIN
                   ({flows_sql(("main1", "main2"), "srcPort", 10)}) B
              ON A.tb * 2 = B.tb AND A.port {SAME} B.port"""
    return Case(plan, sql)


def raw(query: str, *links: str, down: bool = False) -> Map:
    """Packets with their half seconds, counted downward if asked."""
    halves = op(packet("timestamp"), "/", SECOND // 2)
    items = {"half": neg(halves) if down else halves, "port": packet("srcPort"), "id": packet("id")}
    return select(query, source(query, *links), items)


def band(kind: JoinKind, below: int, above: int, down: bool = False, ports: bool = True) -> Case:
    left, right = raw("l", "main1", down=down), raw("r", "main2", "control", down=down)
    c = sides(left, right)
    items = {name: c[name] for name in ("A.half", "B.half", "A.port", "A.id", "B.id")}
    equal = [(c["A.port"], c["B.port"])] if ports else []
    plan = join("b", kind, left, right, (c["A.half"], c["B.half"]), items, (below, above), equal)
    half = ("-" if down else "") + "(timestamp // 500000000)"
    table = f"SELECT {half} AS half, srcPort AS port, id FROM packets WHERE link"
    shown = "coalesce(A.port, B.port)" if ports else "A.port"
    tie = f"AND A.port {SAME} B.port" if ports else ""
    on = f"A.half - {below} <= B.half AND B.half <= A.half + {above} {tie}"
    sql = f"SELECT A.half, B.half, {shown}, A.id, B.id FROM l A {SQL_KINDS[kind]} JOIN r B ON {on}"
    if kind is JoinKind.OUTER:  # a full join by inequality, spelled out
        sql = f"""SELECT A.half, B.half, {shown}, A.id, B.id FROM l A LEFT JOIN r B ON {on} UNION ALL
                  SELECT NULL, B.half, {"B.port" if ports else "NULL"}, NULL, B.id FROM r B
                  WHERE NOT EXISTS (SELECT 1 FROM l A WHERE {on})"""
    return Case(plan, f"WITH l AS ({table} = 'main1'), r AS ({table} <> 'main1') {sql}")


def chain(kind: JoinKind) -> Case:
    """Aggregation, join, aggregation; a row dropped or made early below shows above."""
    below = equality(kind)
    top = below.plan
    keys = {"long": op(column(top, "tb"), "/", 3)}
    over = {"rows": ("count", None), "a": ("sum", column(top, "a")), "b": ("max", column(top, "b"))}
    plan = group("c", top, keys, over)
    sql = f"SELECT tb // 3, count(*), sum(a), max(b) FROM ({below.sql}) AS j(tb, tb2, port, a, b) GROUP BY ALL"
    return Case(plan, sql)


def self_join() -> Case:
    """One query read twice: its operator has two consumers, its packets are counted once."""
    both = flows("f", ("main1", "main2"), "srcPort")
    c = sides(both, both)
    items = {name: c[name] for name in ("A.tb", "A.port", "A.cnt", "B.tb", "B.cnt")}
    on = (c["A.tb"], op(c["B.tb"], "+", 1))
    plan = join("j", JoinKind.LEFT, both, both, on, items, (0, 0), [(c["A.port"], c["B.port"])])
    table = flows_sql(("main1", "main2"), "srcPort")
    sql = f"""WITH f AS ({table}) SELECT A.tb, A.port, A.cnt, B.tb, B.cnt
              FROM f A LEFT JOIN f B ON A.tb = B.tb + 1 AND A.port {SAME} B.port"""
    return Case(plan, sql)


CASES = {
    "selection": selection(),
    "aggregation": aggregation(),
    "two_clocks": two_clocks(),
    "decreasing": decreasing(),
    "merged": merged(),
    **{f"equality_{kind.name}": equality(kind) for kind in JoinKind},
    "scaled_INNER": scaled(JoinKind.INNER),
    "scaled_OUTER": scaled(JoinKind.OUTER),
    **{f"band_{kind.name}": band(kind, 6, 20) for kind in JoinKind},
    "band_ahead": band(JoinKind.OUTER, -4, 30, ports=False),
    "band_behind": band(JoinKind.LEFT, 30, -4),
    "band_down": band(JoinKind.OUTER, 6, 20, down=True),
    "chain_OUTER": chain(JoinKind.OUTER),
    "chain_LEFT": chain(JoinKind.LEFT),
    "self_join": self_join(),
}
