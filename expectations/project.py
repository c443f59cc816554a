"""Writes a project of Great Expectations over a lake: its datasource, assets, validations and checkpoints.

`lowwater.quality.gx_project` makes the batches. What people add to a project stays; what is there is brought up to
date. Files are made beside their places and renamed, so that a reader sees whole files.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import great_expectations as gx
from great_expectations.checkpoint import UpdateDataDocsAction
from great_expectations.core.batch_definition import BatchDefinition
from great_expectations.core.partitioners import FileNamePartitionerPath
from great_expectations.core.yaml_handler import YAMLHandler

from lowwater.errors import LakeError, LowwaterError
from lowwater.storage.untrusted import require_inside

from .context import ExpectationsStore

if TYPE_CHECKING:
    from lowwater.quality.gx_project import Asset

SOURCE = "lowwater"
_INTERVAL = re.compile(r"\d{4}-\d\d-\d\dT\d{6}[^_]*Z_.*Z")
_STORE = re.compile(r"(\n +)base_directory: expectations/")
_INDEX = re.compile(r"(\n +)(class_name: DefaultSiteIndexBuilder)")
_KEPT = ("checkpoints", "validation_definitions", "plugins", "great_expectations.yml", ".gitignore")
RESULTS_SHOWN = 200
"""Validations that the index of the Data Docs shows; it reads all of them each time."""


def write_project(
    root: Path, assets: Sequence[Asset], suites: Mapping[str, Mapping[str, str]], scratch: Path, modules: str = ""
) -> None:
    """Writes the project of a lake, or brings it up to date; LakeError where GX cannot open what is there already. The
    `modules`, a folder, have expectations of its suites: whoever opens the project runs them."""
    draft, place = scratch / "gx", root / "gx"
    for kept in [*(place / name for name in _KEPT), root / "expectations"]:
        for path in [kept, *kept.rglob("*")]:
            require_inside(path)
    shutil.copytree(place, draft, ignore=lambda folder, names: {*names} - {*_KEPT} if Path(folder) == place else ())
    shutil.copytree(root / "expectations", scratch / "expectations")
    config = draft / "great_expectations.yml"
    with _opened(place):
        if not config.exists():
            gx.get_context(mode="file", project_root_dir=scratch)
    text = config.read_text(encoding="utf-8")
    if _STORE.search(text):  # the suites of a project are those of the audits
        text = _STORE.sub(r"\1suppress_store_backend_id: true\1base_directory: ../expectations/", text)
        text = _INDEX.sub(rf"\1\2\1validation_results_limit: {RESULTS_SHOWN}", text)
        config.write_text(text, encoding="utf-8")
    with _opened(place):
        _judge_as_audits(config, modules)
        context = gx.get_context(mode="file", project_root_dir=scratch)
        _assets(context, place / "data", assets)
        _validations(context, suites)
    for file in [file for name in _KEPT for file in (draft / name, *(draft / name).rglob("*")) if file.is_file()]:
        target = place / file.relative_to(draft)
        target.parent.mkdir(parents=True, exist_ok=True)
        file.replace(target)


def _judge_as_audits(config: Path, modules: str) -> None:
    """Has the store of suites, if it is still one of GX or ours, load what audits judge by."""
    handler = YAMLHandler()
    settings: Any = handler.load(config.read_text(encoding="utf-8"))
    store = settings["stores"][settings["expectations_store_name"]]
    wanted = {"module_name": ExpectationsStore.__module__, "modules": modules}
    if store["class_name"] == ExpectationsStore.__name__ and any(store.get(name) != wanted[name] for name in wanted):
        store.update(wanted)
        config.write_text(str(handler.dump(settings)), encoding="utf-8")


@contextmanager
def _opened(place: Path) -> Iterator[None]:
    """Words whatever Great Expectations says of a project that is damaged; its errors have no class in common."""
    try:
        yield
    except (LowwaterError, OSError):
        raise
    except Exception as error:
        said = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise LakeError(
            f"{place}: Great Expectations cannot open this project: {said[:200]}",
            f"mend {place / 'great_expectations.yml'}, or remove {place}: this command then writes it anew",
        ) from error


def _assets(context: Any, data: Path, assets: Sequence[Asset]) -> None:
    source = context.data_sources.all().get(SOURCE)
    if source is None:
        source = context.data_sources.add_pandas_filesystem(SOURCE, base_directory=data)
    source.base_directory = data  # the lake may have been moved
    there = {asset.name for asset in source.assets}
    for each in assets:
        if each.name not in there:
            chosen = {"columns": list(each.columns)} if each.columns else {}
            source.add_parquet_asset(each.name, dtype_backend="pyarrow", **chosen)
    source = context.data_sources.get(SOURCE)
    for each in assets:
        asset = source.get_asset(each.name)
        # What is not said of a partitioner is not written, and GX then reads one of years.
        wanted = {
            name: FileNamePartitionerPath(
                regex=re.compile(f"{re.escape(f'{each.folder}/{name}')}\\.parquet$"), param_names=()
            )
            for name in each.batches
        }
        of_people = [old for old in asset.batch_definitions if old.name in wanted or not _INTERVAL.fullmatch(old.name)]
        known = {old.name for old in of_people}
        added = [BatchDefinition(name=name, partitioner=wanted[name]) for name in wanted if name not in known]
        for definition in added:
            definition.set_data_asset(asset)
        asset.batch_definitions = [*of_people, *added]
        asset.update_batch_definition_field_set()
    context.update_datasource(source)  # one by one, GX would write its file anew for each batch


def _validations(context: Any, suites: Mapping[str, Mapping[str, str]]) -> None:
    definitions = {each.name for each in context.validation_definitions.all()}
    checkpoints = {each.name: each for each in context.checkpoints.all()}
    assets = {asset.name: asset for asset in context.data_sources.all()[SOURCE].assets}
    for query_set, about in suites.items():
        mine = []
        for name, asset in about.items():
            if asset in assets:
                if name not in definitions:
                    batches = {each.name: each for each in assets[asset].batch_definitions}
                    data, suite = batches.get("newest", batches["whole"]), context.suites.get(name)
                    context.validation_definitions.add(gx.ValidationDefinition(name=name, data=data, suite=suite))
                mine.append(context.validation_definitions.get(name))
        if query_set not in checkpoints:
            docs = UpdateDataDocsAction(name="data docs")
            context.checkpoints.add(gx.Checkpoint(name=query_set, validation_definitions=mine, actions=[docs]))
        else:
            checkpoint = checkpoints[query_set]
            others = {each.name for each in checkpoint.validation_definitions}
            if added := [each for each in mine if each.name not in others]:
                checkpoint.validation_definitions += added
                checkpoint.save()
