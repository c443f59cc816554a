"""`docker/chart`: Helm renders it, the schemas of Kubernetes take it, and Spark's driver works with what it writes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from lowwater.config import names_spark
from lowwater.spark.server import free_port
from tests.kubernetes.api import Api
from tests.replay.support import ROOT

CHART = ROOT / "docker" / "chart"
HELM, PACKAGES = Path(sys.prefix) / "helm" / "bin" / "helm", Path(sys.prefix) / "chart"
ENGINE = Path(__file__).with_name("engine.py")
KUBERNETES = ("1.29.0", "1.33.0", "1.37.0")
EVERYTHING = (
    *("--set", "pages.enabled=true", "--set", "metrics.enabled=true"),
    *("--set", "lake.endpoint=http://store:8333", "--set", "image.pullSecrets={registry}"),
    *("--set", "spark.nodeSelector.pool=captures", "--set-json", 'spark.tolerations=[{"key":"x","operator":"Exists"}]'),
    *("--set-json", r'queries.files={"flows.gsql":"SELECT time\nFROM TCP"}'),
    *("--set", "spark.conf.spark\\.network\\.timeout=60s"),
)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PACKAGES.is_dir(), reason="Helm and the schemas are not installed: make .venv/.chart"),
]


@pytest.fixture(scope="module")
def chart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The chart without Airflow's, which `helm dependency build` would fetch."""
    folder = tmp_path_factory.mktemp("chart") / "lowwater"
    shutil.copytree(CHART, folder)
    facts = yaml.safe_load((folder / "Chart.yaml").read_text())
    assert [each["condition"] for each in facts.pop("dependencies")] == ["airflow.enabled"]
    (folder / "Chart.yaml").write_text(yaml.safe_dump(facts))
    return folder


def helm(*arguments: object, program: bool = False) -> subprocess.CompletedProcess[str]:
    """Runs Helm: by default its packages, else its program."""
    command = [*([HELM] if program else [sys.executable, ENGINE]), *arguments]
    variables = {**os.environ, "PYTHONPATH": str(PACKAGES)}
    words = [*map(str, command)]
    return subprocess.run(words, env=variables, capture_output=True, text=True, check=False)


@cache
def render(chart: Path, *options: str, program: bool = False) -> list[dict[str, Any]]:
    # A program that `go install` builds takes Kubernetes 1.20 for the cluster, since no release has named another one.
    version = ("--kube-version", KUBERNETES[1]) if program else ()
    done = helm("template", "demo", chart, "--namespace", "lakes", *version, *options, program=program)
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.load_all(done.stdout, yaml.CSafeLoader) if document]


def named(documents: list[dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    (found,) = [
        each for each in documents if (each["kind"], each["metadata"]["name"]) == (kind, f"demo-lowwater{name}")
    ]
    return found


def validated(documents: list[dict[str, Any]], version: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Asks the schemas of a version, strictly: unknown fields are errors."""
    file = folder / "resources.yaml"
    file.write_text(yaml.safe_dump_all(documents))
    command = [sys.executable, "-m", "kubernetes_validate", "--strict", "-k", version, str(file)]
    variables = {**os.environ, "PYTHONPATH": str(PACKAGES)}
    return subprocess.run(command, env=variables, capture_output=True, text=True, check=False)


def pod_specs(documents: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The pods of a chart, that of executors too, by name."""
    pods = {"executor": pod_template(documents)["spec"]}
    for each in documents:
        spec = each.get("spec", {})
        job = spec.get("jobTemplate", {}).get("spec", spec)
        if "template" in job:
            pods[each["metadata"]["name"]] = job["template"]["spec"]
    return pods


def pod_template(documents: list[dict[str, Any]]) -> dict[str, Any]:
    template: dict[str, Any] = yaml.safe_load(named(documents, "ConfigMap", "-spark")["data"]["executor.yaml"])
    template["metadata"]["name"] = "executor"  # Spark names each pod
    return template


@pytest.mark.parametrize("version", KUBERNETES)
def test_kubernetes_takes_every_resource(chart: Path, tmp_path: Path, version: str) -> None:
    """By default, and with everything."""
    both = [render(chart), render(chart, *EVERYTHING)]
    done = validated([each for one in both for each in [*one, pod_template(one)]], version, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    spoilt = pod_template(both[0])
    spoilt["spec"]["containers"][0]["volumeMount"] = []
    assert validated([spoilt], version, tmp_path).returncode != 0, "the schemas find nothing"


@pytest.mark.parametrize(
    ("option", "says"),
    [
        ("lake.url=/lake", "url"),
        ("lake.uri=s3://a/b", "uri"),
        ("lake.secret=lowwater-store", "secret"),
        ("spark.executors=0", "executors"),
        ("spark.memory=1Gi", "memory"),
        ("spark.conf.master=x", "master"),
        ("backfill.jobs=100", "jobs"),
    ],
)
def test_wrong_values_are_refused(chart: Path, option: str, says: str) -> None:
    done = helm("template", "demo", chart, "--set", option)
    assert done.returncode != 0 and says in done.stderr


def test_pods_run_as_in_the_image(chart: Path) -> None:
    """User, paths and folders are those of docker/Dockerfile; no pod may do what it does not need."""
    image = (ROOT / "docker" / "Dockerfile").read_text()
    assert "--uid 1000 " in image and "mkdir -p /airflow /staging /captures /queries" in image
    pods = pod_specs(render(chart, *EVERYTHING))
    assert set(pods) == {
        "executor",
        *(f"demo-lowwater-{name}" for name in ("spark", "backfill", "maintain", "pages", "metrics")),
    }
    for name, spec in pods.items():
        assert spec["securityContext"]["runAsUser"] == 1000 and spec["securityContext"]["runAsNonRoot"], name
        assert spec["imagePullSecrets"] == [{"name": "registry"}]
        for container in spec["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
            }
            assert container["image"] == "lowwater:0.2.0"
            mounts = {each["mountPath"] for each in container["volumeMounts"]}
            assert (
                mounts <= {"/staging", "/queries", "/etc/lowwater/spark", "/etc/lowwater/token"}
                and "/staging" in mounts
            )
            assert {each["name"] for each in container["volumeMounts"]} <= {each["name"] for each in spec["volumes"]}
        # Only who starts executors may talk to the API.
        starts = name.endswith("-spark")
        assert spec.get("automountServiceAccountToken", True) is starts
        assert (spec.get("serviceAccountName") == "demo-lowwater") is starts


KEYS = {"backfill": "runs", "maintain": "runs", "executor": "executors"}
KEYS |= {name: name for name in ("spark", "pages", "metrics")}
"""Kind of pod -> which secret has its keys of the store."""


def test_no_key_is_in_the_chart_and_each_kind_of_pod_has_its_own(chart: Path) -> None:
    documents = render(chart, *EVERYTHING)
    assert "Secret" not in {each["kind"] for each in documents}
    pods = {name.removeprefix("demo-lowwater-"): spec for name, spec in pod_specs(documents).items()}
    assert set(pods) == set(KEYS)
    for name, spec in pods.items():
        found = [each["secretRef"]["name"] for each in spec["containers"][0]["envFrom"] if "secretRef" in each]
        assert found == [f"lowwater-store-{KEYS[name]}"], name
        assert json.dumps(spec).count("lowwater-store-") == 1, name
    none = [word for kind in set(KEYS.values()) for word in ("--set", f"lake.secrets.{kind}=")]
    assert not [spec for spec in pod_specs(render(chart, *none)).values() if "secretRef" in json.dumps(spec)]
    airflow = yaml.safe_load((CHART / "values.yaml").read_text())["airflow"]
    (own,) = [each["secretRef"]["name"] for each in yaml.safe_load(airflow["extraEnvFrom"]) if "secretRef" in each]
    assert own == "lowwater-store-airflow" and own not in json.dumps(pods)


def test_runs_are_clients_of_the_one_spark(chart: Path) -> None:
    """The token is in a secret; only the server and its clients get it, and no command line has it."""
    documents = render(chart, *EVERYTHING)
    pods = {name.removeprefix("demo-lowwater-"): spec for name, spec in pod_specs(documents).items()}
    for name, spec in pods.items():
        (container,) = spec["containers"]
        given = {each["name"]: each for each in container.get("env", ())}
        tokens = [each for each in given.values() if "secretKeyRef" in each.get("valueFrom", {})]
        assert len(tokens) == (name in ("spark", "backfill", "maintain")), name
        assert all(each["valueFrom"]["secretKeyRef"] == {"name": "lowwater-spark", "key": "token"} for each in tokens)
        if name in ("backfill", "maintain"):  # Kubernetes fills in a variable that was named before
            assert list(given) == ["LOWWATER_SPARK_TOKEN", "LOWWATER_SPARK_MASTER"]
            address = "sc://demo-lowwater-spark:15002/;token=$(LOWWATER_SPARK_TOKEN);use_ssl=false"
            assert given["LOWWATER_SPARK_MASTER"]["value"] == address and names_spark(address)
    service = named(documents, "Service", "-spark")["spec"]
    labels = named(documents, "Deployment", "-spark")["spec"]["template"]["metadata"]["labels"]
    assert service["selector"].items() <= labels.items() and service["ports"][0]["port"] == 15002
    airflow = yaml.safe_load((CHART / "values.yaml").read_text())["airflow"]
    (token, connection) = yaml.safe_load(airflow["extraEnv"].replace("{{ .Release.Name }}", "demo"))
    assert token["valueFrom"]["secretKeyRef"] == {"name": "lowwater-spark", "key": "token"}
    said = json.loads(connection["value"])
    assert (said["conn_type"], said["host"], said["port"]) == ("spark_connect", "demo-lowwater-spark", 15002)
    assert (said["password"], said["extra"]) == (f"$({token['name']})", {"use_ssl": False})


SESSION = """
import json, sys
from lowwater.spark.session import build_session
from lowwater.spark.tasks import SparkTasks
spark = build_session("kubernetes", sys.argv[1])
tasks = SparkTasks(lambda: spark)
def work(number):
    import os, time
    time.sleep(2)
    return number, os.environ.get("TMPDIR"), os.environ.get("LOWWATER_CACHE"), "AWS_SECRET_ACCESS_KEY" in os.environ
found = tasks(work, range(6))
print(json.dumps(found))
spark.stop()
"""


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    logs = tmp_path / "executors"
    logs.mkdir()
    server = Api("token-of-the-driver", logs)
    server.add("pods", {"metadata": {"name": "run-1", "namespace": "lakes"}, "spec": {"containers": []}})
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.stop()


@pytest.mark.nightly
@pytest.mark.spark
def test_a_session_gets_executors_by_the_settings_of_the_chart(chart: Path, api: Api, tmp_path: Path) -> None:
    """Spark's driver asks an API server for pods; they are those of the template, and run the program of the image."""
    documents = render(chart, *EVERYTHING)
    conf = tmp_path / "etc"
    conf.mkdir()
    token = tmp_path / "token"
    token.write_text(api.token)
    for name, text in named(documents, "ConfigMap", "-spark")["data"].items():
        lines = [line for line in text.splitlines() if "caCertFile" not in line]  # this server has no TLS
        text = "\n".join(lines).replace("/etc/lowwater/spark", str(conf)).replace("/staging", str(tmp_path))
        (conf / name).write_text(text.replace("/var/run/secrets/kubernetes.io/serviceaccount/token", str(token)) + "\n")
    given = named(documents, "ConfigMap", "-environment")["data"]
    port = str(free_port())
    (container,) = pod_specs(documents)["demo-lowwater-spark"]["containers"]
    here = {"python": sys.executable, "15002": port, "k8s://https://kubernetes.default.svc": f"k8s://{api.address}"}
    command = [here.get(word, word) for word in container["args"]]
    assert set(here.values()) <= set(command)
    variables = {
        **os.environ,
        **{key: value for key, value in given.items() if not key.startswith(("TMP", "HOME", "AWS"))},
        "LOWWATER_SPARK_HOST": "127.0.0.1",
        "LOWWATER_SPARK_POD": "run-1",
        "SPARK_CONF_DIR": str(conf),
        "SPARK_CONNECT_AUTHENTICATE_TOKEN": "token-of-clients",
        "AWS_SECRET_ACCESS_KEY": "of-the-driver",
    }
    with (tmp_path / "server.log").open("w") as log:
        server = subprocess.Popen(
            command, cwd=ROOT, env=variables, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True
        )
    try:
        assert server.stdout is not None and server.stdout.readline() == f"sc://0.0.0.0:{port}\n"
        address = f"sc://127.0.0.1:{port}/;token=token-of-clients;use_ssl=false"
        client = [sys.executable, "-c", SESSION, address]
        done = subprocess.run(client, cwd=ROOT, capture_output=True, text=True, check=False)
    finally:
        server.terminate()
        server.communicate()
    logs = "\n".join(log.read_text()[-1500:] for log in (tmp_path / "executors").glob("*.log"))
    assert done.returncode == 0, done.stderr[-3000:] + logs
    found = json.loads(done.stdout.splitlines()[-1])
    assert [row[0] for row in found] == [*range(6)], logs
    assert {tuple(row[1:]) for row in found} == {(str(tmp_path), f"{tmp_path}/kernels", False)}
    assert api.refused == 0
    pods = [each for each in api.created if each["kind"] == "Pod"]
    assert len(pods) == 2
    for pod in pods:
        (container,) = pod["spec"]["containers"]
        assert container["args"] == ["executor"] and container["image"] == "lowwater:0.2.0"
        assert pod["spec"]["securityContext"]["runAsUser"] == 1000
        assert container["envFrom"] == [{"secretRef": {"name": "lowwater-store-executors"}}]
        assert pod["spec"]["nodeSelector"] == {"pool": "captures"}
        assert [each["name"] for each in pod["metadata"]["ownerReferences"]] == ["run-1"]
        assert container["resources"]["limits"]["memory"] == "4096Mi"
    checked = validated(pods, KUBERNETES[1], tmp_path)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert api.kept["pods"].keys() == {"run-1"}, "executors are gone when the server ends"
