"""What a project of Great Expectations over a lake loads when it is opened, so that it judges as audits do.

`great_expectations.yml` names the class as its store of suites. Importing it lets GX's pandas engine judge SQL, LIKE
and columns of Arrow (`providers`), in whichever program opens the project.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from great_expectations.core import ExpectationSuite
from great_expectations.data_context import store

from lowwater.errors import ConfigError
from lowwater.quality.modules import modules_of, require_trusted

from . import own, providers

__all__ = ["ExpectationsStore", "providers"]


# GX puts a store of its own in the place of one whose class has another name.
class ExpectationsStore(store.ExpectationsStore):
    """The suites of a lake, in a process that has the expectations of their authors.

    Without these GX would leave them out of a suite, and say that it holds; so a project cannot be opened where the
    modules may not run.
    """

    def __init__(
        self,
        store_backend: dict[str, Any] | None = None,
        runtime_environment: dict[str, Any] | None = None,
        store_name: str = "no_store_name",
        data_context: Any = None,
        modules: str = "",
    ) -> None:
        if (mine := modules_of(modules)) is not None:
            root = (runtime_environment or {}).get("root_directory")
            require_trusted(mine, Path(root).parent if root else None)
            own.load(mine.folder)
        super().__init__(store_backend, runtime_environment, store_name, data_context)

    def deserialize_suite_dict(self, suite_dict: dict[str, Any]) -> ExpectationSuite:
        """Makes a suite of what is stored. Raises ConfigError where GX would leave out an expectation."""
        suite = super().deserialize_suite_dict(suite_dict)
        kept = [each.expectation_type for each in suite.expectations]
        for entry in suite_dict["expectations"]:
            kind = getattr(entry, "type", None) or entry["type"]
            if kind not in kept:
                raise ConfigError(
                    f"the suite {suite.name} has {kind}, which Great Expectations does not know or cannot read",
                    "correct its type and arguments, or name the folder of its module in [suites] modules, and run "
                    "`lowwater gx` again",
                )
            kept.remove(kind)
        return suite
