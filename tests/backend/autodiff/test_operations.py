"""Gradients of every differentiable operation: against central differences of the reference, and at kinks."""

from __future__ import annotations

import numpy as np
import pytest

from rtx_jax.backend import OPERATIONS, Autodiff, CpuBackend, NumpyBackend
from tests.backend import test_gradients
from tests.backend.cases import Case

B, NUMPY = Autodiff(CpuBackend()), NumpyBackend()

_P, _Q = np.linspace(-1.9, 1.8, 6).reshape(2, 3), np.linspace(1.7, -0.3, 6).reshape(2, 3)
_MORE = [
    Case(name, [_P, _Q], lambda B, *xs, name=name: getattr(B, name)(*xs), np.asarray)
    for name in ("sub", "div", "maximum", "minimum")
] + [
    Case(name, [_P], lambda B, x, name=name, rest=rest: getattr(B, name)(x, *rest), np.asarray)
    for name, rest in {
        "sin": (),
        "cos": (),
        "hard_sigmoid": (),
        "softplus": (),
        "elu": (0.5,),
        "celu": (1.5,),
        "leaky_relu": (0.1,),
        "clamp": (-1.0, 1.0),
        "gt_scalar": (0.5,),
        "pow": (3.0,),
        "max_dim": (1,),
        "min_dim": (0,),
    }.items()
]
_MORE += [
    Case("pow of a fraction", [np.abs(_P)], lambda B, x: B.pow(x, -1.5), np.asarray),
    Case("max_pool2d", [np.cos(np.arange(18.0)).reshape(1, 2, 3, 3)], lambda B, x: B.max_pool2d(x, 2, 1), np.asarray),
]
ALL = test_gradients.SMOOTH + test_gradients.EXTRA + _MORE

# Each compiles a call and its gradient; some that are like others are left to the full tier.
_ALIKE = ("of 0-d", "adaptive", "of axis 0", "of a range", "of vectors", "of one", "rank 3")
CASES = [
    pytest.param(case, marks=pytest.mark.slow)
    if "1d" in case.id or "3d" in case.id or any(word in case.id for word in _ALIKE)
    else case
    for case in ALL
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_gradients_are_those_of_central_differences(case: Case) -> None:
    operands = [x.astype(np.float64) if x.dtype.kind == "f" else x for x in case.operands]
    rng = np.random.default_rng(0)
    weights = rng.normal(size=NUMPY.shape(case.call(NUMPY, *operands)))
    directions = [rng.normal(size=x.shape) if x.dtype.kind == "f" else None for x in operands]

    def reference(step: float) -> float:
        moved = [x if d is None else np.asarray(x + step * d) for x, d in zip(operands, directions, strict=True)]
        return float(np.sum(np.asarray(case.call(NUMPY, *moved), np.float64) * weights))

    h = 1e-6
    want = (reference(h) - reference(-h)) / (2 * h)
    tensors = [B.from_data(x, x.shape) for x in operands]
    leaves = [x if d is None else B.require_grad(x) for x, d in zip(tensors, directions, strict=True)]
    loss = B.sum(B.mul(case.call(B, *leaves), B.from_data(weights, weights.shape)))
    np.testing.assert_allclose(B.to_data(loss)[0], reference(0.0), rtol=1e-9, atol=1e-9)
    grads = B.backward(loss)
    got, size = 0.0, 1.0
    for x, leaf, direction in zip(tensors, leaves, directions, strict=True):
        if direction is not None:
            gradient = np.asarray(grads[leaf])
            assert gradient.shape == x.shape and gradient.dtype == np.float64
            got += float(np.sum(gradient * direction))
            size += float(np.abs(gradient).sum())
    assert abs(got - want) <= 1e-6 * size


def test_the_cases_cover_every_operation_that_has_a_gradient() -> None:
    words = {word for case in ALL for word in case.id.split()}
    assert "flash_attention" in words  # its operation is named attention
    # These have nothing to differentiate by; casts are below.
    assert set(OPERATIONS) - words == {"full", "rand", "randn", "attention", "cast"}


_KINKS = {
    "abs at 0": (lambda x: B.abs(x), [0.0, -0.0, -1.0, 2.0], [0.0, 0.0, -1.0, 1.0]),
    "relu at 0": (lambda x: B.relu(x), [0.0, -1.0, 1.0], [0.0, 0.0, 1.0]),
    "clamp at its ends": (lambda x: B.clamp(x, -1.0, 1.0), [-1.0, 1.0, 0.0, -2.0, 2.0], [1.0, 1.0, 1.0, 0.0, 0.0]),
    "gt_scalar": (lambda x: B.gt_scalar(x, 0.5), [0.0, 0.5, 1.0], [0.0, 0.0, 0.0]),
    "max of equal elements": (lambda x: B.max(x), [1.0, 3.0, 3.0], [0.0, 0.5, 0.5]),
    "max_dim of equal elements": (lambda x: B.max_dim(x, 0), [1.0, 2.0, 2.0, 2.0], [0.0, 1.0, 0.0, 0.0]),
    "maximum of a tensor with itself": (lambda x: B.maximum(x, x), [1.0], [1.0]),
    "sqrt at 0": (lambda x: B.sqrt(x), [0.0], [np.inf]),
    "cast to a wider dtype": (lambda x: B.cast(x, np.float64), [1.5, 2.5], [1.0, 1.0]),
    "cast to a narrower dtype": (lambda x: B.cast(x, np.float16), [1.5, 2.5], [1.0, 1.0]),
    "max_pool of equal elements": (
        lambda x: B.max_pool2d(B.reshape(x, (1, 1, 2, 2)), 2),
        [1.0, 2.0, 2.0, 0.0],
        [0.0, 1.0, 0.0, 0.0],
    ),
    "one row twice": (lambda x: B.index_select(x, [0, 0]), [1.0, 2.0], [2.0, 0.0]),
}


@pytest.mark.parametrize("name", _KINKS)
def test_gradient_at_kinks(name: str) -> None:
    call, at, want = _KINKS[name]
    x = B.require_grad(B.from_data(np.asarray(at, np.float32), (len(at),)))
    got = B.backward(call(x))[x]
    assert got.dtype == np.float32
    np.testing.assert_array_equal(np.asarray(got), np.asarray(want, np.float32))


def test_several_results_of_one_operation() -> None:
    x = np.linspace(-1, 2, 12).reshape(2, 3, 2)
    weights = np.arange(12.0).reshape(2, 3, 2)
    leaf = B.require_grad(B.from_data(x, x.shape))
    mean, variance = B.zeros((3,), dtype=np.float64), B.ones((3,), dtype=np.float64)
    out, moved_mean, moved_variance = B.batch_norm(leaf, mean, variance, training=True)
    # The running statistics are no part of what is differentiated.
    statistics = B.backward(B.sum(B.add(moved_mean, moved_variance)), retain=True)
    np.testing.assert_array_equal(np.asarray(statistics[leaf]), np.zeros(x.shape))
    got = B.backward(B.mul(out, B.from_data(weights, x.shape)))[leaf]
    # The derivative of the normalization (Ioffe and Szegedy 2015, section 3).
    centred, axes = x - x.mean((0, 2), keepdims=True), (0, 2)
    deviation = np.sqrt(x.var(axes, keepdims=True) + 1e-5)
    normal = centred / deviation
    want = weights - weights.mean(axes, keepdims=True) - normal * (weights * normal).mean(axes, keepdims=True)
    np.testing.assert_allclose(np.asarray(got), want / deviation, rtol=1e-9, atol=1e-9)


def test_the_log_sum_exp_of_attention_has_a_gradient() -> None:
    q = B.require_grad(B.from_data(np.ones((1, 1, 1, 2)), (1, 1, 1, 2)))
    keys = np.asarray([[0.5, -1.0], [2.0, 0.25]]).reshape(1, 1, 2, 2)
    k = B.from_data(keys, keys.shape)
    _, lse = B.flash_attention(q, k, k, scale=1.0, return_lse=True)
    scores = keys[0, 0].sum(1)
    weights = np.exp(scores) / np.exp(scores).sum()
    np.testing.assert_allclose(np.asarray(B.backward(lse)[q])[0, 0, 0], weights @ keys[0, 0], rtol=1e-6)
