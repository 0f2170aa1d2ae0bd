"""A program for any backend, for the type checker: ``mypy --strict tests/backend/typed_program.py``."""

from __future__ import annotations

from typing import TypeVar

import jax
import numpy as np

from rtx_jax.backend import Autodiff, Backend, CpuBackend, Err, Fusion, NumpyBackend, Ok, Tensor, TensorOps

T = TypeVar("T", bound=Tensor)


def train(B: Backend[T], weight: T, batches: list[tuple[T, T]]) -> tuple[T, float]:
    """Fit a linear model."""
    rate = B.full((1,), 0.01)
    last = 0.0
    for x, y in batches:
        error = B.sub(B.matmul(x, weight), y)
        weight = B.sub(weight, B.mul(B.matmul(B.transpose(x), error), rate))
        last = float(B.to_data(B.mean(B.mul(error, error)))[0])
    return weight, last


def energy(B: TensorOps[T], x: T) -> T:
    """Ask for no more than arithmetic."""
    return B.sum(B.mul(x, x))


def attend(B: Backend[T], q: T) -> T:
    """Take the sum of logarithms along with the result."""
    out, lse = B.flash_attention(q, q, q, scale=1.0, return_lse=True)
    plain = B.flash_attention(q, q, q, scale=1.0)
    return B.add(B.add(out, plain), B.reshape(lse, (*lse.shape, 1)))


def on_jax(x: jax.Array) -> jax.Array:
    """The type of a backend's tensors is that of its library."""
    weight, _ = train(CpuBackend(), x, [(x, x)])
    return energy(CpuBackend(), weight)


def on_numpy(x: np.ndarray) -> np.ndarray:
    """The same of the reference."""
    return energy(NumpyBackend(), train(NumpyBackend(), x, [(x, x)])[0])


def descend(B: Autodiff, weight: Tensor, x: Tensor) -> Tensor:
    """Take a step against the gradient."""
    leaf = B.require_grad(weight)
    loss = energy(B, B.matmul(x, leaf))
    match B.try_backward(loss):
        case Ok(grads):
            return B.sub(B.detach(leaf), grads[leaf])
        case Err(error):
            raise error


def stacks(x: np.ndarray) -> Tensor:
    """Backends around backends take the tensors of all."""
    B = Autodiff(Fusion(CpuBackend()), max_rank=None)
    weight = B.from_data(x, x.shape)
    return descend(Autodiff(CpuBackend()), descend(B, weight, weight), weight)
