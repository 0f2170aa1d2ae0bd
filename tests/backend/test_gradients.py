"""Gradients through a JAX backend: against central differences of the reference, and the values pinned at kinks."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rtx_jax.backend import CpuBackend, NumpyBackend
from tests.backend.cases import CASES, Case

B, NUMPY = CpuBackend(), NumpyBackend()

# Away from kinks, infinities and NaN: the generated operands of each operation.
SMOOTH = [
    case
    for case in CASES
    if all(np.isfinite(x).all() and x.size for x in case.operands if x.dtype.kind == "f")
    and not any(
        word in case.id for word in ("large", "many", "far", "thousand", "nothing", "-inf", "one value", "filled")
    )
    and any(x.dtype.kind == "f" for x in case.operands)
]
EXTRA = [
    Case(name, [np.linspace(0.3, 1.7, 6).reshape(2, 3)], lambda B, x, name=name: getattr(B, name)(x), np.asarray)
    for name in ("exp", "log", "sqrt", "abs", "neg", "sigmoid", "tanh", "gelu", "silu", "mish", "selu", "relu")
]


# Each compiles a gradient of its own; those of one and three axes are like those of two.
PARAMETERS = [
    pytest.param(case, marks=pytest.mark.slow) if "1d" in case.id or "3d" in case.id else case
    for case in SMOOTH + EXTRA
]


@pytest.mark.parametrize("case", PARAMETERS, ids=lambda case: case.id)
def test_gradient_is_that_of_central_differences(case: Case) -> None:
    operands = [x.astype(np.float64) if x.dtype.kind == "f" else x for x in case.operands]
    shape = NUMPY.shape(case.call(NUMPY, *operands))
    rng = np.random.default_rng(0)
    weights = rng.normal(size=shape)
    floats = [i for i, x in enumerate(operands) if x.dtype.kind == "f"]
    directions = {i: rng.normal(size=operands[i].shape) for i in floats}

    def reference(step: float) -> float:
        moved = [np.asarray(x + step * directions[i]) if i in directions else x for i, x in enumerate(operands)]
        return float(np.sum(np.asarray(case.call(NUMPY, *moved), np.float64) * weights))

    h = 1e-6
    want = (reference(h) - reference(-h)) / (2 * h)

    with jax.enable_x64(True):
        tensors = [jnp.asarray(x) for x in operands]

        def loss(*moving: jax.Array) -> jax.Array:
            given = list(tensors)
            for i, x in zip(floats, moving, strict=True):
                given[i] = x
            return jnp.sum(case.call(B, *given) * weights)

        gradients = jax.jit(jax.grad(loss, argnums=tuple(range(len(floats)))))(*(tensors[i] for i in floats))
        got = sum(float(jnp.sum(g * directions[i])) for i, g in zip(floats, gradients, strict=True))
    scale = sum(float(np.abs(g).sum()) for g in map(np.asarray, gradients)) + 1
    assert abs(got - want) <= 1e-6 * scale


KINKS = {
    "abs at 0": (lambda x: B.abs(x), [0.0, -0.0, -1.0, 2.0], [0.0, 0.0, -1.0, 1.0]),
    "relu at 0": (lambda x: B.relu(x), [0.0, -1.0, 1.0], [0.0, 0.0, 1.0]),
    "clamp at its ends": (lambda x: B.clamp(x, -1.0, 1.0), [-1.0, 1.0, 0.0, -2.0, 2.0], [1.0, 1.0, 1.0, 0.0, 0.0]),
    "gt_scalar": (lambda x: B.gt_scalar(x, 0.5), [0.0, 0.5, 1.0], [0.0, 0.0, 0.0]),
    "max of equal elements": (lambda x: B.max(x), [1.0, 3.0, 3.0], [0.0, 0.5, 0.5]),
    "min of equal elements": (lambda x: B.min(x), [1.0, 1.0, 3.0], [0.5, 0.5, 0.0]),
    "max_dim of equal elements": (lambda x: B.max_dim(x, 0), [1.0, 2.0, 2.0, 2.0], [0.0, 1.0, 0.0, 0.0]),
    "min_dim of equal elements": (lambda x: B.min_dim(x, 0), [1.0, 0.0, 0.0, 2.0], [0.0, 1.0, 0.0, 0.0]),
    "maximum of equal elements": (lambda x: B.maximum(x, x), [1.0], [1.0]),
    "square at 0": (lambda x: B.pow(x, 2.0), [0.0], [0.0]),
    "power 0 at 0": (lambda x: B.pow(x, 0.0), [0.0, 2.0], [0.0, 0.0]),
    "power 1/2 at 0": (lambda x: B.pow(x, 0.5), [0.0], [np.inf]),
    "sqrt at 0": (lambda x: B.sqrt(x), [0.0], [np.inf]),
    "elu far out": (lambda x: B.elu(x, 1.0), [1e5, -1e5], [1.0, 0.0]),
    "silu at the infinities": (lambda x: B.silu(x), [np.inf, -np.inf], [1.0, 0.0]),
    "gelu at the infinities": (lambda x: B.gelu(x), [np.inf, -np.inf], [1.0, 0.0]),
    "max_pool of equal elements": (
        lambda x: B.max_pool1d(B.reshape(x, (1, 1, 4)), 2),
        [1.0, 1.0, 0.0, 2.0],
        [1.0, 0.0, 0.0, 1.0],
    ),
    "index_select of one row twice": (lambda x: B.index_select(x, [0, 0]), [1.0, 2.0], [2.0, 0.0]),
    "index_add": (lambda x: B.index_add(x, [1, 1], 2), [1.0, 2.0], [1.0, 1.0]),
}


@pytest.mark.parametrize("name", KINKS)
def test_gradient_at_kinks(name: str) -> None:
    call, at, want = KINKS[name]
    got = jax.grad(lambda x: jnp.sum(call(x)))(jnp.asarray(at, jnp.float32))
    np.testing.assert_array_equal(np.asarray(got), np.asarray(want, np.float32))


def test_a_query_that_sees_nothing_has_no_gradient() -> None:
    q = k = v = jnp.ones((1, 1, 3, 4))
    mask = jnp.asarray([[True, True, True], [False, False, False], [True, False, True]])
    gradients = jax.grad(lambda *x: jnp.sum(B.flash_attention(*x, mask, scale=1.0)), argnums=(0, 1, 2))(q, k, v)
    assert all(np.isfinite(g).all() for g in gradients) and not np.asarray(gradients[0])[0, 0, 1].any()


def test_selecting_and_adding_rows_are_adjoint() -> None:
    x, g = B.rand((4, 3)), B.rand((5, 3))
    rows = [3, 0, 0, 2, 3]
    left = B.sum(B.mul(B.index_select(x, rows), g))
    right = B.sum(B.mul(x, B.index_add(g, rows, 4)))
    np.testing.assert_allclose(left, right, rtol=1e-6)
