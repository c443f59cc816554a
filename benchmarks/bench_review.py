"""Seconds of the pages, and memory of their server, over a year of hours of many links and a table of many rows.

`--links 30 --rows 50000000` makes the lake in some minutes; `--lake DIR` keeps it, and takes it where it is there.
`lowwater serve` answers, and every page is asked for twice: first when nothing is known, then again. A page that says
that work goes on behind it is asked for until it is whole, and `whole` has the seconds of that. `cpu` is the server's
own processor time, which other programs of the machine disturb little.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from lowwater.instants import HOUR, SECOND, format_instant  # noqa: E402
from lowwater.lake.layout import CONTENTS, LATENESS, METRICS, SIGHTINGS, Lake, open_lake, table_schema  # noqa: E402
from lowwater.lake.tables import append_rows, create, interval_label, read_rows  # noqa: E402
from lowwater.replay.job import Job  # noqa: E402
from tests.memory import peak_memory  # noqa: E402
from tests.review.ledgers import LINKS, START, make  # noqa: E402

TICK = os.sysconf("SC_CLK_TCK")
MONTH = 730
"""Hours of one commit of the table."""


def main() -> int:
    """Prints a line a page; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=int, default=8760)
    parser.add_argument("--links", type=int, default=3)
    parser.add_argument("--rows", type=int, default=0, help="rows of the published table")
    parser.add_argument("--lake", type=Path)
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = chosen.lake or Path(scratch) / "made"
        if not folder.exists():
            make_year(folder, chosen.hours, chosen.links, chosen.rows)
        found = measure(folder, pages(chosen.hours, chosen.rows))
    if chosen.json:
        chosen.json.write_text(json.dumps(found, indent=2))
    return 0


def make_year(folder: Path, hours: int, links: int, rows: int) -> None:
    """Makes the lake: three links and a query set with all ledgers, more links, a table.

    Args:
        folder: gets `lake` and `queries`.
        hours: intervals of the query set, and captures of each link.
        links: number of links.
        rows: rows of the table of the query; 0 for none.
    """
    root, queries = make(folder, hours, frozenset({hours - 25}))
    lake, names = open_lake(root), [f"exchange{at:02}" for at in range(links - len(LINKS))]
    with (root / "lowwater.toml").open("a") as settings:
        settings.write("".join(f'[links.{name}]\nsince = "{format_instant(START)}"\n' for name in names))
    for name in names:
        copy_link(lake, name)
    if rows:
        fill_table(lake, Job.open(root, "q", queries), hours, rows)


def copy_link(lake: Lake, name: str) -> None:
    """Gives a link the captures, measures and lateness of the first link."""
    for path, schema, of, named in (
        (lake.contents, CONTENTS, "link", ("link", "source", "content", "attempt")),
        (lake.lateness, LATENESS, "link", ("link",)),
        (lake.metrics, METRICS, "subject", ("subject",)),
    ):
        rows = read_rows(path, schema, pc.field(of) == LINKS[0])
        for column in named:
            texts = pc.replace_substring(rows.column(column), LINKS[0], name)
            rows = rows.set_column(rows.schema.get_field_index(column), column, texts)
        append_rows(path, rows.cast(schema))
    seen = [row for row in read_rows(lake.sightings, SIGHTINGS).to_pylist() if LINKS[0] in row["links"]]
    for row in seen:
        row["path"] = row["path"].replace(LINKS[0], name)
        for column in ("links", "attempts"):
            row[column] = [text.replace(LINKS[0], name) for text in row[column]]
    append_rows(lake.sightings, pa.Table.from_pylist(seen, schema=SIGHTINGS))


def fill_table(lake: Lake, job: Job, hours: int, rows: int) -> None:
    """Publishes as many rows of the query, a file an hour, with addresses by the minute."""
    fields = job.plan.queries[0].logical.fields
    schema = table_schema(fields)
    create(lake.table("flows"), schema, ["_hour"], "q")
    per_hour, generator = -(-rows // hours), np.random.default_rng(7)
    for first in range(0, hours, MONTH):
        size = per_hour * min(MONTH, hours - first)
        hour = START // HOUR + first + np.arange(size) // per_hour
        minute = hour * 60 + (np.arange(size) % per_hour) * 60 // per_hour
        values = {
            "tb": minute,
            "srcIP": np.char.add("192.0.2.", (np.arange(size) % per_hour % 250).astype(str)),
            "cnt": generator.geometric(0.01, size),
            "tb_start": minute * 60 * (SECOND // 1000),
            "_last": (minute + 1) * 60 * SECOND - 1,
            "_hour": hour,
        }
        columns = [pa.array(values[field.name]).cast(field.type) for field in schema]
        append_rows(lake.table("flows"), pa.Table.from_arrays(columns, schema=schema))


def pages(hours: int, rows: int) -> list[str]:
    """One page of each kind; of the rows the newest day, sorted and filtered, and the whole year."""
    begin = START + (hours - 25) * HOUR
    found = ["index.html", "set/q.html", "query/q/flows.html", "streams.html", "skew/index.html", "skew/main1.html"]
    found += [f"interval/q/{interval_label(begin, begin + HOUR)}.html", f"month/{format_instant(START)[:7]}.html"]
    found += ["trends/index.html", "trends/link/q/main1.html", "trends/query/q/flows.html"]
    found += [f"act/run/q?start={format_instant(begin)}&end={format_instant(begin + HOUR)}"]
    found += [f"act/backfill/q?start={format_instant(begin)}&end={format_instant(begin + 24 * HOUR)}"]
    found += ["act/skew/main1?bound=7s", "write/index.html", "results/index.html"]
    if rows:
        year = f"from={format_instant(START)}&to={format_instant(START + hours * HOUR)}"
        flows = "results/q/flows"
        found += [flows, f"{flows}?sort=cnt&desc=1", f"{flows}?column=srcIP&op=%3D&value=192.0.2.7"]
        found += [f"{flows}?{year}", f"{flows}?{year}&sort=tb&desc=1&page=20", f"{flows}?{year}&sort=cnt&desc=1"]
        found += [f"{flows}?{year}&column=srcIP&op=%3D&value=192.0.2.7"]
        found += [
            f"{flows}?{year}&column=cnt&op=%3E&value=900",
            f"{flows}?{year}&column=srcIP&op=contains&value=9&key=",
        ]
    return found


def measure(folder: Path, addresses: list[str]) -> dict[str, object]:
    """Asks a server for every page twice; returns seconds by page, and the most memory of the server."""
    command = [sys.executable, "-m", "lowwater.cli.main", "serve", "--no-login", "--lake", folder / "lake"]
    command += ["--queries", folder / "queries", "--port", "0"]
    rows = []
    with subprocess.Popen([*map(str, command)], cwd=ROOT, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            at = next(word for line in server.stderr for word in line.split() if word.startswith("http://"))
            print(f"{'started':66}  cpu {_seconds(server.pid):6.3f} s, {peak_memory(server.pid) / 1e6:,.0f} MB")
            for again in (False, True):
                for address in addresses:
                    wall, cpu = time.perf_counter(), _seconds(server.pid)
                    page = _asked(f"{at}{address}")
                    row = {"page": address, "warm": again, "bytes": len(page), "wall": time.perf_counter() - wall}
                    while b">Look again<" in page:
                        time.sleep(0.2)
                        page = _asked(f"{at}{address}")
                        row["whole"] = time.perf_counter() - wall
                    row |= {"cpu": _seconds(server.pid) - cpu, "memory": peak_memory(server.pid) / 1e6}
                    rows.append(row)
                    text = f"{len(page):>9,} bytes {row['wall']:6.2f} s  cpu {row['cpu']:6.2f} s"
                    text += f" {row['memory']:5,.0f} MB" + (f"  whole {row['whole']:.1f} s" if "whole" in row else "")
                    print(f"{address[:90]:90} {'again' if again else 'first'} {text}", flush=True)
        finally:
            server.terminate()
    slowest = max(rows, key=lambda row: row["wall"])
    print(f"slowest {slowest['wall']:.2f} s ({slowest['page']}), most memory {rows[-1]['memory']:,.0f} MB")
    return {"pages": rows, "memory": rows[-1]["memory"]}


def _asked(address: str) -> bytes:
    with urllib.request.urlopen(address, timeout=600) as answer:
        page: bytes = answer.read()
    return page


def _seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


if __name__ == "__main__":
    sys.exit(main())
