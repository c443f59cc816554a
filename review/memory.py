"""Keeps the memory of the pages' server small: pages read ledgers of a year, and free them again.

Without this the allocator of C keeps what it once had, an arena for each thread. `lowwater serve` also tells Arrow to
use it, by the variable ARROW_DEFAULT_MEMORY_POOL.
"""

from __future__ import annotations

import ctypes
import gc

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8
"""Options of glibc's `mallopt`."""
MAPPED = 1 << 17
"""Bytes from which a block is mapped by itself, and given back when it is freed."""


def spare_memory() -> None:
    """Asks the allocators of this process to give memory back once it is not used."""
    import pyarrow as pa

    # Each thread holds columns that it decodes; one takes no longer over the small files of a year.
    pa.set_cpu_count(1)
    pa.set_io_thread_count(2)
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):  # of glibc
        for option, value in ((M_ARENA_MAX, 1), (M_MMAP_THRESHOLD, MAPPED), (M_TRIM_THRESHOLD, MAPPED)):
            libc.mallopt(option, value)


def give_back() -> None:
    """Gives free memory back now."""
    gc.collect()
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)
