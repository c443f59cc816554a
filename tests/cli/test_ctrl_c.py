"""Ctrl-C in processes: it says what stands and how to go on, ends with 130, and leaves nothing that is half done."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from lowwater.cli.main import cli
from lowwater.replay.schedule import backfill as backfills
from lowwater.replay.schedule.backfill import BackfillListener
from lowwater.replay.schedule.due import Due, DueSelection, due, open_jobs
from tests.breadth import each_push
from tests.capturemaker import pcap_bytes, tcp
from tests.replay.support import lowwater

BEGIN = 1_767_225_600 * 1_000_000_000
QUERY = "DEFINE { query_name 'flows'; } SELECT tb, count(*) AS n FROM main1.TCP GROUP BY time/60 AS tb;"
AT_WORK = """
import sys, time
from contextlib import contextmanager
from lowwater.cli.main import main
from lowwater.lake import maintain
from lowwater.replay.progress import Progress
real = Progress.stage
stage = sys.argv.pop(1)
def stand(*_):
    print("at work", file=sys.stderr, flush=True)
    while True:
        time.sleep(0.01)  # a wait without an end would miss a signal that comes just before it
@contextmanager
def held(self, name, detail=""):
    with real(self, name, detail) as tell:
        if name == stage:
            stand()
        yield tell
Progress.stage = held
if stage == "maintain":
    maintain._look = stand
main()
"""
"""The command line, whose work stands still in a stage: a signal comes neither before it nor behind it."""


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with two links of an hour, of which one is ingested, and whose query has not run."""
    folder = tmp_path_factory.mktemp("stopped")
    packets = [(BEGIN + at * 60_000_000_000, tcp("10.0.0.1", "10.0.0.2", 1024, 80)) for at in range(61)]
    for link in ("main1", "main2"):
        (folder / "captures" / link).mkdir(parents=True)
        (folder / "captures" / link / f"{link}.pcap").write_bytes(pcap_bytes(packets))
    (folder / "flows.gsql").write_text(QUERY)
    root = folder / "lake"
    assert lowwater("init", folder / "captures", "--lake", root, "--query", folder / "flows.gsql").code == 0
    assert lowwater("ingest", "--lake", root, "--link", "main1").code == 0
    return root


def files(folder: Path) -> set[Path]:
    """All but locks, which stay as empty files, and what Python and numba keep."""
    return {path for path in folder.rglob("*") if path.is_file() and "_locks" not in path.parts}


STOPPED = {
    "run": ("low", (), "no file of a result is there in part; {} begins again"),
    "ingest": ("ingest", (), "captures that were ingested stay, others are not there in part; {} takes the rest"),
    "backfill": (
        "low",
        ("stopping: intervals that run are finished first; Ctrl-C again gives them up\n",),
        "what was published stays; {} runs the rest",
    ),
    "maintain": ("maintain", (), "the lake is whole, and what was removed is nowhere in use; {} does the rest"),
    "serve": ("", (), "the lake is as it was"),
}


@pytest.mark.slow
@pytest.mark.parametrize("command", each_push(STOPPED, 3))
def test_a_stopped_process_leaves_nothing_and_says_how_to_go_on(command: str, lake: Path, tmp_path: Path) -> None:
    """A signal goes to the whole group of processes, as from a terminal; each one waits for a line of the process."""
    stage, again, told = STOPPED[command]
    capture, temporary = lake.parent / "captures" / "main1" / "main1.pcap", tmp_path / "temporary"
    temporary.mkdir()
    words = {
        "run": (lake.parent / "flows.gsql", "--capture", f"main1={capture}", "--out", tmp_path / "a b"),
        "ingest": ("--lake", lake),
        "backfill": ("--lake", lake, "--through-end"),
        "maintain": ("--lake", lake),
        "serve": ("--lake", lake, "--port", "0"),
    }[command]
    before = files(lake.parent)
    given = [command, *map(str, words)]
    with subprocess.Popen(
        [sys.executable, "-c", AT_WORK, stage, *given],
        stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, start_new_session=True,
        env={**os.environ, "TMPDIR": str(temporary)},
    ) as process:  # fmt: skip
        assert process.stderr is not None
        for line in ("at work\n", *again) if stage else ("http://",):
            while not (said := process.stderr.readline()).startswith(line):
                assert said, f"the process ended before {line!r}"
            os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=500)
    go_on = shlex.join(["lowwater", *given])
    assert err.split("\n")[-2] == f"stopped: {told.format(f'`{go_on}`')}" and "Traceback" not in err
    assert process.returncode == 130
    assert not list(temporary.iterdir()) and not (tmp_path / "a b").exists()
    new = files(lake.parent) - before
    assert not [path for path in new if "_work" in path.parts or not re.search(r"_delta_log|\.html$", str(path))], new
    assert command in cli.commands


@pytest.mark.slow
def test_a_second_signal_to_a_backfill_counts_also_before_it_waits(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It came between the line that the first one said and the wait for threads, which took no notice of it."""
    jobs, waits, held = open_jobs(lake, (), Path("queries")), threading.Event(), threading.Event()
    work, main = due(replace(jobs[0], through_end=True), DueSelection(None, None)), threading.main_thread().ident
    assert work and main is not None

    def begins(interval: Due) -> None:
        waits.wait()
        signal.pthread_kill(main, signal.SIGINT)
        held.wait()

    real, usual = backfills.wait, signal.signal(signal.SIGINT, signal.default_int_handler)
    monkeypatch.setattr(backfills, "wait", lambda *given, **named: (waits.set(), real(*given, **named))[1])
    try:
        with pytest.raises(KeyboardInterrupt):
            watch = BackfillListener(begins, stops=lambda: signal.raise_signal(signal.SIGINT))
            backfills.backfill(jobs, work[:1], watch=watch)
    finally:
        held.set()
        signal.signal(signal.SIGINT, usual)


EARLY = """
import signal, sys
class Finder:
    def find_spec(name, path=None, target=None):
        if name == early:
            signal.raise_signal(signal.SIGINT)
early = sys.argv.pop(1)
sys.meta_path.insert(0, Finder)
from lowwater.cli.entry import main
main()
"""
"""The program, to which a signal comes while it imports a module."""


@pytest.mark.slow
@pytest.mark.parametrize("module", ["click", "lowwater.lake", "pyarrow"])
def test_a_signal_in_the_first_moments_ends_a_command_in_order(module: str, lake: Path) -> None:
    command = [sys.executable, "-c", EARLY, module, "backfill", "--lake", str(lake)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 130 and "Traceback" not in done.stderr
    assert done.stderr.endswith(f"what was published stays; `lowwater backfill --lake {lake}` runs the rest\n")
