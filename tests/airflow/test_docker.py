"""`docker/`: the compose file is whole, and the commands of its services do their work on this machine."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from lowwater.errors import LowwaterError
from lowwater.instants import HOUR, format_instant
from lowwater.spark.server import free_port
from lowwater.spark.session import build_session
from scripts.image import instructions
from tests.airflow.compose import FILE, Compose, copied, example, load, wanted
from tests.replay.support import DEMO, QUERIES, ROOT, START, table_rows, wait

SERVICES = load(example()).data["services"]


def test_the_example_names_every_secret() -> None:
    assert sorted(example()) == wanted()


def test_the_compose_file_is_whole() -> None:
    data = load(example()).data
    assert set(SERVICES) == set(SECRETS)
    for name, each in SERVICES.items():
        needed = each.get("depends_on", {})
        assert set(needed) <= set(SERVICES), name
        for other, how in needed.items() if isinstance(needed, dict) else ():
            if how["condition"] == "service_healthy":
                assert "healthcheck" in SERVICES[other]
        for volume in each.get("volumes", ()):
            source = volume.split(":")[0]
            assert source in data["volumes"] or (FILE.parent / source).is_dir(), volume
        assert all(port.startswith("127.0.0.1:") for port in each.get("ports", ())), "reachable from this machine only"
        assert {each["source"] for each in each.get("configs", ())} <= set(data["configs"])


def identities() -> dict[str, dict[str, Any]]:
    """The users of the store, by the ID of their key."""
    said = json.loads(load(example()).data["configs"]["store-keys"]["content"])["identities"]
    return {key["accessKey"]: each for each in said for key in each["credentials"]}


KEYS = {
    "lowwater": "cli",
    "api": "api",
    "scheduler": "scheduler",
    "dag-processor": "dag-processor",
    "triggerer": "triggerer",
    "spark-connect": "spark",
    "spark-worker": "worker",
}
"""Service that opens the lake -> user of the store."""
WRITERS = {"cli", "scheduler", "worker"}


def test_each_service_that_opens_the_lake_has_a_key_of_its_own() -> None:
    users, secrets = identities(), set()
    for service, user in KEYS.items():
        environment = SERVICES[service]["environment"]
        found = users.pop(environment["AWS_ACCESS_KEY_ID"])
        assert found["name"] == user
        assert found["credentials"][0]["secretKey"] == environment["AWS_SECRET_ACCESS_KEY"]
        secrets.add(environment["AWS_SECRET_ACCESS_KEY"])
    assert not users and len(secrets) == len(KEYS)
    with_keys = {name for name, each in SERVICES.items() if "AWS_SECRET_ACCESS_KEY" in json.dumps(each)}
    assert with_keys == set(KEYS)


def test_the_keys_of_the_lake_open_its_buckets_and_nothing_else() -> None:
    """The service `buckets` makes them, by the port of the master: no key may make or remove one."""
    made = re.search(r"for name in ([\w ]+);", str(SERVICES["buckets"]["command"]))
    assert made is not None
    for each in identities().values():
        rights = {tuple(action.partition(":")[::2]) for action in each["actions"]}
        assert {name.partition("/")[0] for _, name in rights} <= set(made[1].split())
        assert {right for right, _ in rights} <= {"Read", "List", "Write", "Tagging"}
        written = {name for right, name in rights if right == "Write"}
        assert ("lakes" in written) == (each["name"] in WRITERS), each["name"]
        assert ("captures" in written) == (each["name"] == "cli"), each["name"]
        settings = {"lakes/main/lowwater.toml*"} if each["name"] == "api" else set()
        assert written - {"lakes", "captures"} == settings, each["name"]


def own(name: str) -> str:
    return f"STORE_SECRET_{name}"


SECRETS = {
    "api": {"JWT_SECRET", "SECRET_KEY", "POSTGRES_PASSWORD", own("API")},
    "scheduler": {"JWT_SECRET", "SECRET_KEY", "POSTGRES_PASSWORD", "SPARK_TOKEN", own("SCHEDULER")},
    "triggerer": {"SECRET_KEY", "POSTGRES_PASSWORD", own("TRIGGERER")},
    "dag-processor": {"POSTGRES_PASSWORD", own("DAG_PROCESSOR")},
    "prepare": {"POSTGRES_PASSWORD"},
    "postgres": {"POSTGRES_PASSWORD"},
    "spark-connect": {"SPARK_SECRET", "SPARK_TOKEN", own("SPARK")},
    "spark-master": {"SPARK_SECRET"},
    "spark-worker": {"SPARK_SECRET", own("WORKER")},
    "store": set(),  # from its own configuration file
    "buckets": set(),
    "lowwater": {own("CLI")},
}


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_has_the_secrets_that_it_needs_and_no_others(service: str) -> None:
    text = json.dumps(SERVICES[service])
    assert {name for name, value in example().items() if value in text} == SECRETS[service]
    said = " ".join(SERVICES[service].get("command", ()))
    assert not any(value in said for value in example().values()), "every process can read commands"


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_has_no_rights_that_it_does_not_need(service: str) -> None:
    each = SERVICES[service]
    assert each["cap_drop"] == ["ALL"] and each["security_opt"] == ["no-new-privileges:true"]
    assert "privileged" not in each and each.get("user") != "root"
    assert not each.get("cap_add") or service == "postgres"


def test_the_lake_is_in_the_store() -> None:
    assert SERVICES["scheduler"]["environment"]["LOWWATER_LAKE"] == "s3://lakes/main"
    made = " ".join(SERVICES["buckets"]["command"])
    assert "lakes" in made and "captures" in made
    shared = [
        {volume for volume in SERVICES[name]["volumes"] if "/staging" in volume}
        for name in ("scheduler", "spark-worker")
    ]
    assert shared[0] == shared[1] and SERVICES["spark-worker"]["environment"]["TMPDIR"] == "/staging"


def test_the_program_in_the_image_belongs_to_root() -> None:
    text = (ROOT / "docker" / "Dockerfile").read_text(encoding="utf-8")
    (owned,) = re.findall(r"chown lowwater (.+?) \\$", text, re.MULTILINE)
    assert "/app" not in owned.split() and "chmod -R a+rX,go-w /app" in text
    assert text.index("\nUSER lowwater") > text.index("chmod -R")


def test_packages_of_the_image_are_checked_by_their_hashes() -> None:
    text = (ROOT / "docker" / "Dockerfile").read_text(encoding="utf-8")
    installed = [line for line in text.splitlines() if "install" in line and "-r " in line]
    assert len(installed) == 3 and all("--require-hashes" in line for line in installed)
    lock = (ROOT / "docker" / "requirements.txt").read_text(encoding="utf-8")
    pins = re.findall(r"^([\w-]+==[\w.]+) \\\n    --hash=sha256:[0-9a-f]{64}", lock, re.MULTILINE)
    wanted = (ROOT / "docker" / "requirements.in").read_text(encoding="utf-8").splitlines()
    assert sorted(pins) == sorted(line for line in wanted if line and not line.startswith("#"))


REGISTRY = """#!/bin/sh
case "$*" in
    *broken*) echo nothing ;;
    *absent*) exit 1 ;;
    "buildx imagetools inspect "*) printf 'sha256:%064d\\n' "$(echo "$4" | cksum | cut -d' ' -f1)" ;;
esac
"""


def test_images_are_pinned_by_digests(tmp_path: Path) -> None:
    """The registries are faked by a program of docker's name; there is no network in the tests."""
    program = tmp_path / "bin" / "docker"
    program.parent.mkdir()
    program.write_text(REGISTRY)
    program.chmod(0o755)
    kept = tmp_path / "env"
    kept.write_text("JWT_SECRET=x\nSTORE_IMAGE=old\n")
    environment = {"PATH": f"{program.parent}:/usr/bin:/bin"}
    script = str(ROOT / "scripts" / "digests.sh")

    def run(compose: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run([script, str(compose), str(kept)], env=environment, capture_output=True, text=True)

    done = run(FILE)
    assert done.returncode == 0, done.stderr
    lines = dict(line.split("=", 1) for line in kept.read_text().splitlines())
    assert lines["JWT_SECRET"] == "x" and kept.stat().st_mode & 0o777 == 0o600
    pinned = load(example() | lines).data["services"]
    images = {name: each["image"] for name, each in pinned.items() if each["image"] != "lowwater"}
    assert set(images) == {"postgres", "store", "buckets"}
    assert all(re.fullmatch(r"[\w./-]+:[\w.-]+@sha256:[0-9]{64}", image) for image in images.values()), images
    assert pinned["lowwater"]["build"]["args"]["PYTHON_IMAGE"] == lines["PYTHON_IMAGE"]
    assert "FROM ${PYTHON_IMAGE}\n" in (ROOT / "docker" / "Dockerfile").read_text()
    before = kept.read_text()
    for name in ("broken", "absent"):
        wrong = tmp_path / "wrong.yaml"
        wrong.write_text(f"image: ${{X_IMAGE:-{name}:1}}\n")
        assert run(wrong).returncode == 1 and kept.read_text() == before
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("env.")]


def test_every_instruction_of_the_image_can_be_done_without_an_engine() -> None:
    """`make test-image` runs them; here only that it knows all of them, and starts from the same Debian and Python."""
    found = list(instructions((ROOT / "docker" / "Dockerfile").read_text(encoding="utf-8")))
    assert {word for word, _ in found} <= {"ARG", "FROM", "RUN", "COPY", "WORKDIR", "ENV", "USER", "ENTRYPOINT", "CMD"}
    assert ("ARG", "PYTHON_IMAGE=python:3.11-slim-bookworm") in found
    named = {name for word, rest in found if word == "COPY" for name in rest.split()[:-1]}
    assert {ROOT / name for name in named} == set(copied())


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Compose]:
    """Master, worker and server as the compose file starts them, on an address of this machine, not loopback."""
    host = _address()
    (tmp_path / "staging").mkdir()
    names = {
        "/tmp/spark": str(tmp_path / "worker"),
        "/staging": str(tmp_path / "staging"),
        "spark-master": host,
        "7077": str(free_port()),
        "8081": "0",
        "spark-connect": host,
        "15002": str(free_port()),
    }
    here = load({**example(), "WORKER_MEMORY": "2g"}, names)
    log = tmp_path / "cluster.log"
    processes: list[Any] = []
    try:
        with log.open("w") as said:
            for service in ("spark-master", "spark-worker", "spark-connect"):
                environment = here.environment(service) | {"SPARK_NO_DAEMONIZE": "1"}
                if service != "spark-connect":  # it has an address of its own
                    environment["SPARK_LOCAL_IP"] = host
                environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
                processes.append(psutil.Popen(here.command(service), env=environment, stdout=said, stderr=said))
        for answer in ("Successfully registered with master", f"sc://{host}:{names['15002']}"):
            assert wait(lambda answer=answer: answer in log.read_text(), 300), log.read_text()  # type: ignore[misc]
        yield here
    finally:
        family = [child for process in processes for child in process.children(recursive=True)]
        for process in [*processes, *family]:
            if process.is_running():
                process.kill()
        psutil.wait_procs(processes, 10)


@pytest.mark.nightly
@pytest.mark.spark
def test_an_interval_on_the_cluster_of_the_compose_file(
    cluster: Compose, lake: Path, published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client, server, master and worker know each other by addresses, as containers do: the rows of one process."""
    from airflow.providers.apache.spark.hooks.spark_connect import SparkConnectHook  # with pandas

    environment = cluster.environment("scheduler")
    monkeypatch.setenv("AIRFLOW_CONN_LOWWATER_SPARK", environment["AIRFLOW_CONN_LOWWATER_SPARK"])
    address = SparkConnectHook("lowwater_spark").get_connection_url()
    environment["LOWWATER_SPARK_MASTER"] = address
    span = ["--from", format_instant(START), "--to", format_instant(START + HOUR)]
    command = [sys.executable, str(ROOT / "spark_apps" / "replay.py"), "demo", "--lake", str(lake), *span]
    command += ["--queries", str(QUERIES), "--outcome", str(tmp_path / "outcome.json")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    for wrong in (address.replace("token=", "token=x"), address.partition("/;")[0]):
        with pytest.raises(LowwaterError, match="gives no answer"):
            build_session("stranger", wrong)
    for query in DEMO:
        assert table_rows(lake, query) == table_rows(published, query, START, START + HOUR) != []


def _address() -> str:
    """An address of this machine by which other containers would know it; loopback where it has no other."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # a documentation network: nothing is sent
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])
