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


def test_two_that_prepare_side_by_side_have_ports_of_their_own(tmp_path: Path) -> None:
    """The first has not started yet when the second looks for a port."""
    homes = [Home(tmp_path / name, tmp_path / "lake", tmp_path / "queries") for name in ("one", "two")]
    for home in homes:
        home.prepare()
    assert homes[0].address != homes[1].address
