"""Ten small programs, each in plain JAX and for an array namespace, that must compile to the same optimized HLO.

This module knows no namespace: `Program.ours` takes it as its first parameter. `optimized` lowers and compiles a
jitted function and strips everything that is only a name.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

__all__ = ["PROGRAMS", "Program", "optimized"]


@dataclass(frozen=True, slots=True)
class Program:
    """One program.

    Attributes
    ----------
    operands
        Makes the NumPy operands for a float dtype.
    plain
        The program in plain JAX, of ``jax.Array`` operands.
    ours
        The same program, of a namespace and Arrays.
    donated
        Operands that `ours` writes to; plain JAX donates them.
    wide
        The namespace needs 64-bit types for float32 too (indices are int64).
    """

    name: str
    operands: Callable[[np.dtype], tuple[np.ndarray, ...]]
    plain: Callable[..., object]
    ours: Callable[..., object]
    donated: tuple[int, ...] = ()
    wide: bool = False


def _values(*shape: int) -> Callable[[np.dtype], np.ndarray]:
    return lambda dtype: np.linspace(-2.0, 2.0, int(np.prod(shape))).reshape(shape).astype(dtype)


def _chain_plain(x: jax.Array) -> jax.Array:
    return jnp.exp(-(x * x)) * jnp.sin(x) + 2.0 * x - 1.0


def _chain_ours(xp: ModuleType, x: object) -> object:
    return xp.exp(-(x * x)) * xp.sin(x) + 2.0 * x - 1.0


def _softmax_plain(a: jax.Array, b: jax.Array) -> jax.Array:
    scores = a @ b
    e = jnp.exp(scores - jnp.max(scores, axis=-1, keepdims=True))
    return e / jnp.sum(e, axis=-1, keepdims=True)


def _softmax_ours(xp: ModuleType, a: object, b: object) -> object:
    scores = a @ b
    e = xp.exp(scores - xp.max(scores, axis=-1, keepdims=True))
    return e / xp.sum(e, axis=-1, keepdims=True)


def _norm_plain(x: jax.Array, scale: jax.Array, shift: jax.Array) -> jax.Array:
    centred = x - jnp.mean(x, axis=-1, keepdims=True)
    variance = jnp.mean(centred * centred, axis=-1, keepdims=True)
    return centred / jnp.sqrt(variance + 1e-5) * scale + shift


def _norm_ours(xp: ModuleType, x: object, scale: object, shift: object) -> object:
    centred = x - xp.mean(x, axis=-1, keepdims=True)
    variance = xp.mean(centred * centred, axis=-1, keepdims=True)
    return centred / xp.sqrt(variance + 1e-5) * scale + shift


def _update_plain(x: jax.Array, i: jax.Array, v: jax.Array) -> jax.Array:
    return x.at[i * 2 + 1].set(v)


def _update_ours(xp: ModuleType, x: object, i: object, v: object) -> object:
    x[i * 2 + 1] = v
    return x


def _scan_plain(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    return lax.scan(lambda carry, row: (carry * 0.5 + row, jnp.sum(carry)), jnp.zeros_like(x[0]), x)


def _scan_ours(xp: ModuleType, x: object) -> object:
    return xp.scan(lambda carry, row: (carry * 0.5 + row, xp.sum(carry)), xp.zeros_like(x[0]), x)


def _while_plain(x: jax.Array) -> jax.Array:
    return lax.while_loop(lambda y: jnp.max(y) < 100.0, lambda y: y * 2.0 + 1.0, x)


def _while_ours(xp: ModuleType, x: object) -> object:
    return xp.while_loop(lambda y: xp.max(y) < 100.0, lambda y: y * 2.0 + 1.0, x)


def _argsort_plain(x: jax.Array) -> jax.Array:
    return jnp.argsort(x, axis=-1)


def _argsort_ours(xp: ModuleType, x: object) -> object:
    return xp.argsort(x, axis=-1)


def _masked_plain(x: jax.Array) -> jax.Array:
    return jnp.where(x < 0, jnp.zeros((), x.dtype), x)


def _masked_ours(xp: ModuleType, x: object) -> object:
    x[x < 0] = 0.0
    return x


def _convolve(x: jax.Array, k: jax.Array) -> jax.Array:
    return lax.conv_general_dilated(x, k, (1, 1), "SAME", precision="highest")


def _conv_plain(x: jax.Array, k: jax.Array) -> jax.Array:
    return jnp.maximum(_convolve(x, k), 0.0)


def _conv_ours(xp: ModuleType, x: object, k: object) -> object:
    return xp.maximum(xp.asarray(_convolve(x.jax, k.jax)), 0.0)


def _gradient_plain(w: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
    def loss(w: jax.Array) -> jax.Array:
        error = jnp.tanh(x @ w) - y
        return jnp.mean(error * error)

    return jax.grad(loss)(w)


def _gradient_ours(xp: ModuleType, w: object, x: object, y: object) -> object:
    def loss(w: object) -> object:
        error = xp.tanh(x @ w) - y
        return xp.mean(error * error)

    return xp.grad(loss)(w)


PROGRAMS = (
    Program("elementwise chain", lambda d: (_values(32)(d),), _chain_plain, _chain_ours),
    Program("matmul and softmax", lambda d: (_values(8, 16)(d), _values(16, 8)(d)), _softmax_plain, _softmax_ours),
    Program("layer norm", lambda d: (_values(4, 16)(d), _values(16)(d), _values(16)(d)), _norm_plain, _norm_ours),
    Program(
        "computed-index update",
        lambda d: (_values(16)(d), np.asarray(3, np.int32), np.asarray(7, d)),
        _update_plain,
        _update_ours,
        donated=(0,),
    ),
    Program("scan", lambda d: (_values(6, 4)(d),), _scan_plain, _scan_ours),
    Program("while", lambda d: (_values(8)(d),), _while_plain, _while_ours),
    Program("argsort", lambda d: (_values(4, 8)(d),), _argsort_plain, _argsort_ours, wide=True),
    Program("masked update", lambda d: (_values(16)(d),), _masked_plain, _masked_ours, donated=(0,)),
    Program("convolution", lambda d: (_values(1, 2, 8, 8)(d), _values(3, 2, 3, 3)(d)), _conv_plain, _conv_ours),
    Program(
        "gradient", lambda d: (_values(8, 4)(d), _values(6, 8)(d), _values(6, 4)(d)), _gradient_plain, _gradient_ours
    ),
)

_METADATA = re.compile(r",? ?(metadata|frontend_attributes)=\{[^{}]*(\{[^{}]*\}[^{}]*)*\}")
_PARAMETER = re.compile(r"[\w.\-]+: (?=[(\w])")
_NAME = re.compile(r"%[\w.\-]+")


def optimized(lowered: jax.stages.Lowered) -> str:
    """Return the optimized HLO without names: instructions and computations are numbered as they appear."""
    text = lowered.compile().as_text()
    assert text is not None
    header, _, body = text.partition("\n")
    layout = re.search(r"entry_computation_layout=\{.*?\}\}?(?=,|$)", header)
    start = re.search(r"^(%|ENTRY)", body, re.MULTILINE)
    assert layout is not None and start is not None
    aliases = re.search(r"input_output_alias=\{ .*? \}(?=,|$)", header)
    body = _METADATA.sub("", body[start.start() :])
    body = _PARAMETER.sub("", body)
    numbers: dict[str, str] = {}
    body = _NAME.sub(lambda match: numbers.setdefault(match.group(), f"%{len(numbers)}"), body)
    return f"{layout.group()} {aliases.group() if aliases else ''}\n{body}"
