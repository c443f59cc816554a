"""Jars of Delta: where they lie, and how they are fetched once.

Only Spark that reads tables of a lake by itself needs these jars; no stage of a replay does. `make setup` runs
`python -m lowwater.spark.jars` once.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pyspark

from lowwater.caches import written_by_others
from lowwater.errors import ConfigError, LowwaterError
from lowwater.terminal import say

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DELTA = "io.delta:delta-spark_4.2_2.13:4.4.0"
NEEDED = {
    "delta-spark_4.2_2.13": "27d4fd8b1f879535c573ed1c718177d6a27f24d3e626ba02e216369725721ead",
    "delta-storage": "c46735481fa8e326b0957be02b4420cbcab4b325bb08009b7f2045a95133f1cc",
    "delta-kernel-api": "ee9b5a14ac3b7efdff4d61a58478fe8eb0e5a3fbca43889dca7290795fe79a11",
    "delta-kernel-defaults": "225c975199e4718b38ee5b7e6da7f19e9585024262b2cec2656b32151a856b0b",
}
"""Jars that Delta needs, with their sha256. Its other dependencies are older copies of jars in Spark."""

MIRROR = "is there a way to Maven Central? Else name a mirror: DEFAULT_ARTIFACT_REPOSITORY=https://..., or HTTPS_PROXY"


def jars_folder() -> Path:
    """The folder of the Delta jars of this installation."""
    return Path(sys.prefix) / "share" / "lowwater" / "jars"


def delta_jars() -> list[Path]:
    """The jars that a session needs to read Delta tables.

    Raises:
        ConfigError: if they were never fetched.
    """
    jars = [jar for name in NEEDED for jar in sorted(jars_folder().glob(f"{name}-[0-9]*.jar"))]
    if len(jars) < len(NEEDED):
        raise ConfigError(
            f"the Delta jars are not in {jars_folder()}", "run `lowwater doctor --prepare` once, with network access"
        )
    if written_by_others(jars_folder(), group=True):
        raise ConfigError(
            f"the Delta jars in {jars_folder()} can be written by others, so they are not run",
            "give the folder and its files to your user or root, with a mode as 0755, or install again",
        )
    return jars


def fetch_jars() -> list[Path]:
    """Downloads the Delta jars through Spark's package resolution; jars that exist are only checked.

    Spark asks Maven Central, or the repository of the environment variable DEFAULT_ARTIFACT_REPOSITORY, through the
    proxy of HTTPS_PROXY and HTTP_PROXY.

    Raises:
        LowwaterError: if the download fails, with its last lines, or a jar has another checksum.
    """
    try:
        return _checked(delta_jars())
    except ConfigError:
        _make_folder(jars_folder())
    home = Path(pyspark.__file__).parent
    with tempfile.TemporaryDirectory(prefix="lowwater-ivy-") as ivy:
        script = Path(ivy) / "nothing.py"
        script.write_text("")
        command = [
            str(home / "bin" / "spark-submit"),
            "--packages",
            DELTA,
            "--conf",
            f"spark.jars.ivy={ivy}",
            "--driver-java-options",
            " ".join(proxy_options(os.environ)),
            str(script),
        ]
        environment = {**os.environ, "SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable}
        finished = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        if finished.returncode != 0:
            tail = "\n".join((finished.stdout + finished.stderr).splitlines()[-12:])
            raise LowwaterError(f"Spark could not resolve {DELTA}:\n{tail}", MIRROR)
        for name in NEEDED:
            for jar in (Path(ivy) / "jars").glob(f"*_{name}-[0-9]*.jar"):
                shutil.copy(jar, jars_folder() / jar.name[jar.name.index(name) :])
    return _checked(delta_jars())


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        hint = "install Lowwater into a virtual environment of your own"
        raise LowwaterError(f"{folder} cannot be made: {error.strerror}", hint) from error


def proxy_options(environment: Mapping[str, str]) -> list[str]:
    """Translates HTTPS_PROXY, HTTP_PROXY and NO_PROXY into options of Java, which does not read them.

    Example:
        >>> proxy_options({"https_proxy": "http://proxy.example:3128", "NO_PROXY": "localhost,.example"})
        ['-Dhttps.proxyHost=proxy.example', '-Dhttps.proxyPort=3128', '-Dhttp.nonProxyHosts=localhost|*.example']
    """
    variables = {name.lower(): value for name, value in environment.items() if name.lower().endswith("_proxy")}
    options = []
    for scheme in ("http", "https"):
        url = urlsplit(variables.get(f"{scheme}_proxy", ""))
        if url.hostname:
            port = url.port or (443 if url.scheme == "https" else 80)
            options += [f"-D{scheme}.proxyHost={url.hostname}", f"-D{scheme}.proxyPort={port}"]
    hosts = [host.strip() for host in variables.get("no_proxy", "").split(",") if host.strip()]
    if options and hosts:
        options.append(
            f"-Dhttp.nonProxyHosts={'|'.join(f'*{host}' if host.startswith('.') else host for host in hosts)}"
        )
    return options


def _checked(jars: list[Path]) -> list[Path]:
    """Checks the sha256 of each jar: a repository may answer with anything."""
    for jar, (name, expected) in zip(jars, NEEDED.items(), strict=True):
        with jar.open("rb") as file:
            actual = hashlib.file_digest(file, "sha256").hexdigest()
        if actual != expected:
            jar.unlink()  # no session is to load it
            raise LowwaterError(
                f"{jar}: is not the {name} that Lowwater was built with: sha256 {actual}, not {expected}",
                "look at where it came from, then run `lowwater doctor --prepare`",
            )
    return jars


def delta_options() -> dict[str, str]:
    """Returns the settings with which a Spark reads the tables of a lake."""
    return {
        "spark.jars": ",".join(str(jar) for jar in delta_jars()),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    }


def lake_session(lake: Path | str, master: str = "local[*]") -> SparkSession:
    """Starts a Spark in which the tables of a lake have names: that of a query, `measures.links`, `ledgers.captures`.

    What a name of Spark may not have is an underscore. Nothing is written; what SQL changes is changed in the lake.
    """
    from pyspark.sql import SparkSession

    options: dict[str, bool | float | int | str | None] = {**delta_options(), "spark.sql.session.timeZone": "UTC"}
    options["spark.sql.warehouse.dir"] = tempfile.mkdtemp()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else functions in Python run on a `python3` of the PATH
    spark = SparkSession.builder.master(master).config(map=options).getOrCreate()
    root = Path(lake).absolute()
    for schema, folder in (("default", root / "tables"), ("measures", root / "measures"), ("ledgers", root)):
        spark.sql(f"CREATE DATABASE IF NOT EXISTS {schema}")
        for log in sorted(folder.glob("*/_delta_log")):
            name, place = re.sub(r"\W", "_", log.parent.name), str(log.parent).replace("'", "\\'")
            spark.sql(f"CREATE TABLE IF NOT EXISTS {schema}.`{name}` USING delta LOCATION '{place}'")
    return spark


def main() -> None:
    """Entry of `python -m lowwater.spark.jars`."""
    try:
        for jar in fetch_jars():
            say(str(jar))
    except LowwaterError as error:
        say(str(error), err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
