"""Normalizations over the last axis: problems and contenders."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ..core.dtypes import as_dtype
from ..kernels.norm import layer_norm, rms_norm
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
PARAMETERS = ("batch", "width")
VARIANTS = ("rms_norm", "layer_norm")
_EPS = 1e-6
_SEED = 0


def problems(request: Request, /) -> Iterator[Problem]:
    """Yield one problem for each variant, length and direction; ``"backward"`` is forward and backward together."""
    for variant in request.variants:
        for length in request.lengths:
            operands = _operands(request, variant, length)
            x = operands["x"]
            for direction in request.directions:
                # Backward reads x and the cotangent and writes the gradient; no result of the forward pass is needed.
                yield Problem(
                    "norm",
                    variant,
                    direction,
                    length,
                    operands,
                    (4.0 if direction == "forward" else 12.0) * x.size,
                    (2.0 if direction == "forward" else 3.0) * x.nbytes,
                    error=functools.partial(_error, operands, direction),
                )


def _operands(request: Request, variant: str, length: int) -> dict[str, Array]:
    rng = np.random.default_rng(_SEED)
    dtype = as_dtype(request.dtype, "bench")
    shape = (request.batch, length, request.width)
    operands: dict[str, Array] = {name: rng.standard_normal(shape, np.float32).astype(dtype) for name in ("x", "d_out")}
    operands["weight"] = rng.uniform(0.5, 1.5, request.width).astype(dtype)
    if variant == "layer_norm":
        operands["bias"] = rng.standard_normal(request.width, np.float32).astype(dtype)
    return operands


def _error(operands: Mapping[str, Array], direction: str, results: Sequence[Array]) -> float:
    """The error of the result, or of the gradients to input, weight and bias."""
    right = _forward(operands)[0] if direction == "forward" else _backward(operands)
    pairs = zip(results, [right] if isinstance(right, np.ndarray) else right, strict=True)
    return max(relative_error(got, exact) for got, exact in pairs)


def _forward(operands: Mapping[str, Array]) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """The result, the normalized input, and the factor of each row."""
    x, weight = (np.asarray(operands[name], np.float64) for name in ("x", "weight"))
    if "bias" in operands:
        x = x - x.mean(axis=-1, keepdims=True)
    factor = 1 / np.sqrt((x * x).mean(axis=-1, keepdims=True) + _EPS)
    normalized = x * factor
    result = normalized * weight
    return (result + np.asarray(operands["bias"], np.float64) if "bias" in operands else result), normalized, factor


def _backward(operands: Mapping[str, Array]) -> list[NDArray[np.float64]]:
    """Gradients: Ba, Kiros and Hinton, Layer Normalization, supplement; without the mean for the root mean square."""
    _, normalized, factor = _forward(operands)
    d_out, weight = (np.asarray(operands[name], np.float64) for name in ("d_out", "weight"))
    scaled = d_out * weight
    inner = scaled - normalized * (scaled * normalized).mean(axis=-1, keepdims=True)
    if "bias" in operands:
        inner -= scaled.mean(axis=-1, keepdims=True)
    gradients = [factor * inner, (d_out * normalized).sum(axis=(0, 1))]
    return [*gradients, d_out.sum(axis=(0, 1))] if "bias" in operands else gradients


# --- contenders -----------------------------------------------------------------------------------------------------


def contenders(request: Request, /) -> list[Contender]:
    """Return ours, the usual formulas on ``jax.numpy``, and torch's."""
    ours = [
        Contender(
            OURS if word == "auto" else f"{OURS} {word}", functools.partial(_prepare, functools.partial(_ours, word))
        )
        for word in request.implementations
    ]
    return [
        *ours,
        Contender("jax.numpy", functools.partial(_prepare, _usual)),
        Contender("torch", _prepare_torch),
    ]


def _prepare(normalize: Callable[..., jax.Array], problem: Problem, device: jax.Device) -> Ready:
    names = [name for name in problem.operands if name != "d_out"]
    operands = [problem.operands[name] for name in names]
    if problem.direction == "forward":
        return compiled(normalize, operands, device)

    def both(d_out: jax.Array, *arrays: jax.Array) -> tuple[jax.Array, ...]:
        gradients: tuple[jax.Array, ...] = jax.vjp(normalize, *arrays)[1](d_out)
        return gradients

    return compiled(both, [problem.operands["d_out"], *operands], device)


def _ours(implementation: str, x: jax.Array, weight: jax.Array, bias: jax.Array | None = None) -> jax.Array:
    if bias is None:
        return rms_norm(x, weight, eps=_EPS, implementation=implementation)
    return layer_norm(x, weight, bias, eps=_EPS, implementation=implementation)


def _usual(x: jax.Array, weight: jax.Array, bias: jax.Array | None = None) -> jax.Array:
    """As model code has it: statistics in float32, then back."""
    wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
    if bias is not None:
        wide = wide - wide.mean(axis=-1, keepdims=True)
    result = wide * jax.lax.rsqrt(jnp.square(wide).mean(axis=-1, keepdims=True) + _EPS) * weight
    return (result if bias is None else result + bias).astype(x.dtype)


def _prepare_torch(problem: Problem, device: jax.Device) -> Ready:
    place = torch_device(device)
    import torch

    functional = torch.nn.functional
    tensors = {name: torch_tensor(array, place) for name, array in problem.operands.items()}
    d_out = tensors.pop("d_out")
    shape = (d_out.shape[-1],)

    def normalize(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        if bias is None:
            return functional.rms_norm(x, shape, weight, _EPS)
        return functional.layer_norm(x, shape, weight, bias, _EPS)

    def forward() -> list[torch.Tensor]:
        with torch.no_grad():
            return [normalize(*tensors.values())]

    def both() -> list[torch.Tensor]:
        leaves = [tensor.detach().requires_grad_() for tensor in tensors.values()]
        return list(torch.autograd.grad(normalize(*leaves), leaves, d_out))

    return torch_ready(forward if problem.direction == "forward" else both, place)
