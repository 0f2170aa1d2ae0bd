"""The faces of the norms: values, the residual sum, gradients by both plain forms, every mode, refusals."""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from rtx_jax import errors
from rtx_jax.kernels.norm import layer_norm, rms_norm, xla
from rtx_jax.kernels.norm.spec import NormSpec
from tests.kernels.modes import assert_same_modes
from tests.kernels.norm.oracle import gradients, norm

RNG = np.random.default_rng(0)
BF16 = np.dtype(ml_dtypes.bfloat16)
F32, F64 = np.dtype(np.float32), np.dtype(np.float64)
# Of results below 8: some roundings, or half a unit in the last place.
BOUND = {F32: 2e-6, F64: 4e-15, np.dtype(np.float16): 2.1e-3, BF16: 1.7e-2}
WHICH = pytest.mark.parametrize("which", ["rms", "layer"])


def data(shape: tuple[int, ...], dtype: np.dtype = F32) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """x, residual, weight, bias; the first two in steps that bfloat16 holds, and so does their sum.

    XLA may leave out the rounding of a sum that is used in float32.
    """
    steps = (np.clip(np.round(RNG.standard_normal(shape) * 16) / 16, -3.9375, 3.9375) for _ in range(2))
    x, residual = (jnp.asarray(step, dtype) for step in steps)
    weight, bias = (jnp.asarray(RNG.uniform(0.5, 1.5, shape[-1]), np.promote_types(dtype, F32)) for _ in range(2))
    return x, residual, weight, bias


def called(which: str, x: jax.Array, weight: jax.Array, bias: jax.Array, **more: object) -> object:
    if which == "rms":
        return rms_norm(x, weight, **more)  # type: ignore[call-overload]
    return layer_norm(x, weight, bias, **more)  # type: ignore[call-overload]


@WHICH
@pytest.mark.parametrize("dtype", BOUND, ids=str)
def test_values(which: str, dtype: np.dtype) -> None:
    with jax.enable_x64(dtype == F64):
        x, residual, weight, bias = data((2, 3, 129), dtype)
        alone = called(which, x, weight, bias, eps=1e-3)
        both = called(which, x, weight, bias, eps=1e-3, residual=residual)
        total = np.asarray(x + residual)
    shift = 0.0 if which == "rms" else np.asarray(bias, np.float64)
    of = functools.partial(norm, weight=np.asarray(weight, np.float64), bias=shift, eps=1e-3, centred=which == "layer")
    assert isinstance(alone, jax.Array) and isinstance(both, tuple)
    assert alone.dtype == both[0].dtype == both[1].dtype == dtype
    np.testing.assert_allclose(np.asarray(alone, np.float64), of(np.asarray(x)), atol=BOUND[dtype], rtol=0)
    np.testing.assert_allclose(np.asarray(both[0], np.float64), of(total), atol=BOUND[dtype], rtol=0)
    np.testing.assert_array_equal(np.asarray(both[1]), total)


@WHICH
@pytest.mark.parametrize("blocked", [False, True])
@pytest.mark.parametrize("dtype", [F32, BF16], ids=str)
def test_gradients(which: str, blocked: bool, dtype: np.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    if blocked:
        monkeypatch.setattr(xla, "_BLOCK_ELEMENTS", 8 * 129)
    x, residual, weight, bias = data((3, 7, 129), dtype)  # 21 rows: two blocks and a part
    seeds = [jnp.asarray(RNG.standard_normal(x.shape), dtype) for _ in range(2)]

    def fn(x: jax.Array, residual: jax.Array, weight: jax.Array, bias: jax.Array) -> object:
        return called(which, x, weight, bias, residual=residual, eps=1e-3)

    found = jax.jit(lambda *operands: jax.vjp(fn, *operands)[1](tuple(seeds)))(x, residual, weight, bias)
    total = np.asarray(x + residual)
    want = gradients(total, np.asarray(weight, np.float64), np.asarray(seeds[0]), 1e-3, which == "layer")
    of_x = want[0] + np.asarray(seeds[1], np.float64)
    bound = 4e-6 if dtype == F32 else 1.6e-2 * 2
    for got in found[:2]:
        assert got.dtype == dtype
        np.testing.assert_allclose(np.asarray(got, np.float64), of_x, atol=bound, rtol=0)
    np.testing.assert_allclose(np.asarray(found[2]), want[1], atol=3e-5, rtol=0)
    if which == "layer":
        np.testing.assert_allclose(np.asarray(found[3]), want[2], atol=3e-5, rtol=0)


@pytest.mark.slow
@WHICH
@pytest.mark.parametrize("shape", [(1, 1), (64, 1000), (1000, 64), (3000, 129)], ids=str)
def test_more_sizes(which: str, shape: tuple[int, ...]) -> None:
    x, seed, weight, bias = data(shape)
    found = jax.jit(lambda x, w, b: jax.vjp(lambda x, w: called(which, x, w, b), x, w)[1](seed))(x, weight, bias)
    eps = 1e-6 if which == "rms" else 1e-5
    want = gradients(np.asarray(x), np.asarray(weight, np.float64), np.asarray(seed), eps, which == "layer")
    for got, exact in zip(found, want, strict=False):
        np.testing.assert_allclose(np.asarray(got), exact, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("wanted", [(True, False, False), (False, True, True), (False, False, True)], ids=str)
def test_only_what_is_wanted(wanted: tuple[bool, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xla, "_BLOCK_ELEMENTS", 8 * 16)
    x, seed, weight, bias = data((21, 16))
    spec = NormSpec(True, True, True, 1e-3, False)
    want = gradients(np.asarray(x), np.asarray(weight, np.float64), np.asarray(seed), 1e-3, True)
    for backward in (xla.backward, xla.backward_by_blocks):
        found = backward((x, weight, bias), (seed,), wanted, spec=spec)
        assert len(found) == sum(wanted)
        for got, exact in zip(found, (w for w, asked in zip(want, wanted, strict=True) if asked), strict=True):
            np.testing.assert_allclose(np.asarray(got), exact, atol=2e-5, rtol=0)


@WHICH
def test_every_mode_of_differentiation(which: str) -> None:
    def fn(x: jax.Array, residual: jax.Array, weight: jax.Array, bias: jax.Array) -> object:
        return called(which, x, weight, bias, residual=residual, eps=1e-2)

    def plain(x: jax.Array, residual: jax.Array, weight: jax.Array, bias: jax.Array) -> object:
        total = x + residual
        rest = total if which == "rms" else total - jnp.mean(total, -1, keepdims=True)
        out = rest * (jnp.mean(rest**2, -1, keepdims=True) + 1e-2) ** -0.5 * weight
        return (out if which == "rms" else out + bias), total

    assert_same_modes(fn, plain, [RNG.standard_normal(s) for s in ((3, 5), (3, 5), (5,), (5,))])


def test_batches_of_any_operand() -> None:
    with jax.enable_x64(True):
        x, _, weight, bias = data((4, 3, 5), F64)
        weights = jnp.stack([weight, 2 * weight, -weight, weight + 1])

        def loss(x: jax.Array, weight: jax.Array) -> jax.Array:
            return jnp.sum(jnp.sin(layer_norm(x, weight, bias)))

        slopes = jax.grad(loss, (0, 1))
        for axes, operands in (((0, None), (x, weight)), ((0, 0), (x, weights)), ((None, 0), (x[0], weights))):
            each = [slopes(*(o if a is None else o[i] for o, a in zip(operands, axes, strict=True))) for i in range(4)]
            inside = jax.vmap(slopes, axes)(*operands)
            outside = jax.grad(lambda *o, axes=axes: jnp.sum(jax.vmap(loss, axes)(*o)), (0, 1))(*operands)
            for k, axis in enumerate(axes):
                stacked = np.stack([np.asarray(e[k]) for e in each])
                np.testing.assert_allclose(np.asarray(inside[k]), stacked, atol=1e-13)
                want = stacked if axis == 0 else stacked.sum(0)
                np.testing.assert_allclose(np.asarray(outside[k]), want, atol=1e-13)


def test_the_operands_alone_are_kept() -> None:
    x, _, weight, bias = data((7, 129), BF16)
    kept = jax.eval_shape(lambda x: jax.vjp(lambda *o: layer_norm(*o), x, weight, bias)[1], x)
    held = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(kept))
    assert held <= x.nbytes + weight.nbytes + bias.nbytes


def test_the_blocked_backward_pass_holds_no_more_than_copies_of_its_operands() -> None:
    rows, size = 4096, 1024
    x = jax.ShapeDtypeStruct((rows, size), jnp.bfloat16)
    weight = jax.ShapeDtypeStruct((size,), jnp.float32)

    def slopes(x: jax.Array, weight: jax.Array, seed: jax.Array) -> tuple[jax.Array, ...]:
        return jax.vjp(rms_norm, x, weight)[1](seed)

    memory = jax.jit(slopes).lower(x, weight, x).compile().memory_analysis()
    assert memory.temp_size_in_bytes < 3 * rows * size * 2


def test_two_runs_are_equal_bit_by_bit() -> None:
    x, _, weight, bias = data((129, 64))
    fn: Callable[..., tuple[jax.Array, ...]] = jax.jit(
        jax.grad(lambda *o: jnp.sum(layer_norm(*o) ** 2), argnums=(0, 1, 2))
    )
    for a, b in zip(fn(x, weight, bias), fn(x, weight, bias), strict=True):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


ONES = jnp.ones((2, 4))


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda: rms_norm(jnp.ones(())), errors.InvalidDimension, "axis"),
        (lambda: rms_norm(jnp.ones((2, 4), int)), errors.UnsupportedDType, "floating"),
        (lambda: rms_norm(ONES, jnp.ones(3)), errors.ShapeMismatch, "weight"),
        (lambda: layer_norm(ONES, None, jnp.ones((1, 4))), errors.ShapeMismatch, "bias"),
        (lambda: rms_norm(ONES, eps=-1.0), errors.InvalidArgument, "eps"),
        (lambda: rms_norm(ONES, residual=jnp.ones((4,))), errors.ShapeMismatch, "residual"),
        (lambda: rms_norm(ONES, residual=jnp.ones((2, 4), jnp.bfloat16)), errors.DTypeMismatch, "residual"),
        (lambda: rms_norm(ONES, implementation="cudnn"), errors.InvalidArgument, "pallas_mosaic_gpu"),
        (lambda: rms_norm(ONES, implementation="pallas_tpu"), errors.BackendLimitation, "not on cpu"),
        (lambda: layer_norm(ONES, implementation="pallas_mosaic_gpu"), errors.BackendLimitation, "multiple of 128"),
    ],
)
def test_refusals(call: Callable[[], object], error: type[errors.RtxError], said: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert said in str(caught.value) and caught.value.operation in ("rms_norm", "layer_norm")
