"""What `make up` prepares, without starting it: the password is the same until `make clean`."""

from __future__ import annotations

from pathlib import Path

from scripts.home import Home


def test_the_password_stays(tmp_path: Path) -> None:
    home = Home(tmp_path / "airflow", tmp_path / "lake", tmp_path / "queries")
    home.prepare()
    password = home.password
    for keep in (True, False):  # `make up` again; `make demo`
        home.prepare(keep=keep)
        assert home.password == password
    assert (home.folder / "password.json").stat().st_mode & 0o77 == 0
