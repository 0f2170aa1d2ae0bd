"""Op: a raw function and its compiled variants; the translation of JAX's errors into ours."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable
from typing import NoReturn, TypeAlias

import jax
import numpy as np

from ..errors import (
    ConcretizationError,
    DeviceMismatch,
    DTypeMismatch,
    OutOfMemory,
    RtxError,
    ShapeMismatch,
    UnsupportedDType,
    UseAfterMove,
    Xla,
)
from .dtypes import WIDE, DTypeName
from .promotion import can_cast_same_kind

__all__ = ["Compiled", "InPlace", "Op", "all_ops", "given_away", "raise_translated", "translate"]

Compiled: TypeAlias = Callable[..., object]

# Bound of the variants of one operation; one executable takes about 0.4 MiB, and XLA's own table is bounded at 8,192.
_MAX_VARIANTS = 2048

all_ops: list[Op] = []
_caches: dict[Hashable, dict[Hashable, tuple[Compiled, bool]]] = {}


class Op:
    """One operation: a raw function with its static parameters, and its compiled variants.

    Parameters
    ----------
    name
        As the user writes it; used in errors and profiles.
    fn
        Raw function: arrays by position, static parameters by keyword.
    params
        Names of the static parameters, in the order in which the doors receive them.
    wide
        True when results are 64-bit even for narrow operands and no static dtype says so.
    """

    __slots__ = ("cache", "fn", "name", "params", "wide")

    def __init__(
        self, name: str, fn: Callable[..., object], params: tuple[str, ...] = (), *, wide: bool = False
    ) -> None:
        self.name, self.fn, self.params, self.wide = name, fn, params, wide
        # An operator and the function of the same meaning are two operations, but one set of compiled calls.
        self.cache: dict[Hashable, tuple[Compiled, bool]] = _caches.setdefault((fn, params, wide), {})
        all_ops.append(self)

    def __repr__(self) -> str:
        return f"Op({self.name!r})"

    def variant(self, static: Hashable = ()) -> tuple[Compiled, bool]:
        """Return the compiled call for these static values and whether it is wide."""
        return self.cache.get(static) or self.build(static)

    def build(self, static: Hashable) -> tuple[Compiled, bool]:
        """Compile (lazily, by shape) the variant for these static values; return it and whether it is wide."""
        fn = self.fn
        if self.params:
            values = static if len(self.params) > 1 else (static,)
            keywords = {
                name: np.dtype(value) if _names_dtype(value) else value
                for name, value in zip(self.params, values, strict=True)  # type: ignore[call-overload]
            }
            wide = self.wide or any(isinstance(value, np.dtype) and value in WIDE for value in keywords.values())

            def raw(*operands: jax.Array) -> object:
                with jax.numpy_rank_promotion("allow"):  # the standard broadcasts, whatever the flag says
                    return fn(*operands, **keywords)
        else:
            wide = self.wide

            def raw(*operands: jax.Array) -> object:
                with jax.numpy_rank_promotion("allow"):
                    return fn(*operands)

        raw.__name__ = raw.__qualname__ = self.name.rpartition(".")[2]
        entry = jax.jit(raw, inline=True), wide
        if len(self.cache) >= _MAX_VARIANTS:
            # First in, first out: cheaper on the hot path than an order by use, and as good for loops over shapes.
            del self.cache[next(iter(self.cache))]
        self.cache[static] = entry
        return entry


def _names_dtype(value: object) -> bool:
    return isinstance(value, DTypeName) or (isinstance(value, type) and issubclass(value, np.generic))


def given_away(operation: str) -> UseAfterMove:
    """Return the error for an Array whose buffer was donated."""
    return UseAfterMove(
        operation,
        got="an Array whose buffer was given away (donated to a compiled call)",
        remedy="Use the result of that call, or do not list the argument in donate_argnums.",
    )


# What the compiler says of shapes beyond 64 bits.
_TOO_LARGE = ("invalid tensor dimension size", "overflow in static extent", "get(shape: collections.abc.Sequence[int]")


def translate(operation: str, error: Exception) -> Exception:
    """Return the typed error for what JAX raised, or the error itself when it already is ours."""
    if isinstance(error, RtxError):
        return error
    text = str(error)
    if "has been deleted" in text or "donated" in text:
        return given_away(operation)
    if "incompatible devices" in text:
        devices = _devices_in(text)
        return DeviceMismatch(
            operation,
            got=f"operands on {' and '.join(devices)}" if devices else text.split("\n")[0],
            wanted="operands committed to one device",
            remedy="Move one of them with to_device.",
            devices=devices,
        )
    if isinstance(error, TypeError) and (key := re.search(r"Cannot interpret '(key<\w+>)'", text)):
        return no_numbers(operation, key[1])
    if any(part in text for part in _TOO_LARGE):
        return OutOfMemory(operation, got="a result of more bytes than 64 bits count", wanted="a smaller shape")
    if "RESOURCE_EXHAUSTED" in text or "Out of memory" in text or isinstance(error, MemoryError):
        return OutOfMemory(operation, got=text.split("\n")[0], remedy="Free Arrays or use smaller pieces.")
    if isinstance(error, jax.errors.ConcretizationTypeError | jax.errors.NonConcreteBooleanIndexError):
        return ConcretizationError(
            operation,
            got="a value that is not known while tracing",
            remedy="Compute it outside of the traced function, mark it static, or use where, cond or while_loop.",
        )
    if isinstance(error, jax.errors.UnexpectedTracerError):
        return ConcretizationError(
            operation,
            got="an Array that a traced function has left behind, so that it never had a value",
            remedy="Return it from the function, or write into an Array that exists: name[...] = value.",
        )
    if isinstance(error, jax.errors.JaxRuntimeError):
        return Xla(operation, got=text, code=text.split(":")[0])
    return error


def no_numbers(operation: str, dtype: str) -> UnsupportedDType:
    """Return the error of random keys as an operand."""
    return UnsupportedDType(
        operation,
        got=dtype,
        wanted="numbers",
        remedy="The numbers of a random key are jax.random.key_data(key).",
        dtype=dtype,
        op=operation,
    )


def _devices_in(text: str) -> tuple[str, ...]:
    """Return the names of the devices in JAX's message, which gives ids and a platform, in order and once each."""
    found: dict[str, None] = {}
    for ids, platform in re.findall(r"device ids \[([\d, ]+)\] on platform (\w+)", text):
        names = {str(device.id): str(device) for device in jax.devices(platform.lower())}
        for number in ids.split(","):
            found[names.get(number.strip(), f"{platform.lower()}:{number.strip()}")] = None
    return tuple(found)


class InPlace:
    """An in-place operator: compiled once with and once without donation of the array that it changes.

    The result is cast back to the array's dtype where the kinds allow it, and must keep the array's shape.
    """

    __slots__ = ("donating", "operation", "plain")

    def __init__(self, name: str, fn: Callable[[jax.Array, jax.Array], jax.Array]) -> None:
        self.operation = f"x {name} y"

        def raw(x: jax.Array, other: jax.Array) -> jax.Array:
            with jax.numpy_rank_promotion("allow"):
                result = fn(x, other)
            if result.shape != x.shape:
                raise ShapeMismatch(
                    f"x {name} y",
                    "y",
                    got=f"shape {other.shape}, which makes the result {result.shape}",
                    wanted=f"a shape that broadcasts to {x.shape}",
                    expected=x.shape,
                    got_shape=other.shape,
                )
            if not can_cast_same_kind(result.dtype, x.dtype):
                raise DTypeMismatch(
                    f"x {name} y",
                    "y",
                    got=f"dtype {other.dtype}, which makes the result {result.dtype}",
                    wanted=f"a result that casts to {x.dtype} within its kind",
                    remedy="Write x = x op y, or convert y with astype.",
                )
            return result.astype(x.dtype)

        self.plain = jax.jit(raw)
        self.donating = jax.jit(raw, donate_argnums=0)


def raise_translated(operation: str, error: Exception) -> NoReturn:
    """Raise the typed error for what JAX raised; our own errors pass as they are."""
    mapped = translate(operation, error)
    if mapped is error:
        raise error
    raise mapped from error
