"""Makes docs/performance.md, its plots and the tables of README.md from the JSON of `bench_end`.

`python -m benchmarks.performance [--json var/bench/end.json] [--profile FILE] [--interval FILE] [--history FILE]
[--year FILE]` copies each JSON into docs/ first: of `bench_end`, `bench_profile`, `bench_interval`, `bench_history` and
`bench_year`. Without an option it takes the copy there.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FIGURES = ROOT / "docs" / "performance.json"
PROFILE = ROOT / "docs" / "performance-profile.json"
INTERVAL = ROOT / "docs" / "performance-interval.json"
HISTORY = ROOT / "docs" / "performance-history.json"
YEAR = ROOT / "docs" / "performance-year.json"
PAGE = ROOT / "docs" / "performance.md"
README = ROOT / "README.md"
MARKERS = re.compile(r"(?<=<!-- performance -->\n).*?(?=<!-- /performance -->)", re.DOTALL)
TOOL_MARKERS = re.compile(r"(?<=<!-- tools -->\n).*?(?=<!-- /tools -->)", re.DOTALL)
STAGES = ("init", "ingest", "low", "high", "audit", "publish", "rest")
TITLES = {
    "ports": "packets per port and minute",
    "flows": "five-tuple flows of ten seconds",
    "hourly": "five-tuple flows of an hour",
    "outer": "full outer join of two links' flows",
}
PEERS = {
    "nfdump": "nfpcapd + nfdump",
    "duckdb": "DuckDB",
    "pyspark_batch": "PySpark, batch",
    "pyspark_stream": "PySpark, streaming",
    "tshark_duckdb": "tshark + DuckDB",
}
LESS = {
    "nfdump": "reads captures; one row a five-tuple, without time windows; a CSV, no table, no audit, no join",
    "duckdb": "begins after ingest; one parquet file, no commit, no audit",
    "pyspark_batch": "begins after ingest; parquet files, no commit, no audit",
    "pyspark_stream": "begins after ingest; no commit of a table, no audit; never emits the last windows",
    "tshark_duckdb": "reads a sample of one capture; one parquet file, no commit, no audit",
}
TOOLS = {
    "Lowwater": (
        "",
        "decodes captures, joins links by time, excludes late packets by one rule, audits and publishes hour by hour",
        "live traffic; application protocols except DNS, HTTP/1 and the beginnings of TLS, QUIC and SSH; results "
        "within an hour: rows are published when their hour is over",
    ),
    "nfdump": (
        "nfdump",
        "flows of NetFlow, IPFIX, sFlow and captures; files of N seconds (`nfpcapd -t N`), counted by flow",
        "windows over packets, joins of two links, lateness",
    ),
    "Zeek": (
        "zeek",
        "live traffic, dozens of application protocols, detection by scripts",
        "SQL, joins of two links, tables in which a new run replaces an hour",
    ),
    "Arkime": (
        "arkime",
        "stores all packets, finds sessions in a browser, exports them",
        "rows that you compute: windows, joins, aggregates over every packet",
    ),
    "DuckDB": (
        "duckdb",
        "all of SQL, many times as fast, once packets are a table",
        "decodes captures only by extensions; no rule for late packets, no hour-by-hour publication",
    ),
    "Spark": (
        "pyspark",
        "all of SQL, Python, live streams, large clusters",
        "decodes no captures; a stream drops late rows by micro-batch and never emits the last windows of its input",
    ),
}
"""What README.md says of each tool: its name among the versions of the figures, what it does, what it does not."""
SAMPLER = "the sampler"
FIXED = ("imports", "Great Expectations")
"""Beginnings of the parts whose work is mostly there whatever the number of packets."""
SHOWN = 0.2
"""Processor seconds from which a part has a row of its own."""
_COLOURS = ("#bdbdbd", "#2166ac", "#4393c3", "#b2182b", "#f4a582", "#1b7837", "#737373")
Row = Sequence[str]


def table(head: Row, rows: Sequence[Row]) -> str:
    """A table in Markdown; all but the first column are set to the right where they hold figures."""
    numbers = [all(re.match(r"^[\d,.]*$", row[at]) for row in rows) for at in range(len(head))]
    lines = [head, ["---:" if number else "---" for number in numbers], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def seconds(value: float) -> str:
    """Tenths up to a minute, then whole seconds."""
    return f"{value:.1f}" if value < 60 else f"{value:,.0f}"


def megabytes(value: int) -> str:
    """Whole MB, of a million bytes."""
    return f"{value / 1e6:,.0f}"


def scaled(name: str, each: Mapping[str, Any], packets: int) -> float:
    """Seconds of a peer for all packets; a sample counts in proportion."""
    return float(each["seconds"]) * (packets / each["sample_packets"] if name == "tshark_duckdb" else 1)


def engines(size: Mapping[str, Any], query: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The peers that answered a query, in their order."""
    found = size["queries"][query]
    return ((name, found[name]) for name in PEERS if found.get(name))


def short(figures: Mapping[str, Any]) -> str:
    """The table of README.md: five-tuple flows at the largest size that most peers were measured at."""
    sizes = [size for size in figures["sizes"] if "flows" in size["queries"]]
    if not sizes:
        return ""
    size = max(sizes, key=lambda size: (len(list(engines(size, "flows"))), size["millions"]))
    machine, packets = figures["machine"], size["packets"]
    warm = size["queries"]["flows"]["lowwater"]["warm"]
    rows = [
        ["Lowwater", seconds(warm["seconds"]), f"{warm['packets_per_s']:,}", "captures to published, audited tables"]
    ]
    for name, each in engines(size, "flows"):
        spent = scaled(name, each, packets)
        rows.append([PEERS[name], seconds(spent), f"{packets / spent:,.0f}", LESS[name]])
    text = table(("", "seconds", "packets/s", "from, to"), rows)
    tshark = size["queries"]["flows"].get("tshark_duckdb")
    longer = f"{_largest(sizes[-1])} " if sizes[-1] is not size else ""
    sample = f"tshark read {tshark['sample_packets']:,} packets; its seconds are scaled. " if tshark else ""
    return (
        f"Five-tuple flows of {packets:,} packets ({megabytes(size['capture_bytes'])} MB of captures), "
        f"{machine['cores']} cores, {size['date']}, one run:\n\n{text}\n"
        f"{sample}{longer}[All figures](docs/performance.md).\n"
    )


def _largest(size: Mapping[str, Any]) -> str:
    """A sentence of the seconds at a size that fewer peers were measured at."""
    warm = size["queries"]["flows"]["lowwater"]["warm"]
    peers = [f"{PEERS[name]} {seconds(each['seconds'])} s" for name, each in engines(size, "flows")]
    return (
        f"For {size['packets']:,} packets Lowwater took {seconds(warm['seconds'])} s "
        f"({warm['packets_per_s']:,} packets/s, {megabytes(warm['peak_memory_bytes'])} MB of memory); "
        f"{', '.join(peers)}."
    )


def page(
    figures: Mapping[str, Any],
    profile: Mapping[str, Any] | None = None,
    interval: Mapping[str, Any] | None = None,
    history: Mapping[str, Any] | None = None,
    year: Mapping[str, Any] | None = None,
) -> str:
    """The text of docs/performance.md.

    Args:
        figures: of `bench_end`.
        profile: of `bench_profile`; None if there are none.
        interval: of `bench_interval`; None if there are none.
        history: of `bench_history`; None if there are none.
        year: of `bench_year`; None if there are none.
    """
    machine = figures["machine"]
    versions = ", ".join(f"{name} {text}" for name, text in machine["versions"].items() if text)
    parts = [
        "# Performance\n",
        "<!-- Made by `python -m benchmarks.performance` from docs/performance.json; do not edit. -->\n",
        "Capture files in, published and audited tables out. `make bench-end` measures it, beside other programs, in "
        "one run on one machine. Every command is a process of its own; its start counts.\n",
        f"- Machine: {machine['processor']}, {machine['cores']} cores, {machine['memory_bytes'] / 2**30:.0f} GiB, "
        f"{machine['system']}.",
        f"- Versions: {versions}.",
        "- Cold: the folders of generated kernels and of numba's compiled code are empty, so `init` and `ingest` "
        "compile the reader of captures too, which `make setup` does once. Warm: the same commands once more, into "
        "another lake. The page cache of the system is warm in both.",
        "- Memory: the sum of PSS over all processes, sampled every 0.2 s; the largest of the commands. The figure of "
        "a process that ends within a second is a lower bound.",
        "- The queries are [ports](../benchmarks/queries/ports.gsql), [flows](../queries/flows.gsql), "
        "[hourly](../benchmarks/queries/hourly.gsql) and [outer](../benchmarks/queries/outer.gsql); outer publishes "
        "both flow queries and their join.\n",
    ]
    for size in figures["sizes"]:
        parts += _size(size)
    parts += profile_parts(profile) if profile else ()
    parts += interval_parts(interval) if interval else ()
    parts += history_parts(history) if history else ()
    parts += year_parts(year) if year else ()
    parts += ["## Not measured\n", *(f"- {text}." for text in figures["not_measured"]), ""]
    return "\n".join(parts)


def profile_parts(profile: Mapping[str, Any]) -> Iterator[str]:
    """Where the time goes: processor seconds by part and command, and the bound that follows."""
    commands, cores = profile["commands"], profile["cores"]
    parts: dict[str, dict[str, float]] = {}
    for command, found in commands.items():
        for part, spent in found["parts"].items():
            parts.setdefault(part, {})[command] = spent
    parts.pop(SAMPLER, None)
    sums = {part: sum(spent.values()) for part, spent in parts.items()}
    shown = sorted((part for part in parts if sums[part] >= SHOWN), key=lambda part: -sums[part])
    rows = [(part, *(f"{parts[part].get(name, 0):.1f}" for name in commands), f"{sums[part]:.1f}") for part in shown]
    small = {name: sum(parts[part].get(name, 0) for part in parts if part not in shown) for name in commands}
    rows.append(("other parts", *(f"{small[name]:.1f}" for name in commands), f"{sum(small.values()):.1f}"))
    totals = [sum(spent.get(name, 0) for spent in parts.values()) for name in commands]
    rows.append(("all", *(f"{total:.1f}" for total in totals), f"{sum(totals):.1f}"))
    walls = [found["seconds"] for found in commands.values()]
    rows.append(("seconds by the clock", *map(seconds, walls), seconds(sum(walls))))
    yield "## Where the time goes\n"
    yield (
        f"Processor seconds of a warm run of flows, about {profile['millions']} million packets, by command; all "
        "threads, with those of the process of Great Expectations. "
        f"{profile['date']}, load average before the run {profile['load_average']}. "
        "`python -m benchmarks.bench_profile` measures it; the seconds of its sampler are left out. "
        "A busy machine also makes processor seconds longer.\n"
    )
    yield table(("part", *commands, "sum"), rows)
    fixed = sum(sums[part] for part in sums if part.startswith(FIXED))
    yield (
        f"The bound: {cores} cores that never wait need {sum(totals) / cores:.1f} s for {sum(totals):.1f} processor "
        f"seconds. Imports and Great Expectations take {fixed:.1f} of them, whatever the number of packets: each "
        f"process imports its libraries once. The rest takes {sum(totals) - fixed:.1f} processor seconds, at least "
        f"{(sum(totals) - fixed) / cores:.1f} s. "
        "`init`, `ingest` and `backfill` are processes of their own and run one after another.\n"
    )


def interval_parts(interval: Mapping[str, Any]) -> Iterator[str]:
    """The cost of an interval of few packets, in a process of its own and in one that goes on."""
    yield "## Fixed cost of an interval\n"
    yield (
        f"One hour of three links, {interval['packets']:,} packets, through all stages; `later` is a further hour in "
        f"the same process. Seconds, and processor seconds (`cpu`) of the first hour; {interval['machine']}. "
        "`python benchmarks/bench_interval.py` measures it. "
        "[ADR 178](adr/0178-two-levels-as-two-streams.md) says where `evaluate` under Airflow spends its time, "
        "[ADR 165](adr/0165-work-on-other-machines.md) what a long-lived process costs.\n"
    )
    runs = interval["runs"]
    yield table(tuple(runs[0]), [tuple(f"{value:.2f}" for value in run.values()) for run in runs])


def history_parts(history: Mapping[str, Any]) -> Iterator[str]:
    """What hours of few packets cost that follow one another, and with them a year."""
    yield "## History of small hours\n"
    yield (
        f"{history['hours']} hours of two links, 720 packets each, from ingested captures to audited tables; "
        f"{history['machine']}, load average before the run {history['load']}. Each command is a process of its own, "
        "whose start counts; processor seconds are of all its processes, and grow on a busy machine. "
        "`python benchmarks/bench_history.py` measures it, and in `make bench` it is there; [ADR "
        "186](adr/0186-intervals-in-batches.md) says what a batch is.\n"
    )
    names = ("seconds", "processor_seconds", "files", "pages", "commits", "bytes")
    runs = [(f"`{name}`", history[key]) for key, name in (("backfill", "backfill"), ("watch", "watch --once"))]
    rows = [(name, *(f"{found[each]:,}" for each in names)) for name, found in runs]
    if more := history.get("more"):
        rows.append((f"`backfill` of {more['hours']:,} hours", *(f"{more[each]:,}" for each in names)))
    yield table(("", "seconds", "processor seconds", "files", "of them pages", "commits", "bytes"), rows)
    if year := history.get("year"):
        yield (
            f"A year of them, by a line through both backfills: {year['processor_seconds'] / 3600:.1f} hours of "
            f"processor, {year['files']:,} files, {year['bytes'] / 1e9:.1f} GB.\n"
        )
    if airflow := history.get("airflow"):
        yield (
            f"Airflow's backfill of {airflow['hours']} hours of them, in {airflow['runs']} runs of `backfill_flows`, a "
            f"day each: {seconds(airflow['seconds'])} s.\n"
        )


def year_parts(year: Mapping[str, Any]) -> Iterator[str]:
    """How a lake grows in a year, and what asking it takes."""
    yield "## A year of hours\n"
    yield (
        "Hours of two links with some 70 packets each and one query, published and maintained; "
        f"{year['machine']}, load average before the run {year['load']}. Each command is a process of its own, whose "
        "start counts: seconds, and processor seconds in brackets. The first time no answer stands, as after a change; "
        "again nothing is new ([ADR 206](adr/0206-answers-that-stand.md)). `python benchmarks/bench_year.py` measures "
        "it.\n"
    )
    names = [*year["months"][0]["again"]]
    rows = [
        (f"{each['hours']:,}", f"{each['files_an_hour']:.1f}", turn, *(_asked(each[turn][name]) for name in names))
        for each in year["months"]
        for turn in ("first", "again")
    ]
    yield table(
        ("hours", "files an hour", "asked", *(f"`{name}`" if name != "by day" else name for name in names)), rows
    )


def _asked(found: Mapping[str, float]) -> str:
    return f"{found['seconds']:.1f} ({found['processor_seconds']:.1f})"


def _size(size: Mapping[str, Any]) -> Iterator[str]:
    packets, millions = size["packets"], size["millions"]
    yield f"## {packets:,} packets\n"
    yield f"{megabytes(size['capture_bytes'])} MB of captures, `lowwater generate {size['generate']}`.\n"
    yield f"{size['date']}, load average before the run {size['load_average']}.\n"
    yield f"![Seconds of Lowwater by stage](images/performance-{millions}m.svg)\n"
    rows, more = [], []
    for query, found in size["queries"].items():
        for state, each in found["lowwater"].items():
            stages = each["stages_seconds"]
            total = (seconds(each["seconds"]), f"{each['packets_per_s']:,}")
            rows.append((query, state, *(seconds(stages[stage]) for stage in STAGES), *total))
            counts = (f"{each[name]:,}" for name in ("lfta_rows", "lfta_rows_per_s_high", "rows_published"))
            sizes = ("peak_memory", "lake", "packets_table", "staging_peak")
            more.append((query, state, *counts, *(megabytes(each[f"{name}_bytes"]) for name in sizes)))
    yield "Seconds of Lowwater by stage; `rest` is the start of `backfill` and its end, less what ran at once:\n"
    yield table(("query", "run", *STAGES, "all", "packets/s"), rows)
    yield table(
        ("query", "run", "LFTA rows", "LFTA rows/s, high", "rows published", "peak memory, MB", "lake, MB",
         "of it packets, MB", "staging at most, MB"), more
    )  # fmt: skip
    for query, found in size["queries"].items():
        yield f"### {TITLES[query][0].upper()}{TITLES[query][1:]}\n"
        yield from _peers(size, query, found)
    flows = size["queries"].get("flows", {})
    runs = [
        (form, seconds(each["seconds"]), f"{each['rows']:,}", seconds(each["stages_seconds"].get("write", 0)),
         f"{each.get('written_rows_per_s', 0):,}", megabytes(each["bytes"]), megabytes(each["peak_memory_bytes"]))
        for form in ("csv", "parquet") if (each := flows.get(f"run_{form}"))
    ]  # fmt: skip
    if runs:
        yield "### `lowwater run` of flows over one link\n"
        head = ("format", "seconds", "rows", "of it writing, s", "rows/s written", "file, MB", "peak memory, MB")
        yield table(head, runs)


def _peers(size: Mapping[str, Any], query: str, found: Mapping[str, Any]) -> Iterator[str]:
    packets, warm = size["packets"], found["lowwater"]["warm"]
    after = warm["seconds"] - warm["stages_seconds"]["init"] - warm["stages_seconds"]["ingest"]
    memory = megabytes(warm["peak_memory_bytes"])
    rows = [
        (
            "Lowwater, warm",
            seconds(warm["seconds"]),
            f"{warm['rows']:,}",
            memory,
            "",
            "captures to published, audited tables",
        ),
        ("of it `backfill`", seconds(after), f"{warm['rows']:,}", memory, "", "begins after ingest"),
    ]
    for name, each in engines(size, query):
        rows.append((
            PEERS[name], seconds(scaled(name, each, packets)), f"{each['rows']:,}",
            megabytes(each["peak_memory_bytes"]), _same(name, each, warm), LESS[name],
        ))  # fmt: skip
    yield table(("", "seconds", "rows", "peak memory, MB", "same answer", "what it does"), rows)
    if found.get("tshark_duckdb"):
        each = found["tshark_duckdb"]
        yield (
            f"tshark and DuckDB took {seconds(each['seconds'])} s for {each['sample_packets']:,} packets; the seconds "
            "in the table are scaled by the number of packets, its rows and memory are those of the sample.\n"
        )


def _same(name: str, each: Mapping[str, Any], warm: Mapping[str, Any]) -> str:
    if name == "nfdump":
        return f"another question, {'the same' if each['counted'] == warm['counted'] else 'other'} packets"
    if name == "pyspark_stream" and not each["same_answer"]:
        return "up to its last epoch" if each["same_up_to_last_epoch"] else "no"
    return "yes" if each["same_answer"] else "no"


def draw(size: Mapping[str, Any], path: Path) -> None:
    """Bars of seconds by stage, a bar a query and run, into an SVG that depends on the figures alone."""
    import matplotlib
    from matplotlib.figure import Figure

    bars = [(f"{query}, {state}", each["stages_seconds"])
            for query, found in size["queries"].items() for state, each in found["lowwater"].items()]  # fmt: skip
    with matplotlib.rc_context({"svg.hashsalt": "lowwater"}):
        figure = Figure(figsize=(8, 0.9 + 0.4 * len(bars)), layout="constrained")
        axes = figure.subplots()
        left = [0.0] * len(bars)
        for stage, colour in zip(STAGES, _COLOURS, strict=True):
            widths = [max(stages[stage], 0.0) for _, stages in bars]
            axes.barh([name for name, _ in bars], widths, left=left, color=colour, label=stage)
            left = [begin + width for begin, width in zip(left, widths, strict=True)]
        axes.invert_yaxis()
        axes.set(xlabel="seconds", title=f"{size['packets']:,} packets, from captures to audited tables")
        figure.legend(loc="outside lower center", ncols=len(STAGES), fontsize="small", frameon=False)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, metadata={"Date": None})


def tools(figures: Mapping[str, Any]) -> str:
    """The table of README.md about other tools, with the versions that were there, and what was not there."""
    versions = figures["machine"]["versions"]
    rows = [
        (name, versions.get(key) or "not installed" if key else "", *words) for name, (key, *words) in TOOLS.items()
    ]
    absent = " and ".join(name for name, version, *_ in rows if version == "not installed")
    text = table(("", "version", "does", "does not"), rows)
    return f"{text}\n{absent} did not run here: what is said of them is from their documents.\n" if absent else text


def with_table(readme: str, figures: Mapping[str, Any]) -> str:
    """README.md with the tables between its markers."""
    return TOOL_MARKERS.sub(lambda _: tools(figures), MARKERS.sub(lambda _: short(figures), readme))


def committed() -> list[Any]:
    """The figures in docs/, in the order of the arguments of `page`; None for a file that is not there."""
    files = (FIGURES, PROFILE, INTERVAL, HISTORY, YEAR)
    return [json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None for file in files]


def main() -> None:
    """Writes the page, the plots and the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="figures to take over into docs/performance.json")
    parser.add_argument("--profile", type=Path, help="figures to take over into docs/performance-profile.json")
    parser.add_argument("--interval", type=Path, help="figures to take over into docs/performance-interval.json")
    parser.add_argument("--history", type=Path, help="figures to take over into docs/performance-history.json")
    parser.add_argument("--year", type=Path, help="figures to take over into docs/performance-year.json")
    options = parser.parse_args()
    taken = ((options.json, FIGURES), (options.profile, PROFILE), (options.interval, INTERVAL))
    taken = (*taken, (options.history, HISTORY), (options.year, YEAR))
    for given, kept in taken:
        if given:
            shutil.copyfile(given, kept)
    figures, *more = committed()
    PAGE.write_text(page(figures, *more), encoding="utf-8")
    for size in figures["sizes"]:
        draw(size, PAGE.parent / "images" / f"performance-{size['millions']}m.svg")
    README.write_text(with_table(README.read_text(encoding="utf-8"), figures), encoding="utf-8")


if __name__ == "__main__":
    main()
