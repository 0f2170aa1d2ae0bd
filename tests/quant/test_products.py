"""Products with quantized matrices: exact integers, the float64 product of the dequantized matrices, memory."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rtx_jax as xp
from rtx_jax.backend.reference import quant as reference
from rtx_jax.errors import InvalidArgument, InvalidDimension, ShapeMismatch, UnsupportedDType
from rtx_jax.quant import (
    PerBlock,
    PerChannel,
    QTensor,
    QuantScheme,
    dequantize,
    integer_matmul,
    qmatmul,
    quantize,
)

EPS = float(np.finfo(np.float32).eps)
ROWS = QuantScheme("int8", PerChannel(0))


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def exact(q: QTensor[jax.Array]) -> np.ndarray:
    """What a quantized matrix stands for in float64, by the reference's formula."""
    scheme = q.stored_scheme
    numbers = reference.dequantize(
        *(None if part is None else np.asarray(part) for part in (q.data, q.scale, q.zero, q.overall)),  # type: ignore[arg-type]
        value=scheme.value,
        shape=q.stored_shape,
        block=scheme.block(q.stored_shape),
        scale_dtype=scheme.scale_dtype,
        packed=scheme.packed,
        dtype=np.dtype(np.float64),
    )
    return numbers.T if q.transposed else numbers


def assert_product(got: object, a: np.ndarray, b: np.ndarray, more: float = 0.0) -> None:
    """A float32 sum of K products is within K eps |a| |b| of the exact one."""
    wanted = a.astype(np.float64) @ b
    bound = (a.shape[-1] + 4) * EPS * (np.abs(a).astype(np.float64) @ np.abs(b)) + more
    assert np.asarray(got).shape == wanted.shape
    assert (np.abs(np.asarray(got) - wanted) <= bound).all()


@pytest.mark.parametrize("rows", [0, 1, 2, 3, 4, 7])
@pytest.mark.parametrize("transposed", [True, False])
def test_integers_are_exact(rows: int, transposed: bool) -> None:
    rng = np.random.default_rng(rows)
    a, b = rng.integers(-128, 128, (rows, 333), np.int8), rng.integers(-128, 128, (333, 24), np.int8)
    a[:, :300], b[:300] = -128, -128  # sums of pairs leave int16
    got = integer_matmul(jnp.asarray(a), jnp.asarray(b.T if transposed else b), transposed=transposed)
    assert got.dtype == jnp.int32
    np.testing.assert_array_equal(np.asarray(got), a.astype(np.int64) @ b.astype(np.int64))


def test_integers_on_arrays_and_their_errors() -> None:
    a = xp.asarray([[100, 100]], dtype=xp.int8)
    got = integer_matmul(a, a.T)
    assert isinstance(got, xp.Array) and int(got[0, 0]) == 20000
    with pytest.raises(UnsupportedDType, match="int8"):
        integer_matmul(a, xp.ones((2, 1)))
    with pytest.raises(InvalidDimension):
        integer_matmul(a, a[0])
    with pytest.raises(ShapeMismatch, match="w.T"):
        integer_matmul(a, a)


WEIGHTS = [
    QuantScheme("int8", PerChannel(0)),
    QuantScheme("int8", PerBlock((64,)), "bfloat16", symmetric=False),
    QuantScheme("int4", PerChannel(0), symmetric=False),
    QuantScheme("int4", PerBlock((2, 32)), "e8m0"),
    QuantScheme("fp8_e4m3"),
    QuantScheme("fp8_e5m2", PerChannel(0), "bfloat16"),
    QuantScheme("fp4_e2m1", PerBlock((16,)), "e4m3", True),
]


@pytest.mark.parametrize("scheme", WEIGHTS)
@pytest.mark.parametrize("transposed", [True, False])
def test_weight_only(scheme: QuantScheme, transposed: bool) -> None:
    """Enough rows for several tiles and a rest, in both orders of storage."""
    shape = (5000, 128) if transposed else (514, 1024)
    q = quantize(jnp.asarray(normal(*shape)), scheme)
    b = q.T if transposed else q
    a = normal(3, b.shape[0], seed=1)
    got = qmatmul(jnp.asarray(a), b)
    assert isinstance(got, jax.Array) and got.dtype == jnp.float32
    assert_product(got, a, exact(b))


@pytest.mark.parametrize(
    ("scheme", "activations"),
    [
        (QuantScheme("int8", PerChannel(0)), ROWS),
        (QuantScheme("int8", PerChannel(0), symmetric=False), ROWS),
        (QuantScheme("int8", PerBlock((64,))), QuantScheme("int8", PerBlock((96,)), symmetric=False)),
        (QuantScheme("int4", PerChannel(0)), ROWS),
        (QuantScheme("int4", PerChannel(0), symmetric=False), QuantScheme("int8", symmetric=False)),
        (QuantScheme("fp8_e4m3", PerChannel(0)), QuantScheme("fp8_e5m2", PerChannel(0))),
        (QuantScheme("fp4_e2m1", PerBlock((32,))), QuantScheme("fp8_e4m3", PerChannel(0), "e4m3", True)),
    ],
)
@pytest.mark.parametrize("rows", [1, 5])
def test_quantized_activations(scheme: QuantScheme, activations: QuantScheme, rows: int) -> None:
    w = quantize(jnp.asarray(normal(40, 576)), scheme)
    a = normal(rows, 576, seed=1)
    qa = quantize(jnp.asarray(a), activations)
    for got in (qmatmul(jnp.asarray(a), w.T, activations=activations), qmatmul(qa, w.T)):
        assert_product(got, exact(qa), exact(w.T))


def test_weights_stored_by_columns_and_transposed_rows() -> None:
    w = quantize(jnp.asarray(normal(64, 40)), QuantScheme("int4", PerChannel(1)))
    a = normal(64, 5, seed=1)
    qa = quantize(jnp.asarray(a), QuantScheme("int8", PerChannel(1), symmetric=False)).T
    assert_product(qmatmul(qa, w), exact(qa), exact(w))


@pytest.mark.parametrize("rows", [1, 4])
def test_sums_of_integers_are_exact(rows: int) -> None:
    """With scales of 1 the result is an integer below 2**24, so it has no error at all."""
    rng = np.random.default_rng(3)
    for value, top in (("int8", 127), ("int4", 7)):
        w = quantize(jnp.asarray(rng.integers(-top, top + 1, (32, 256)), jnp.float32), QuantScheme(value), scale=1.0)  # type: ignore[arg-type]
        a = quantize(jnp.asarray(rng.integers(-127, 128, (rows, 256)), jnp.float32), ROWS, scale=1.0)
        got = np.asarray(qmatmul(a, w.T))
        wanted = np.asarray(dequantize(a)).astype(np.int64) @ np.asarray(dequantize(w)).astype(np.int64).T
        np.testing.assert_array_equal(got, wanted)


def test_long_sums_do_not_wrap() -> None:
    size = 140_000
    a = quantize(jnp.full((1, size), 127, jnp.float32), ROWS, scale=1.0)
    w = quantize(jnp.full((2, size), 127, jnp.float32), QuantScheme("int8"), scale=1.0)
    np.testing.assert_allclose(np.asarray(qmatmul(a, w.T)), 127.0 * 127 * size, rtol=1e-6)


def test_tiny_blocks_and_odd_packed_rows() -> None:
    a = normal(2, 18, seed=1)
    for scheme in (QuantScheme("int8", PerBlock((2,))), QuantScheme("int8", PerChannel(1))):
        w = quantize(jnp.asarray(normal(6, 18)), scheme)
        assert_product(
            qmatmul(jnp.asarray(a), w.T, activations=ROWS), exact(quantize(jnp.asarray(a), ROWS)), exact(w.T)
        )
    odd = quantize(jnp.asarray(normal(6, 15)), QuantScheme("int4", PerChannel(0)))
    assert_product(qmatmul(jnp.asarray(a[:, :15]), odd.T), a[:, :15], exact(odd.T))
    rows = quantize(jnp.asarray(a[:, :15]), ROWS)
    assert_product(qmatmul(rows, odd.T), exact(rows), exact(odd.T))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_dtypes_and_leading_axes(dtype: str) -> None:
    target = getattr(xp, dtype)
    w = quantize(xp.asarray(normal(24, 32)), QuantScheme("int8", PerChannel(0)))
    x = xp.astype(xp.asarray(normal(2, 3, 32, seed=1)), target)
    got = qmatmul(x, w.T)
    assert isinstance(got, xp.Array) and got.dtype == target and got.shape == (2, 3, 24)
    a = np.asarray(xp.astype(x, xp.float64))
    numbers = np.asarray(w.data).astype(np.float64) * np.asarray(w.scale)
    rounding = {"float16": 2.0**-11, "bfloat16": 2.0**-8}.get(dtype, 0.0)
    wanted = a @ numbers.T
    assert np.abs(np.asarray(xp.astype(got, xp.float64)) - wanted).max() <= np.abs(wanted).max() * rounding + 1e-4
    if dtype == "float64":
        np.testing.assert_allclose(np.asarray(got), wanted, rtol=1e-12)
    assert qmatmul(x[0, 0], w.T).shape == (24,)


def test_empty_sizes() -> None:
    w = quantize(jnp.zeros((3, 0), jnp.float32), QuantScheme("int8"))
    assert np.asarray(qmatmul(jnp.ones((2, 0), jnp.float32), w.T)).tolist() == [[0.0] * 3] * 2
    w = quantize(jnp.ones((3, 4), jnp.float32), QuantScheme("int8"))
    assert qmatmul(jnp.ones((0, 4), jnp.float32), w.T).shape == (0, 3)


def test_propagate_quantizes_the_result() -> None:
    w = quantize(jnp.asarray(normal(8, 16)), QuantScheme("int8", PerChannel(0)))
    a = jnp.asarray(normal(4, 16, seed=1))
    qa = quantize(a, ROWS)
    plain = np.asarray(qmatmul(qa, w.T))
    for result, scheme in (
        (qmatmul(qa, w.T, propagate=True), ROWS),
        (qmatmul(a, w.T, activations=ROWS, propagate=True), ROWS),
    ):
        assert isinstance(result, QTensor) and result.scheme == scheme
        assert np.abs(np.asarray(dequantize(result)) - plain).max() <= np.abs(plain).max() / 127 * 0.51
    assert qmatmul(a, w.T, propagate=True).scheme == QuantScheme("int8")


def test_not_finite_rows_stay_so_and_alone() -> None:
    w = quantize(jnp.asarray(normal(8, 16)), QuantScheme("int8", PerChannel(0)))
    a = normal(3, 16, seed=1)
    a[0, 3], a[1, 3] = np.nan, np.inf
    for activations in (None, ROWS):
        got = np.asarray(qmatmul(jnp.asarray(a), w.T, activations=activations))
        assert not np.isfinite(got[:2]).any() and np.isfinite(got[2]).all()


def test_derivatives() -> None:
    """Weight-only products have the derivative of the matrix product; rounded activations have derivative 1."""
    w = quantize(jnp.asarray(normal(24, 160)), QuantScheme("int4", PerBlock((32,))))
    a = jnp.asarray(normal(2, 160, seed=1))
    g = normal(2, 24, seed=2)
    for activations in (None, ROWS):
        grad = jax.grad(lambda a: jnp.sum(qmatmul(a, w.T, activations=activations) * g))(a)  # noqa: B023
        assert_product(grad, g, exact(w))
    _, tangent = jax.jvp(lambda a: qmatmul(a, w.T), (a,), (a,))
    assert_product(tangent, np.asarray(a), exact(w.T))
    by_scale = jax.grad(lambda s: jnp.sum(qmatmul(a, QTensor.tree_unflatten(static, (data, s, None, None)).T) * g))
    (data, scale, _, _), static = w.tree_flatten()
    codes = exact(w) / np.repeat(np.asarray(scale, np.float64), 32, 1)
    wanted = ((g.T.astype(np.float64) @ np.asarray(a, np.float64)) * codes).reshape(24, 5, 32).sum(2)
    np.testing.assert_allclose(np.asarray(by_scale(scale)), wanted, rtol=2e-4, atol=1e-3)


@pytest.mark.parametrize("transform", [jax.jit, xp.jit])
def test_under_jit_and_vmap(transform: Callable[..., Callable[..., object]]) -> None:
    kind = xp.asarray if transform is xp.jit else jnp.asarray
    w = quantize(kind(normal(24, 160)), QuantScheme("int8", PerChannel(0)))
    a = kind(normal(4, 160, seed=1))
    got = transform(lambda a, w: qmatmul(a, w.T, activations=ROWS))(a, w)
    np.testing.assert_allclose(np.asarray(got), np.asarray(qmatmul(a, w.T, activations=ROWS)), rtol=1e-6, atol=1e-6)
    mapped = jax.vmap if transform is jax.jit else xp.vmap
    each = mapped(lambda row: qmatmul(row, w.T))(a)
    np.testing.assert_allclose(np.asarray(each), np.asarray(qmatmul(a, w.T)), rtol=1e-5, atol=1e-5)


def test_bad_operands() -> None:
    w = quantize(xp.ones((4, 6), dtype=xp.float32), QuantScheme("int8"))
    x = xp.ones((2, 6), dtype=xp.float32)
    with pytest.raises(InvalidArgument, match="matmul"):
        qmatmul(x, x)  # type: ignore[call-overload]
    with pytest.raises(ShapeMismatch, match="w.T"):
        qmatmul(x, w)
    with pytest.raises(UnsupportedDType):
        qmatmul(xp.ones((2, 6), dtype=xp.int32), w.T)
    with pytest.raises(InvalidDimension):
        qmatmul(xp.asarray(1.0), w.T)
    cube = quantize(xp.ones((2, 4, 6), dtype=xp.float32), QuantScheme("int8"))
    with pytest.raises(InvalidDimension):
        qmatmul(x, cube)
    with pytest.raises(InvalidDimension):
        cube.T
    with pytest.raises(ShapeMismatch, match="divide"):
        qmatmul(x, w.T, activations=QuantScheme("int8", PerBlock((4,))))


MIB = 1 << 20


@pytest.mark.parametrize("value", ["int8", "int4", "fp8_e4m3", "fp4_e2m1"])
@pytest.mark.parametrize("rows", [1, 16])
def test_the_weight_is_never_unpacked_as_a_whole(value: str, rows: int) -> None:
    """A 2048 x 4096 weight is 32 MiB in float32 and 8 MiB as int8; the compiled call needs far less beside it.

    Only a float8 weight is copied, packed as it is.
    """
    static = QuantScheme(value, PerChannel(0))  # type: ignore[arg-type]
    shape = (2048, 4096)
    half = static.packed
    data = jax.ShapeDtypeStruct(
        (2048, 2048) if half else shape,
        {"int8": jnp.int8, "fp8_e4m3": jnp.float8_e4m3fn}.get(value, jnp.uint8),
    )
    scale = jax.ShapeDtypeStruct((2048, 1), jnp.float32)
    w = QTensor(data, scale, None, None, shape=shape, scheme=static, dtype=np.dtype(np.float32)).T
    a = jax.ShapeDtypeStruct((rows, 4096), jnp.float32)
    for activations in (None, ROWS) if value.startswith("int") else (None,):
        call = jax.jit(lambda a, w: qmatmul(a, w, activations=activations))  # noqa: B023
        memory = call.lower(a, w).compile().memory_analysis()
        assert memory is not None
        assert memory.temp_size_in_bytes < (10 if value == "fp8_e4m3" else 6) * MIB, (
            activations,
            memory.temp_size_in_bytes,
        )


def test_the_derivative_unpacks_it() -> None:
    """XLA has no product of mixed types on CPUs, and the derivative uses the plain one."""
    w = quantize(jnp.ones((1024, 1024), jnp.float32), QuantScheme("int8"))
    call = jax.jit(jax.grad(lambda a: jnp.sum(qmatmul(a, w.T))))
    memory = call.lower(jax.ShapeDtypeStruct((1, 1024), jnp.float32)).compile().memory_analysis()
    assert memory is not None and memory.temp_size_in_bytes >= 4 * MIB
