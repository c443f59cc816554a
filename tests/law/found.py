"""Cases that failed once, made small, each with its cause; `fuzz --seed N` prints them in this form."""

from __future__ import annotations

from dataclasses import replace

from tests.law.cases import Case
from tests.law.questions import Question
from tests.law.settings import Choice
from tests.law.worlds import LINKS, Packet, World

SECOND = 1_000_000_000
FIRST = 1_767_225_600 * SECOND
_EPOCH_OF_ROWS = Question(
    "q",
    "DEFINE{query_name 'q';} SELECT tb, wid, destPort, count(*), FIRST(len) FROM main1.TCP "
    "[RANGE 4 ROWS, SLIDE 4 ROWS] GROUP BY time/10 AS tb, destPort",
    "",
    "law.with_rows",
)
_LAST_OF_BRANCHES = Question(
    "q",
    "DEFINE{query_name 'q';} SELECT tb, LAST(len) FROM main2.TCP UNION main1.UDP GROUP BY time/10 AS tb "
    "CLOSING_WHEN count(*) > 3",
    "",
    "law.carried",
)


_LAST_OF_ONE_LINK = replace(
    _LAST_OF_BRANCHES, text=_LAST_OF_BRANCHES.text.replace("main2.TCP", "main1.TCP"), family="law.branches"
)


_GAPS = Question(
    "q",
    "DEFINE{query_name 'q';} SELECT wid, srcIP, count(*) FROM main1.TCP [RANGE 2 s, SLIDE 5 s, WA time] GROUP BY srcIP",
    "",
    "law.sliding",
)
_BAND = "FROM main1.TCP A, main2.TCP B WHERE A.time - 5 <= B.time AND B.time <= A.time"
_ABOVE_BAND = Question(
    "q",
    f"DEFINE{{query_name 'q';}} SELECT tb, count(*) INNER_JOIN {_BAND} GROUP BY A.time/10 AS tb",
    "",
    "law.joined_groups",
)
_OUTER_BAND = Question(
    "q",
    f"DEFINE{{query_name 'q';}} SELECT A.time AS ta, B.time AS tb, B.len OUTER_JOIN {_BAND} AND A.len = B.len",
    "",
    "law.packet_joins",
)
_ACROSS = replace(
    _LAST_OF_BRANCHES,
    text="DEFINE{query_name 'q';} SELECT tb, srcIP, count(*) FROM main1.TCP GROUP BY time/10 AS tb, srcIP "
    "CLOSING_WHEN count(*) > 9",
)
_ZEROS = replace(
    _LAST_OF_BRANCHES,
    text="DEFINE{query_name 'q';} SELECT time, -0.0 AS a, 0.0 AS b, CASE WHEN len > 60 THEN 0.0 ELSE -0.0 END AS c "
    "FROM main1.DataProtocol",
)
_EXTREMES = Question(
    "q",
    "DEFINE{query_name 'q';} SELECT tb, min(x), max(x), median_of(x) FROM zeros GROUP BY t/10 AS tb; "
    "DEFINE{query_name 'zeros'; visibility 'internal';} "
    "SELECT time AS t, CASE WHEN len > 60 THEN 0.0 ELSE -0.0 END AS x FROM [pair].DataProtocol",
    "SELECT time // 10, 0.0::DOUBLE, 0.0::DOUBLE, 0.0::DOUBLE FROM p GROUP BY 1",
)
_LIFE = "FROM told WHERE link = 'main1' AND kind = 'life'"
_FILLED = Question(
    "q",
    "DEFINE{query_name 'q';} SELECT tb, destPort, count(*) FROM [pair].TCP GROUP BY time/1 AS tb, destPort "
    "FILL (destPort IN (80))",
    f"SELECT tb, dport, coalesce(n, 0) FROM (SELECT unnest(generate_series((SELECT min(a) {_LIFE}) // {SECOND}, "
    f"((SELECT max(b) {_LIFE}) - 1) // {SECOND})) AS tb, 80 AS dport) FULL JOIN (SELECT ts // {SECOND} AS tb, dport, "
    "count(*) AS n FROM p WHERE flags IS NOT NULL GROUP BY ALL) USING (tb, dport)",
)
_NEAREST = replace(
    _LAST_OF_BRANCHES,
    text="DEFINE{query_name 'near'; visibility 'internal';} SELECT B.time AS t, A.destPort AS p FROM main1.TCP A "
    "JOIN main1.TCP B ON A.time = B.time AND A.destPort + 0 = B.destPort; DEFINE{query_name 'q';} SELECT B.time, B.len "
    "FROM near A ASOF JOIN main1.TCP B ON A.t - 2 <= B.time AND B.time <= A.t + 2 AND A.p = B.destPort",
)


def _world(skew: int, *packets: Packet) -> World:
    others: dict[str, tuple[Packet, ...]] = {"control": (), "main2": ()}
    return World({**others, "main1": packets}, dict.fromkeys(LINKS, skew), dict.fromkeys(LINKS, 0), ())


def _packet(second: float, kind: str = "tcp") -> Packet:
    return Packet(FIRST + int(second * SECOND), kind, "10.0.0.1", "10.0.0.9", 80, 53, 16, b"GET nothing", 64, 0)


def _choice(interval: int, order: int | None) -> Choice:
    slow = (900 * SECOND, 1)
    return Choice(
        interval, interval, order, SECOND, "periodic", 65_536, 1 << 22, 1024, False, "immediate", slow, 1, True
    )


def _ticking() -> Choice:
    return replace(_choice(60 * SECOND, None), pace=(SECOND, 64))


def _shared() -> Choice:
    """With several shares of a slice."""
    choices = (replace(_ticking(), partitions=number) for number in range(1, 99))
    return next(each for each in choices if each.shares > 1)


def _both(skew: int, *seconds: float, apart: float = 0) -> World:
    others = tuple(_packet(at + apart) for at in seconds)
    return replace(
        _world(skew), packets={"control": (), "main1": tuple(_packet(at) for at in seconds), "main2": others}
    )


FOUND: dict[str, Case] = {
    # The read range was that of the epoch, so an interval without the state before it numbered rows from its own start.
    "an epoch of the clock over numbers of rows": Case(
        _world(3 * SECOND, *(_packet(at) for at in (0, 1, 45.6, 90, 127))), (_EPOCH_OF_ROWS,), _choice(60 * SECOND, 12)
    ),
    # By arrival an epoch of the clock ends a skew later, which was behind the last interval of the run.
    "the last epoch of the clock by arrival": Case(
        _world(3 * SECOND, _packet(381.9)), (_EPOCH_OF_ROWS,), _choice(3 * SECOND, None)
    ),
    # Each LFTA numbered its own links, so that at one instant the branch with fewer packets before came first.
    "packets of two links at one instant, by two branches": Case(
        replace(
            _world(0),
            packets={"control": (), "main1": tuple(_packet(at, "udp") for at in (0, 1, 5)), "main2": (_packet(5),)},
        ),
        (_LAST_OF_BRANCHES,),
        _choice(60 * SECOND, None),
    ),
    # The numbers of two LFTAs of one link say nothing of each other: the last packet is the one of TCP.
    "packets of one link at one instant, by two branches": Case(
        _world(0, *(_packet(at, "udp") for at in (0, 1, 5)), _packet(5)),
        (_LAST_OF_ONE_LINK,),
        _choice(60 * SECOND, None),
    ),
    # Promises were made at multiples of the slide only, so a window that ended between two of them came at the next.
    "a window that ends between two multiples of the slide": Case(
        _world(SECOND, *(_packet(at) for at in (0, 6.5, 30))), (_GAPS,), _ticking()
    ),
    # The promise of a band join trails by its reach, which the last instant of a row has in it already.
    "a group above a band join": Case(_both(SECOND, 6.5, 40), (_ABOVE_BAND,), _ticking()),
    "what has no partner in a band join": Case(_both(SECOND, 6.5, 40, apart=7), (_OUTER_BAND,), _ticking()),
    # Rows waited for the end of their epoch of the clock, although the last row of their window had let them go.
    "a window of rows that is full before its epoch of the clock ends": Case(
        _world(0, *(_packet(at) for at in (0, 0.1, 0.2, 0.3, 0.4, 30))), (_EPOCH_OF_ROWS,), _ticking()
    ),
    # The comparison of ticks was wrong: a row of the state before an interval may wait for its bucket's promise.
    "a bucket that lies across the border of intervals": Case(
        _world(SECOND, _packet(1)), (_ACROSS,), replace(_ticking(), interval=6 * SECOND, long=6 * SECOND)
    ),
    # Constants that are equal were taken for one, so the signs of all zeros were those of the first.
    "a zero and a negative one": Case(_world(0, _packet(1), _packet(2, "udp")), (_ZEROS,), _choice(60 * SECOND, None)),
    # Each engine gave the zero that it met first, in an order of its own.
    "the least and the largest of zeros": Case(
        replace(_world(0), packets={"control": (), "main1": (_packet(2),), "main2": (_packet(1, "udp"), _packet(3))}),
        (_EXTREMES,),
        _choice(60 * SECOND, None),
    ),
    # The stage below FILL began with its first row, so that epochs without rows before it waited for that one.
    "epochs without rows before the first one of a stage": Case(
        _world(SECOND, _packet(0, "udp"), _packet(56)), (_FILLED,), _shared()
    ),
    # Rows that are exchanged have columns only, so that of two packets of one second any was the nearest.
    "the first of two nearest packets, beside rows of other shares": Case(
        _world(SECOND, replace(_packet(0), data=b"the longer one, which comes first"), _packet(0.3)),
        (_NEAREST,),
        _shared(),
    ),
}
