"""Pallas on Triton in one place: how the kernels for CUDA and ROCm are launched, and how they load, store, multiply.

JAX calls this backend of Pallas deprecated since 0.11, and warns at each lowering. When it goes, what takes its place
goes here: no kernel imports it.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl

from .._compat import triton_parameters

__all__ = ["Launch", "blocks_of", "call", "dot", "is_available", "load", "padded", "store"]

_PRECISIONS: dict[str, lax.Precision | lax.DotAlgorithmPreset] = {
    "highest": lax.Precision.HIGHEST,
    "high": lax.DotAlgorithmPreset.TF32_TF32_F32_X3,
    "default": lax.Precision.DEFAULT,
}


@dataclass(frozen=True, slots=True)
class Launch:
    """How a kernel is launched.

    Attributes
    ----------
    grid
        Programs along each axis, three at most.
    warps, stages
        Warps of a program, and how many tiles its innermost loops hold in flight.
    """

    grid: tuple[int, ...]
    warps: int
    stages: int


def is_available() -> bool:
    """Whether this version of JAX has Pallas on Triton."""
    return importlib.util.find_spec("jax.experimental.pallas.triton") is not None


def call(
    kernel: Callable[..., None],
    launch: Launch,
    operands: Sequence[tuple[jax.Array, pl.BlockSpec]],
    results: Sequence[tuple[jax.ShapeDtypeStruct, pl.BlockSpec]],
    *,
    name: str,
    interpret: bool = False,
) -> list[jax.Array]:
    """Run `kernel` once for each point of the grid.

    Parameters
    ----------
    kernel
        Takes the references of the operands, then those of the results.
    operands, results
        Arrays, or the shapes of results, each with the block of it that a program sees. A block may reach past the
        end of its array: `load` must mask what lies there.
    name
        Of the kernel in the compiled program.
    interpret
        Whether to run it as ordinary JAX operations, on any device.
    """
    out: list[jax.Array] = pl.pallas_call(
        kernel,
        grid=launch.grid,
        in_specs=[spec for _, spec in operands],
        out_specs=[spec for _, spec in results],
        out_shape=[shape for shape, _ in results],
        compiler_params=None if interpret else triton_parameters()(num_warps=launch.warps, num_stages=launch.stages),
        interpret=interpret,
        name=name,
    )(*(x for x, _ in operands))
    return out


def load(ref: object, *, mask: jax.Array | None = None, other: float = 0.0) -> jax.Array:
    """Return what a reference, or ``ref.at[index]``, refers to, and `other` where `mask` is False."""
    from jax.experimental.pallas import triton

    at: Any = ref
    loaded: jax.Array = triton.load(at) if mask is None else triton.load(at, mask=mask, other=at.dtype.type(other))
    return loaded


def store(ref: object, x: jax.Array, *, mask: jax.Array | None = None) -> None:
    """Write `x` where a reference, or ``ref.at[index]``, refers to, but for where `mask` is False."""
    from jax.experimental.pallas import triton

    at: Any = ref
    triton.store(at, x, mask=mask)


def dot(a: jax.Array, b: jax.Array, *, across: bool = False, precision: str) -> jax.Array:
    """Return ``a @ b`` in float32, or ``a @ b.T`` where `across`; `precision` is that of float32 factors.

    Each axis is a power of 2 of at least 16.
    """
    exact = _PRECISIONS[precision] if a.dtype == np.float32 else None
    return lax.dot_general(
        a, b, (((1,), (1 if across else 0,)), ((), ())), precision=exact, preferred_element_type=jnp.float32
    )


def padded(size: int) -> int:
    """Return the least power of 2 that holds `size` and that a product takes."""
    return max(16, 1 << (size - 1).bit_length())


def blocks_of(size: int, block: int) -> int:
    """Return how many blocks cover `size`."""
    return -(-size // block)
