"""Programs of others that read a published table again and again, in a process of their own."""

from __future__ import annotations

import json
import os
import select
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

Seen = tuple[int, int, int]


def by_deltalake(address: str) -> Callable[[], Seen]:
    """Reads by the Python package of Delta, with nothing kept from the last time."""
    import pyarrow.compute as pc
    from deltalake import DeltaTable

    options = {name: value for name, value in os.environ.items() if name.startswith("AWS_")} | {"allow_http": "true"}

    def look() -> Seen:
        numbers = DeltaTable(address, storage_options=options).to_pyarrow_table().column("n")
        return pc.min(numbers).as_py(), pc.max(numbers).as_py(), len(numbers)

    return look


def by_duckdb(address: str) -> Callable[[], Seen]:
    """Reads by DuckDB's `delta_scan`, in a new connection each time."""
    import duckdb
    import duckdb_extension_delta
    import duckdb_extension_httpfs

    extensions = [
        next(Path(package.__path__[0]).rglob("*.duckdb_extension"))
        for package in (duckdb_extension_httpfs, duckdb_extension_delta)
    ]
    endpoint = urlsplit(os.environ["AWS_ENDPOINT_URL"]).netloc

    def look() -> Seen:
        with duckdb.connect() as connection:
            for extension in extensions:
                connection.execute(f"LOAD '{extension}'")
            connection.execute(
                "CREATE SECRET (TYPE s3, PROVIDER config, KEY_ID ?, SECRET ?, REGION 'us-east-1', ENDPOINT ?, "
                "URL_STYLE 'path', USE_SSL false)",
                [os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"], endpoint],
            )
            row = connection.execute("SELECT min(n), max(n), count(*) FROM delta_scan(?)", [address]).fetchone()
            assert row is not None
            return row[0], row[1], row[2]

    return look


def main(reader: str, address: str) -> None:
    """Looks until the input ends."""
    look = {"deltalake": by_deltalake, "duckdb": by_duckdb}[reader](address)
    while not select.select([sys.stdin], [], [], 0)[0]:
        try:
            print(json.dumps(look()), flush=True)
        except Exception as error:  # noqa: BLE001 - of the network, in words of each reader; what is printed is judged
            print(f"! {type(error).__name__}: {str(error)[:300]!r}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
