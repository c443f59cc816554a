"""Goldens of the query sets in `queries/` and `queries/seeds/`: packets in and rows out."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lowwater.catalog.user_functions import load_functions
from lowwater.config import Config, Link
from lowwater.gsql.declarations import parse_declarations
from lowwater.plan.context import Context, Links
from lowwater.plan.queryset import Plan, plan_files, plan_texts
from lowwater.replay.progress import Progress
from lowwater.replay.run_command import RunRequest, run
from tests.replay import seed_drawings
from tests.replay.drawings import write_captures

if TYPE_CHECKING:
    from lowwater.high.runner import Runner

ROOT = Path(__file__).resolve().parents[2]
QUERIES = ROOT / "queries"
GOLDEN = ROOT / "tests" / "golden"
LINKS = ("control", "main1", "main2")
SETS: dict[str, tuple[str, ...]] = {"main0_and_control": ("main1", "control")}
SEED_SETS: dict[str, tuple[str, ...]] = {"main0_and_control": ("main0", "control")}
DUPLICATES = ROOT / "examples" / "functions" / "duplicates.fun"
BEGIN = 1_000_000
"""Second 0 of the drawings, seconds since the epoch: bucket 100000 of ten seconds begins there."""

# Of main1: two packets in one bucket, one in the next by 9.9 s, one exactly as late as the skew of 1 s, and one later,
# which is refused. ARP is no DataProtocol; ICMP has no ports; the same flow on two links is one group.
FLOWS = """
main1    0.5  tcp  10.0.0.1:1024 > 10.0.0.2:80  SYN
main1    2    tcp  10.0.0.1:1024 > 10.0.0.2:80  ACK data=10
main2    2.5  tcp  10.0.0.1:1024 > 10.0.0.2:80  ACK data=10
control  3    arp
control  4    icmp 10.0.0.9 > 10.0.0.2
main1   10.5  udp  10.0.0.1:5353 > 10.0.0.2:53  data=4
main1    9.5  tcp  10.0.0.1:1024 > 10.0.0.2:80  FIN ACK
main1    9.4  tcp  10.0.0.1:1024 > 10.0.0.2:80  RST
main2   12    udp  [2001:db8::1]:5353 > [2001:db8::2]:53  data=4
control 31    tcp  10.0.0.1:1024 > 10.0.0.2:80  ACK
"""

FULL_FLOW = seed_drawings.BESIDE.replace("main1", "main2").replace("main0", "main1")
"""The packets of the paper's join, on the links of the demo."""

# Answered in the same second; answered after exactly three; answered after 3.05; answered before it was asked, which is
# no answer; a SYN with another acknowledgement; one that nobody answers; one answered after 3.8, which is three whole
# seconds of `time`.
HANDSHAKES = """
main1  0.5  tcp  10.0.0.1:1001 > 10.0.0.2:80  SYN seq=10
main2  0.6  tcp  10.0.0.2:80 > 10.0.0.1:1001  SYN ACK seq=90 ack=11
main1  2.9  tcp  10.0.0.1:1002 > 10.0.0.2:80  SYN seq=20
main1  2.95 tcp  10.0.0.1:1003 > 10.0.0.2:80  SYN seq=30
main2  4.8  tcp  10.0.0.2:80 > 10.0.0.1:1004  SYN ACK seq=90 ack=41
main1  5    tcp  10.0.0.1:1004 > 10.0.0.2:80  SYN seq=40
main2  5.9  tcp  10.0.0.2:80 > 10.0.0.1:1002  SYN ACK seq=90 ack=21
main2  6    tcp  10.0.0.2:80 > 10.0.0.1:1003  SYN ACK seq=90 ack=31
main1  7    tcp  10.0.0.1:1005 > 10.0.0.2:80  SYN seq=50
main2  7.1  tcp  10.0.0.2:80 > 10.0.0.1:1005  SYN ACK seq=90 ack=52
main1  7.2  tcp  10.0.0.1:1005 > 10.0.0.2:80  ACK seq=51 ack=91
main1  9    tcp  10.0.0.1:1006 > 10.0.0.2:80  SYN seq=60
main1 10.1  tcp  10.0.0.1:1007 > 10.0.0.2:80  SYN seq=70
main2 13.9  tcp  10.0.0.2:80 > 10.0.0.1:1007  SYN ACK seq=90 ack=71
"""

# Closed, with a round trip of 50 ms and one segment that the client sends again; reset; idle, since its next segment
# comes 27 s later and begins another one, which is open where the data end.
CONVERSATIONS = """
main1  0    tcp  10.0.0.1:1024 > 10.0.0.2:80  SYN seq=10
main1  0.02 tcp  10.0.0.2:80 > 10.0.0.1:1024  SYN ACK seq=90 ack=11
main1  0.05 tcp  10.0.0.1:1024 > 10.0.0.2:80  ACK seq=11 ack=91
main1  0.1  tcp  10.0.0.1:1024 > 10.0.0.2:80  ACK seq=11 ack=91 data=5
main1  0.9  tcp  10.0.0.1:1024 > 10.0.0.2:80  ACK seq=11 ack=91 data=5
main1  1    tcp  10.0.0.2:80 > 10.0.0.1:1024  ACK seq=91 ack=16 data=7
main1  1.1  tcp  10.0.0.1:1024 > 10.0.0.2:80  FIN ACK seq=16 ack=98
main1  1.2  tcp  10.0.0.2:80 > 10.0.0.1:1024  FIN ACK seq=98 ack=17
main1  2    tcp  10.0.0.3:1025 > 10.0.0.2:80  SYN seq=5
main1  2.01 tcp  10.0.0.2:80 > 10.0.0.3:1025  RST ACK seq=0 ack=6
main1  3    tcp  10.0.0.4:1026 > 10.0.0.2:22  ACK seq=100 ack=200 data=3
main1 30    tcp  10.0.0.4:1026 > 10.0.0.2:22  ACK seq=103 ack=200 data=3
main2   30  arp
control 30  arp
"""

DRAWINGS = {
    "conversations": CONVERSATIONS,
    "demo": FULL_FLOW,
    "flows": FLOWS,
    "full_flow": FULL_FLOW,
    "handshakes": HANDSHAKES,
}
"""Packets by name of the query file; a new file in `queries/` needs an entry."""


def names() -> list[str]:
    """The query files."""
    return sorted(path.stem for path in QUERIES.glob("*.gsql"))


def seeds() -> list[str]:
    """The queries of the papers."""
    return sorted(path.stem for path in (QUERIES / "seeds").glob("*.gsql"))


def plan(name: str) -> Plan:
    """The plan of a query file over three known links and a set."""
    text = (QUERIES / f"{name}.gsql").read_text(encoding="utf-8")
    return plan_texts([(f"queries/{name}.gsql", text)], Links(LINKS, SETS))


def seed_plan(name: str, links: Sequence[str]) -> Plan:
    """The plan of a query of the papers over known links and a set."""
    catalog = load_functions([DUPLICATES], parse_declarations)
    context = Context(catalog=Context().catalog.extended(catalog))
    return plan_files(
        [QUERIES / "seeds" / f"{name}.gsql"],
        Links(tuple(links), SEED_SETS if {*SEED_SETS["main0_and_control"]} <= {*links} else {}),
        context=context,
    )


def rows_text(name: str, engine: str, runner: Runner | None = None) -> str:
    """The golden of a query file: its packets, and the rows that an engine makes of them."""
    return _text(f"queries/{name}.gsql", DRAWINGS[name], lambda links: plan(name), SETS, engine, runner)


def seed_text(name: str, engine: str, runner: Runner | None = None) -> str:
    """The golden of a query of the papers."""
    drawing = seed_drawings.DRAWINGS[name]
    return _text(f"queries/seeds/{name}.gsql", drawing, lambda links: seed_plan(name, links), SEED_SETS, engine, runner)


def _text(
    file: str,
    drawing: str,
    planned: Callable[[Sequence[str]], Plan],
    sets: dict[str, tuple[str, ...]],
    engine: str,
    runner: Runner | None,
) -> str:
    parts = [f"packets of {file}, link by link, seconds after {BEGIN}\n{drawing}"]
    with tempfile.TemporaryDirectory() as folder:
        captures = write_captures(drawing, BEGIN, Path(folder))
        links = sorted(link for link, _ in captures)
        known = {name: members for name, members in sets.items() if set(members) <= set(links)}
        config = Config(links={link: Link() for link in links}, sets=known)
        queries, out = planned(links), Path(folder) / "out"
        summary = run(RunRequest(queries, config, captures, out, engine=engine), Progress(quiet=True), runner)
        for query in queries.queries:
            parts.append(f"rows of {query.name}\n\n{(out / f'{query.name}.csv').read_text(encoding='utf-8')}")
    refused = {link: counts["violating"] for link, counts in summary["links"].items()}
    parts.append("refused as later than the skew: " + ", ".join(f"{link} {n}" for link, n in refused.items()) + "\n")
    return "\n".join(parts)


def main() -> None:
    """Rewrites the goldens."""
    for folder, found, made in (("queries", names(), rows_text), ("seeds", seeds(), seed_text)):
        for name in found:
            path = GOLDEN / folder / f"{name}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(made(name, "reference"), encoding="utf-8")


if __name__ == "__main__":
    main()
