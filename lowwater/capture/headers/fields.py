"""Reads header fields with a check against the end of the bytes, and writes the columns of the decoding kernels."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from typing import Any, cast

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from lowwater.capture.inlining import part

# Reads header fields, with a check against the end of the captured bytes or without. The decoding kernels use it. A
# captured field is never negative, so -1 means "not captured". Positions only grow from the first byte of the record,
# so the end is the only bound.

# Unaligned loads and stores on a byte buffer, for numba kernels. The kernels of `capture` use them. They do not check
# bounds; the caller must.

_HOST_IS_LITTLE = sys.byteorder == "little"


def _pointer(context: Any, builder: Any, signature: Any, args: Any, bits: int) -> Any:
    data = context.make_array(signature.args[0])(context, builder, args[0]).data
    return builder.bitcast(builder.gep(data, [args[1]]), ir.IntType(bits).as_pointer())


def _load(bits: int, big: bool) -> Callable[[Any, int], int]:
    # Numba's own views promise natural alignment, which headers do not have, so these loads use alignment 1.
    # The result is a signed 64-bit integer, because numba turns uint64 + int64 into a float.
    @intrinsic
    def load(typingctx: Any, buffer: Any, at: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            value = builder.load(_pointer(context, builder, signature, args, bits))
            value.align = 1
            if bits > 8 and big == _HOST_IS_LITTLE:
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


@intrinsic
def _prefetch(typingctx: Any, buffer: Any, at: Any) -> Any:
    """Prefetches the bytes at `at` into the cache; `at` may lie behind the buffer."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        flag = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [ir.IntType(8).as_pointer(), flag, flag, flag])
        function = cgutils.get_or_insert_function(  # type: ignore[no-untyped-call]
            builder.module, kind, "llvm.prefetch.p0i8"
        )
        read, locality, data = flag(0), flag(3), flag(1)
        builder.call(function, [_pointer(context, builder, signature, args, 8), read, locality, data])
        return context.get_dummy_value()

    return types.void(buffer, types.int64), generate


@intrinsic
def _with_bits(typingctx: Any, numbers: Any, at: Any, bits: Any) -> Any:
    """Tests eight numbers from numbers[at] on for any of `bits`; returns a byte with a bit for each, first lowest."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        eight = ir.VectorType(ir.IntType(64), 8)
        loaded = builder.load(builder.bitcast(builder.gep(data, [args[1]]), eight.as_pointer()))
        loaded.align = 8
        mask: Any = ir.Constant(eight, ir.Undefined)
        for lane in range(8):
            mask = builder.insert_element(mask, args[2], ir.IntType(32)(lane))
        matches = builder.icmp_unsigned("!=", builder.and_(loaded, mask), ir.Constant(eight, None))
        byte = builder.bitcast(matches, ir.IntType(8))
        return builder.zext(byte if _HOST_IS_LITTLE else builder.bitreverse(byte), ir.IntType(64))

    return types.int64(numbers, types.int64, types.int64), generate


def _python_load(bits: int, big: bool) -> Callable[[Any, int], int]:
    size, order, signed = bits // 8, "big" if big else "little", bits == 64

    def load(memory: Any, at: int) -> int:
        return int.from_bytes(memory[at : at + size], order, signed=signed)  # type: ignore[arg-type]

    return load


def _python_store(bits: int, big: bool) -> Callable[[Any, int, int], None]:
    size, order, mask = bits // 8, "big" if big else "little", (1 << bits) - 1

    def store(memory: Any, at: int, number: int) -> None:
        memory[at : at + size] = (int(number) & mask).to_bytes(size, order)  # type: ignore[arg-type]

    return store


def _python_bits(numbers: Any, at: int, bits: int) -> int:
    return sum(1 << lane for lane in range(8) if numbers[at + lane] & bits)


prefetch = cast("Callable[[Any, int], None]", _prefetch)
with_bits = cast("Callable[[Any, int, int], int]", _with_bits)
byte = _load(8, big=False)
big16 = _load(16, big=True)
big32 = _load(32, big=True)
big64 = _load(64, big=True)
little16 = _load(16, big=False)
little32 = _load(32, big=False)
little64 = _load(64, big=False)
put_big16 = _store(16, big=True)
put_big32 = _store(32, big=True)
put_big64 = _store(64, big=True)
put_little32 = _store(32, big=False)
put_little64 = _store(64, big=False)

PYTHON: dict[Any, Callable[..., Any]] = {
    prefetch: lambda memory, at: None,
    with_bits: _python_bits,
    byte: operator.getitem,
    big16: _python_load(16, big=True),
    big32: _python_load(32, big=True),
    big64: _python_load(64, big=True),
    little16: _python_load(16, big=False),
    little32: _python_load(32, big=False),
    little64: _python_load(64, big=False),
    put_big16: _python_store(16, big=True),
    put_big32: _python_store(32, big=True),
    put_big64: _python_store(64, big=True),
    put_little32: _python_store(32, big=False),
    put_little64: _python_store(64, big=False),
}
"""The same in plain Python, over a `memoryview` (capture.interpretation)."""


@part
def u8(buffer: Any, at: int, end: int) -> int:
    """Reads a byte; -1 if it is not before `end`."""
    return byte(buffer, at) if at < end else -1


@part
def u16(buffer: Any, at: int, end: int) -> int:
    """Reads two bytes, big endian; -1 if they extend beyond `end`."""
    return big16(buffer, at) if at + 2 <= end else -1


@part
def u32(buffer: Any, at: int, end: int) -> int:
    """Reads four bytes, big endian; -1 if they extend beyond `end`."""
    return big32(buffer, at) if at + 4 <= end else -1


@part
def u48(buffer: Any, at: int, end: int) -> int:
    """Reads six bytes, big endian; -1 if they extend beyond `end`."""
    return (big16(buffer, at) << 32) | big32(buffer, at + 2) if at + 6 <= end else -1
