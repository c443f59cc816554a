"""Jars of Delta, with which Spark reads tables of a lake by itself; no stage of a replay needs them. `make setup` runs
`python -m lowwater.spark.jars` once.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
import tempfile
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.error import HTTPError
from urllib.request import build_opener

from lowwater import caches, documents, errors, terminal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VERSION = "4.4.0"
NEEDED = {
    "delta-spark_4.2_2.13": "27d4fd8b1f879535c573ed1c718177d6a27f24d3e626ba02e216369725721ead",
    "delta-storage": "c46735481fa8e326b0957be02b4420cbcab4b325bb08009b7f2045a95133f1cc",
    "delta-kernel-api": "ee9b5a14ac3b7efdff4d61a58478fe8eb0e5a3fbca43889dca7290795fe79a11",
    "delta-kernel-defaults": "225c975199e4718b38ee5b7e6da7f19e9585024262b2cec2656b32151a856b0b",
}
"""Jars that Delta needs, with their sha256. Its other dependencies are older copies of jars in Spark."""

CENTRAL = "https://repo1.maven.org/maven2"
MIRROR = "is there a way to Maven Central? Else name a mirror: DEFAULT_ARTIFACT_REPOSITORY=https://..., or HTTPS_PROXY"
SECONDS = 60.0
"""Within which a repository says the next bytes."""


def jars_folder() -> Path:
    """The folder of the Delta jars of this installation."""
    return Path(sys.prefix) / "share" / "lowwater" / "jars"


def delta_jars() -> list[Path]:
    """The jars that a session needs to read Delta tables.

    Raises:
        ConfigError: they were never fetched, or others can write them.
    """
    jars = [jars_folder() / f"{name}-{VERSION}.jar" for name in NEEDED]
    if not all(jar.exists() for jar in jars):
        raise errors.ConfigError(
            f"the Delta jars are not in {jars_folder()}", "run `lowwater doctor --prepare` once, with network access"
        )
    if caches.written_by_others(jars_folder(), group=True):
        raise errors.ConfigError(
            f"the Delta jars in {jars_folder()} can be written by others, so they are not run",
            "give the folder and its files to your user or root, with a mode as 0755, or install again",
        )
    return jars


def fetch_jars() -> list[Path]:
    """Downloads the jars that are not there, from Maven Central or the repository of DEFAULT_ARTIFACT_REPOSITORY, as in
    Spark, through the proxy of HTTPS_PROXY and HTTP_PROXY; checks the sha256 of all: a repository may answer anything.

    Raises:
        LowwaterError: a download fails, or a jar has another checksum.
    """
    folder = jars_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        hint = "install Lowwater into a virtual environment of your own"
        raise errors.LowwaterError(f"{folder} cannot be made: {error.strerror}", hint) from error
    for name, expected in NEEDED.items():
        jar = folder / f"{name}-{VERSION}.jar"
        there = jar.exists()
        content = jar.read_bytes() if there else _downloaded(f"io/delta/{name}/{VERSION}/{jar.name}")
        actual = hashlib.sha256(content).hexdigest()
        if actual != expected:
            jar.unlink(missing_ok=True)  # no session is to load it
            raise errors.LowwaterError(
                f"{jar}: is not the {name} that Lowwater was built with: sha256 {actual}, not {expected}",
                "look at where it came from, then run `lowwater doctor --prepare`",
            )
        if not there:
            jar.write_bytes(content)
    return delta_jars()


def _downloaded(path: str) -> bytes:
    address = f"{(os.environ.get('DEFAULT_ARTIFACT_REPOSITORY') or CENTRAL).rstrip('/')}/{path}"
    try:
        with build_opener().open(address, timeout=SECONDS) as answer:
            content: bytes = answer.read()
    except (OSError, HTTPException, ValueError) as error:
        if isinstance(error, HTTPError):
            error.close()
        raise errors.LowwaterError(f"{address} cannot be fetched: {error}", MIRROR) from error
    return content


def delta_options() -> dict[str, str]:
    """Returns the settings with which a Spark reads the tables of a lake."""
    return {
        "spark.jars": ",".join(str(jar) for jar in delta_jars()),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    }


def lake_session(lake: Path | str, master: str = "local[*]") -> SparkSession:
    """Starts a Spark in which the tables of a lake have names: that of a query, `measures.links`, `ledgers.contents`.

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
            if folder == root and log.parent.name in documents.OF_FORMAT_1:
                continue
            name, place = re.sub(r"\W", "_", log.parent.name), str(log.parent).replace("'", "\\'")
            spark.sql(f"CREATE TABLE IF NOT EXISTS {schema}.`{name}` USING delta LOCATION '{place}'")
    return spark


def main() -> None:
    """Entry of `python -m lowwater.spark.jars`."""
    try:
        for jar in fetch_jars():
            terminal.say(str(jar))
    except errors.LowwaterError as error:
        terminal.say(str(error), err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
