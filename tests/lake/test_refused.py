"""What is said of settings that are refused: file, table and key, what is allowed, and an example."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from pydantic import BaseModel

from lowwater.config import Config, load_config
from lowwater.errors import ConfigError
from lowwater.refused import EXAMPLES, example_of
from tests.capturemaker import pcap_bytes, udp
from tests.replay.support import lowwater

REFUSED = [
    (
        '[replay]\nmemory="lots"',
        'replay.memory: must be digits and k, m or g, and not begin with 0; write for example memory = "2g"',
    ),
    (
        '[replay]\nflush="x"',
        "replay.flush: must be immediate, slow N, oop-slow N M or lazy N; write for example flush =",
    ),
    ("[replay]\nchunk=0", "replay.chunk: must be at least 1; write for example chunk = 131072"),
    ('[links.a]\nskew="500000h"', 'links.a: skew: must be below 439200h; write for example skew = "1s"'),
    ('[links.a]\npayload="some"', "links.a.payload: must be a whole number or 'all'; write for example payload = 64"),
    ("[query_sets.a]\nparams={x=[1]}", "query_sets.a.params.x: must be a text in quotes or a whole number or a number"),
    ('[links.a]\nduplicates="drop"', 'links.a.duplicates: \'drop\' is none of "keep", "report 50ms" and "drop 50ms"'),
    (
        '[links.a]\nduplicates="drop 2min"',
        "links.a.duplicates: 'drop 2min': the time must be at least 0s and at most 1min",
    ),
    ('[retention]\nversions="1s"', 'retention.versions: must be at least 1h; write for example versions = "7d"'),
    ('[notify]\nurl="x"', "notify.url: must be an address that begins with http:// or https://; write for example url"),
    (
        '[spark]\nmaster="10.0.0.1:7077"',
        "spark.master: must be local[*], local[N], spark://HOST:PORT, k8s://ADDRESS or yarn; write for example master",
    ),
    ('[spark]\nremote="a:15002"', "spark.remote: must be the address of a Spark Connect server, sc://HOST:PORT; write"),
    ('[spark]\nmaster="yarn"\nremote="sc://a"', "spark: master and remote are two Sparks; write one of them"),
    ('[query_sets."a b"]', "query_sets.a b: is not a valid name of a query set: a letter or _, then"),
]


@pytest.mark.parametrize(("text", "said"), REFUSED)
def test_a_refusal_says_what_is_allowed(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "lowwater.toml").write_text(text)
    with pytest.raises(ConfigError) as found:
        load_config(tmp_path)
    assert str(found.value).startswith(f"{tmp_path / 'lowwater.toml'}: {said}")
    assert "\n" not in str(found.value)
    assert not re.search("Input should|String should|Value error", str(found.value))


TEXTS = ("separator", "quote", "header", "null", "decimal", "protocol", "schemas")
"""Settings of links with other records than packets."""


def _keys(model: type[BaseModel], above: str = "") -> Iterator[str]:
    """Every setting, with `*` for the name of a table that has one; those of one table of their own as its key."""
    for name, field in model.model_fields.items():
        models = [each for each in (field.annotation, *get_args(field.annotation)) if isinstance(each, type)]
        inner = next((each for each in models if issubclass(each, BaseModel)), None)
        named = isinstance(field.default, dict) and not above
        if inner is not None and (named or not above):
            yield from _keys(inner, f"{name}.*" if named else name)
        else:
            yield f"{above}.{name}" if above else name


def test_every_setting_has_an_example_that_is_allowed(tmp_path: Path) -> None:
    keys = list(_keys(Config))
    assert len(keys) > 50
    for key in keys:
        example = example_of(key.replace("*", "main1"))
        assert example, key
    for key, example in EXAMPLES.items():
        table = "sets" if key == "sets" else key.rpartition(".")[0].replace("*", "main1")
        text = example if example.startswith("[") or not table else f"[{table}]\n{example}"
        more = "\n[links.main2]\n[links.main1]" if table == "sets" else ""
        of_records = key.startswith("links.") and key.endswith(TEXTS)
        more = '\nkind = "csv"' if of_records else "\nsampling = true" if key.endswith("shed") else more
        more = "\nsampling = true\nshed = 10" if key.endswith("unmarked_estimates") else more
        more = '\ncaptures = "a-%Y%m%d%H"' if key.endswith("rotation") else more
        (tmp_path / "lowwater.toml").write_text(text + more)
        assert tomllib.loads(text)
        load_config(tmp_path)


def test_an_option_that_gives_a_setting_is_named(tmp_path: Path) -> None:
    capture, query = tmp_path / "a.pcap", tmp_path / "q.gsql"
    capture.write_bytes(pcap_bytes([(10**9, udp("10.0.0.1", "10.0.0.2", 1, 53))]))
    query.write_text("SELECT time, len FROM a.UDP")
    words = ("run", query, "--capture", f"a={capture}", "--engine", "reference", "--out", tmp_path / "out")
    said = lowwater(*words, "--skew", "a=500000h")
    assert said.code == 1 and "--skew a: must be below 439200h" in said.err and "Value error" not in said.err
    said = lowwater("run", query, "--capture", f"9x={capture}", "--engine", "reference", "--out", tmp_path / "out")
    assert said.code == 1 and "9x: is not a valid name of a link" in said.err and "String should" not in said.err
