"""Rotary position embedding: problems and contenders."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ..core.dtypes import as_dtype
from ..kernels.rope import rope
from .contender import (
    OURS,
    Array,
    Contender,
    Problem,
    Ready,
    compiled,
    relative_error,
    torch_device,
    torch_ready,
    torch_tensor,
)
from .request import Request

__all__ = ["BOUND", "CHOICES", "DIRECTIONS", "LENGTHS", "PARAMETERS", "VARIANTS", "contenders", "problems"]

BOUND = "memory"
CHOICES = ("implementations",)
DIRECTIONS = ("forward", "backward")
LENGTHS = (1024, 2048, 4096, 8192)
PARAMETERS = ("batch", "heads", "size")
VARIANTS = ("half-split", "interleaved")
_SEED = 0
_BASE = 10000.0


def problems(request: Request, /) -> Iterator[Problem]:
    """Yield one problem for each variant, length and direction; ``"backward"`` is the gradient alone."""
    for variant in request.variants:
        for length in request.lengths:
            rng = np.random.default_rng(_SEED)
            shape = (request.batch, length, request.heads, request.size)
            x = rng.standard_normal(shape, np.float32).astype(as_dtype(request.dtype, "bench"))
            cos, sin = _tables(length, request.size)
            operands: dict[str, Array] = {"x": x, "cos": cos.astype(np.float32), "sin": sin.astype(np.float32)}
            for direction in request.directions:
                sign = 1.0 if direction == "forward" else -1.0
                right = functools.partial(_exact, x, cos, sign * sin, variant)
                yield Problem(
                    "rope",
                    variant,
                    direction,
                    length,
                    operands,
                    3.0 * x.size,
                    2.0 * x.nbytes,
                    error=functools.partial(_error, right),
                )


def _tables(length: int, size: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Cosines and sines ``(T, H/2)``: Su et al., RoFormer, equation 34."""
    angles = np.arange(length)[:, None] * _BASE ** (-np.arange(0, size, 2) / size)
    return np.cos(angles), np.sin(angles)


def _exact(x: Array, cos: NDArray[np.float64], sin: NDArray[np.float64], variant: str) -> NDArray[np.float64]:
    """The rotation of the first row of the batch."""
    pairs = np.asarray(x[0], np.float64)
    half = x.shape[-1] // 2
    shape = (*pairs.shape[:-1], 2, half) if variant == "half-split" else (*pairs.shape[:-1], half, 2)
    axis = -2 if variant == "half-split" else -1
    left, right = np.moveaxis(pairs.reshape(shape), axis, 0)
    cos, sin = cos[:, None], sin[:, None]
    return np.stack([left * cos - right * sin, right * cos + left * sin], axis).reshape(pairs.shape)


def _error(right: Callable[[], NDArray[np.float64]], results: Sequence[Array]) -> float:
    return relative_error(results[0][0], right())


def contenders(request: Request, /) -> list[Contender]:
    """Return ours, the usual formula on ``jax.numpy``, and torch's."""
    ours = [
        Contender(
            OURS if word == "auto" else f"{OURS} {word}", functools.partial(_prepare, functools.partial(_ours, word))
        )
        for word in request.implementations
    ]
    return [*ours, Contender("jax.numpy", functools.partial(_prepare, _usual)), Contender("torch", _prepare_torch)]


def _prepare(rotate: Callable[..., jax.Array], problem: Problem, device: jax.Device) -> Ready:
    def run(x: jax.Array, cos: jax.Array, sin: jax.Array) -> jax.Array:
        return rotate(problem, x, cos, sin)

    def gradient(d_out: jax.Array, cos: jax.Array, sin: jax.Array) -> jax.Array:
        # Linear in x: where it is taken does not matter, and nothing of the forward pass remains.
        _, pullback = jax.vjp(lambda x: run(x, cos, sin), jnp.zeros_like(d_out))
        (result,) = pullback(d_out)
        assert isinstance(result, jax.Array)
        return result

    operands = [problem.operands[name] for name in ("x", "cos", "sin")]
    return compiled(run if problem.direction == "forward" else gradient, operands, device)


def _ours(implementation: str, problem: Problem, x: jax.Array, cos: jax.Array, sin: jax.Array) -> jax.Array:
    layout = "half" if problem.variant == "half-split" else "interleaved"
    return rope(x, cos, sin, layout=layout, implementation=implementation)


def _usual(problem: Problem, x: jax.Array, cos: jax.Array, sin: jax.Array) -> jax.Array:
    """As model code has it: two halves, four products, one concatenation."""
    cos, sin = cos[:, None], sin[:, None]
    if problem.variant == "half-split":
        left, right = jnp.split(x.astype(cos.dtype), 2, axis=-1)
        return jnp.concatenate([left * cos - right * sin, right * cos + left * sin], axis=-1).astype(x.dtype)
    left, right = x[..., ::2].astype(cos.dtype), x[..., 1::2].astype(cos.dtype)
    pairs = jnp.stack([left * cos - right * sin, right * cos + left * sin], axis=-1)
    return pairs.reshape(x.shape).astype(x.dtype)


def _prepare_torch(problem: Problem, device: jax.Device) -> Ready:
    place = torch_device(device)
    import torch

    x, cos, sin = (torch_tensor(problem.operands[name], place) for name in ("x", "cos", "sin"))
    sin = sin if problem.direction == "forward" else -sin
    cos, sin = cos[:, None], sin[:, None]

    def half_split() -> list[torch.Tensor]:
        left, right = x.float().chunk(2, dim=-1)
        return [torch.cat([left * cos - right * sin, right * cos + left * sin], dim=-1).to(x.dtype)]

    def interleaved() -> list[torch.Tensor]:
        left, right = x[..., ::2].float(), x[..., 1::2].float()
        return [torch.stack([left * cos - right * sin, right * cos + left * sin], dim=-1).flatten(-2).to(x.dtype)]

    return torch_ready(half_split if problem.variant == "half-split" else interleaved, place)
