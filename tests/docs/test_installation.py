"""What the pages on installation, stability and licences say is what the locks, the commands and the code have."""

from __future__ import annotations

import re

import pytest

from lowwater.extras import EXTRAS
from scripts import dependencies
from tests.replay.support import ROOT

DOCS = ROOT / "docs"
PAGES = [DOCS / "installation.md", DOCS / "stability.md"]


def test_extras_and_their_packages_are_those_of_the_locks() -> None:
    text = PAGES[0].read_text(encoding="utf-8").partition("<!-- extras -->")[2].partition("<!-- end -->")[0]
    rows = [[cell.strip(" `") for cell in line.split("|")[1:-1]] for line in text.strip().splitlines()[2:]]
    counts = {name: int(packages) for name, _, packages, _ in rows}
    assert counts.pop("-") == len(dependencies.packages("core"))
    assert counts == {extra: len(dependencies.packages(extra)) for extra in (*EXTRAS, "all")}


def test_licences_are_listed_for_each_package_of_the_locks() -> None:
    listed = dependencies.PAGE.read_text(encoding="utf-8")
    rows = set(re.findall(r"^\| (\S+) \| (\S+) \| [^|]+ \| [^|]+ \|$", listed, re.MULTILINE)) - {("---", "---")}
    packages = {(package.name, package.version) for package in dependencies.packages("all")}
    assert packages and packages <= rows, "run make licences"
    assert len(rows - packages) == 1, "the heading; jars have another form"


@pytest.mark.slow
def test_the_bill_has_each_package_and_each_jar_with_a_hash() -> None:
    bill = dependencies.bill()
    components = {component["name"]: component for component in bill["components"]}
    assert {package.name for package in dependencies.packages("all")} < set(components)
    for name, digest in dependencies.NEEDED.items():
        assert components[name]["hashes"] == [{"alg": "SHA-256", "content": digest}]
    numba = components["numba"]
    assert numba["purl"] == f"pkg:pypi/numba@{numba['version']}"
    assert all(re.fullmatch("[0-9a-f]{64}", part["hashes"][0]["content"]) for part in numba["externalReferences"])
    assert len({component["bom-ref"] for component in bill["components"]}) == len(bill["components"])
