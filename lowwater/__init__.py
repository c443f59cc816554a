"""Lowwater replays packet captures through stream queries, exactly."""

from __future__ import annotations

import os
import sys

# Arrow's usual allocator gives memory back to the system at once, and each page that is asked for again costs a fault.
# Arrow reads the variable once, when it is loaded; its wheels for Linux have jemalloc (docs/adr/0162).
if sys.platform == "linux":
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "jemalloc")

# numba obeys a file of the folder in which it is loaded, which names a folder of code to run. Captures of strangers may
# lie there, so it is loaded from our folder.
if os.path.lexists(".numba_config.yaml"):
    _here = os.open(".", os.O_RDONLY)
    os.chdir(os.path.dirname(__file__))
    try:
        __import__("lowwater.machine_code")
    finally:
        os.fchdir(_here)
        os.close(_here)

TYPE_CHECKING = False  # typing has it too, and takes milliseconds in which Ctrl-C is a traceback
if TYPE_CHECKING:
    from lowwater_notebook import Lake

    from lowwater.lake.results.subscription import subscribe

__version__ = "0.2.0"
__all__ = ["Lake", "__version__", "subscribe"]


_DOORS = {"subscribe": "lowwater.lake.results.subscription", "Lake": "lowwater_notebook"}
"""What programs import from here, and the module of each."""


def __getattr__(name: str) -> object:
    """Imports a door when somebody asks for it: `import lowwater` loads nothing."""
    if name in _DOORS:
        from importlib import import_module

        return getattr(import_module(_DOORS[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
