"""Programs written once: the same loss on every backend, and under jit what plain JAX compiles to."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from rtx_jax.backend import Backend, CpuBackend, NumpyBackend, Tensor
from tests.backend.toy import ToyBackend
from tests.hlo_programs import optimized

B = CpuBackend()


def _softmax(x: jax.Array) -> jax.Array:
    return jax.nn.softmax(x, axis=1)


def _layer(x: jax.Array, w: jax.Array, b: jax.Array) -> jax.Array:
    return jax.nn.relu(jnp.matmul(x, w, precision="highest") + b)


def _conv(x: jax.Array, w: jax.Array) -> jax.Array:
    return lax.conv_general_dilated(
        x, w, (1, 1), ((1, 1), (1, 1)), precision="highest", preferred_element_type=np.float32
    )


X, W, ROW = (2, 8), (8, 8), (8,)
PROGRAMS: dict[str, tuple[Callable[..., object], Callable[..., object], tuple[tuple[int, ...], ...]]] = {
    "add": (lambda x, y: B.add(x, y), lax.add, (X, X)),
    "arithmetic": (
        lambda x, y: B.div(B.sub(B.mul(x, x), y), B.exp(y)),
        lambda x, y: (x * x - y) / jnp.exp(y),
        (X, X),
    ),
    "functions": (
        lambda x: B.add(B.sqrt(B.sin(x)), B.log(B.cos(x))),
        lambda x: jnp.sqrt(jnp.sin(x)) + jnp.log(jnp.cos(x)),
        (X,),
    ),
    "powers": (lambda x: B.add(B.pow(x, 3.0), B.pow(x, 2.0)), lambda x: x**3 + x**2, (X,)),
    "scalars": (
        lambda x: B.mul(B.gt_scalar(x, 0.5), B.clamp(x, -1.0, 1.0)),
        lambda x: (x > 0.5).astype(x.dtype) * jnp.clip(x, -1.0, 1.0),
        (X,),
    ),
    "layer": (lambda x, w, b: B.relu(B.add(B.matmul(x, w), b)), _layer, (X, W, ROW)),
    "bmm": (lambda x, y: B.bmm(x, y), lambda x, y: jnp.matmul(x, y, precision="highest"), ((2, 3, 4), (2, 4, 5))),
    "reductions": (
        lambda x: B.add(B.mean_dim(x, 1), B.var_dim(x, 1)),
        lambda x: jnp.mean(x, 1, keepdims=True) + jnp.var(x, 1, keepdims=True),
        (X,),
    ),
    "sum and max": (
        lambda x: B.div(B.max(x), B.sum(x)),
        lambda x: jnp.max(x).reshape(1) / jnp.sum(x).reshape(1),
        (X,),
    ),
    "softmax": (lambda x: B.softmax(x, 1), _softmax, (X,)),
    "log_softmax": (lambda x: B.log_softmax(x, 1), lambda x: jax.nn.log_softmax(x, axis=1), (X,)),
    "shapes": (
        lambda x: B.transpose(B.reshape(B.permute(x, (1, 0)), (4, 4))),
        lambda x: x.T.reshape(4, 4).T,
        (X,),
    ),
    "index_select": (
        lambda x: B.index_select(x, [1, 0, 1]),
        lambda x: x.at[np.array([1, 0, 1], np.int32)].get(mode="promise_in_bounds", wrap_negative_indices=False),
        (X,),
    ),
    "conv2d": (lambda x, w: B.conv2d(x, w, None, 1, 1), _conv, ((1, 2, 5, 5), (3, 2, 3, 3))),
    "full": (lambda x: B.add(x, B.full((8,), 0.25)), lambda x: x + jnp.full((8,), 0.25), (X,)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_compiled_program_is_that_of_plain_jax(name: str) -> None:
    ours, theirs, shapes = PROGRAMS[name]
    operands = [jnp.zeros(shape, jnp.float32) for shape in shapes]

    def program(call: Callable[..., object]) -> Callable[..., object]:
        def run(*xs: jax.Array) -> object:
            return call(*xs)

        return run

    texts = [optimized(jax.jit(program(call)).lower(*operands)) for call in (ours, theirs)]
    assert texts[0] == texts[1]


def test_reshape_moves_no_memory_under_jit() -> None:
    compiled = jax.jit(lambda x: B.reshape(x, (4, 4))).lower(jnp.zeros((2, 8))).compile()
    assert compiled.memory_analysis().temp_size_in_bytes == 0
    assert "bitcast" in compiled.as_text() or "copy" in compiled.as_text()


def test_another_scalar_compiles_nothing() -> None:
    x = B.ones((3,))
    B.clamp(x, -0.5, 0.5)
    B.gt_scalar(x, 0.5)
    B.full((3,), 0.5)
    with jax.no_tracing():
        for v in (0.25, 0.75):
            B.clamp(x, -v, v)
            B.gt_scalar(x, v)
            B.full((3,), v)


T = TypeVar("T", bound=Tensor)


def step(B: Backend[T], weight: T, x: T, y: T) -> tuple[T, T]:
    """One step of gradient descent of a linear model, the gradient written out."""
    error = B.sub(B.matmul(x, weight), y)
    gradient = B.matmul(B.transpose(x), error)
    rate = B.full((1,), 0.02)
    return B.mean(B.mul(error, error)), B.sub(weight, B.mul(gradient, rate))


@pytest.mark.parametrize("other", [NumpyBackend(), ToyBackend()], ids=lambda other: other.name())
def test_a_training_step_is_the_same_everywhere(other: Backend) -> None:
    losses = []
    for backend in (B, other):
        backend.seed(4)
        weight, x, y = backend.randn((4, 2)), backend.randn((16, 4)), backend.rand((16, 2))
        history = []
        for _ in range(5):
            loss, weight = step(backend, weight, x, y)
            history.append(float(backend.to_data(loss)[0]))
        losses.append(history)
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-5)
    assert losses[0][-1] < losses[0][0]
