"""Unaligned loads and stores on a byte buffer, for numba kernels.

Below the kernels of `capture`. They check no bounds: the caller has.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, cast

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

_HOST_IS_LITTLE = sys.byteorder == "little"


def _pointer(context: Any, builder: Any, signature: Any, args: Any, bits: int) -> Any:
    data = context.make_array(signature.args[0])(context, builder, args[0]).data
    return builder.bitcast(builder.gep(data, [args[1]]), ir.IntType(bits).as_pointer())


def _load(bits: int, big: bool) -> Callable[[Any, int], int]:
    # Align 1 is the cause of this module: numba's own views promise natural alignment, which headers do not have.
    # The result is a signed 64-bit integer, since numba turns uint64 + int64 into a float.
    @intrinsic
    def load(typingctx: Any, buffer: Any, at: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            value = builder.load(_pointer(context, builder, signature, args, bits))
            value.align = 1
            if big == _HOST_IS_LITTLE:
                value = builder.bswap(value)
            return value if bits == 64 else builder.zext(value, ir.IntType(64))

        return types.int64(buffer, types.int64), generate

    return cast("Callable[[Any, int], int]", load)


def _store(bits: int, big: bool) -> Callable[[Any, int, int], None]:
    @intrinsic
    def store(typingctx: Any, buffer: Any, at: Any, number: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            value = args[2] if bits == 64 else builder.trunc(args[2], ir.IntType(bits))
            if big == _HOST_IS_LITTLE:
                value = builder.bswap(value)
            builder.store(value, _pointer(context, builder, signature, args, bits)).align = 1
            return context.get_dummy_value()

        return types.void(buffer, types.int64, types.int64), generate

    return cast("Callable[[Any, int, int], None]", store)


big16 = _load(16, big=True)
big32 = _load(32, big=True)
big64 = _load(64, big=True)
little16 = _load(16, big=False)
little32 = _load(32, big=False)
put_big16 = _store(16, big=True)
put_big32 = _store(32, big=True)
put_big64 = _store(64, big=True)
put_little32 = _store(32, big=False)
put_little64 = _store(64, big=False)
