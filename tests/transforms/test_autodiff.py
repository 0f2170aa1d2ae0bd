"""grad, vjp, jvp, Jacobians: values from formulas worked by hand."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import rtx_jax as xp
from rtx_jax.errors import InvalidArgument, ShapeMismatch, UnsupportedDType


def values(x: object) -> list[object]:
    return np.asarray(x).tolist()


def cube(x: xp.Array) -> xp.Array:
    return xp.sum(x * x * x)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_grad_and_value(dtype: str) -> None:
    x = xp.asarray([1.0, 2.0], dtype=getattr(xp, dtype))
    gradient = xp.grad(cube)(x)
    assert type(gradient) is xp.Array
    assert gradient.dtype == dtype
    assert values(gradient) == [3.0, 12.0]
    value, gradient = xp.value_and_grad(cube)(x)
    assert float(value) == 9.0
    assert values(gradient) == [3.0, 12.0]


def test_grad_of_trees_numbers_and_plain_arrays() -> None:
    gradient = xp.grad(lambda t: xp.sum(t["a"] * t["b"][0]))({"a": xp.asarray([2.0]), "b": (np.asarray([3.0]),)})
    assert values(gradient["a"]) == [3.0]
    assert type(gradient["b"][0]) is xp.Array
    assert values(gradient["b"][0]) == [2.0]
    assert values(xp.grad(lambda s: s * s)(3.0)) == 6.0
    assert values(xp.grad(lambda s: jnp.sum(s * s))(jnp.asarray([3.0]))) == [6.0]


def test_argnums_and_aux() -> None:
    x, y = xp.asarray([1.0, 2.0]), xp.asarray([3.0, 4.0])

    def f(x: xp.Array, y: xp.Array, scale: int = 1) -> tuple[xp.Array, dict[str, xp.Array]]:
        return xp.sum(x * y) * scale, {"y": y}

    (value, aux), (dx, dy) = xp.value_and_grad(f, argnums=(0, -1), has_aux=True)(x, y)
    assert float(value) == 11.0
    assert values(aux["y"]) == [3.0, 4.0]
    assert values(dx) == [3.0, 4.0]
    assert values(dy) == [1.0, 2.0]
    gradient, aux = xp.grad(f, 1, has_aux=True)(x, y, scale=2)
    assert values(gradient) == [2.0, 4.0]


def test_a_write_to_an_argument_stays_inside_and_is_differentiated() -> None:
    def f(x: xp.Array, y: xp.Array) -> xp.Array:
        x[0] = 5.0
        x[1:] *= 2.0
        y += 1.0
        return xp.sum(x * x * y)

    x, y = xp.asarray([1.0, 2.0, 3.0]), xp.asarray([0.0, 0.0, 0.0])
    assert values(xp.grad(f)(x, y)) == [0.0, 16.0, 24.0]
    assert values(x) == [1.0, 2.0, 3.0]
    assert values(y) == [0.0, 0.0, 0.0]


def test_a_captured_array_is_a_constant_of_its_current_value() -> None:
    weight = xp.asarray([2.0])
    gradient = xp.grad(lambda x: xp.sum(x * weight))
    assert values(gradient(xp.ones(1))) == [2.0]
    weight[0] = 7.0
    assert values(gradient(xp.ones(1))) == [7.0]


def test_jit_and_grad_compose() -> None:
    x = xp.asarray([1.0, 2.0])
    assert values(xp.jit(xp.grad(cube))(x)) == [3.0, 12.0]
    assert values(xp.grad(xp.jit(cube))(x)) == [3.0, 12.0]
    assert values(xp.grad(lambda y: xp.sum(xp.grad(cube)(y)))(x)) == [6.0, 12.0]

    @xp.jit
    def scaled(x: xp.Array) -> xp.Array:
        x *= 2.0
        return xp.sum(x * x)

    assert values(xp.grad(scaled)(x)) == [8.0, 16.0]
    assert values(x) == [1.0, 2.0]


@pytest.mark.parametrize(
    "f, derivative",
    [
        (lambda x: x[1] * x[1], [0.0, 4.0, 0.0]),
        (lambda x: xp.sum(xp.take(x, xp.asarray([2, 2]))), [0.0, 0.0, 2.0]),
        (lambda x: xp.sum(xp.sort(x) * xp.asarray([1.0, 2.0, 3.0])), [1.0, 2.0, 3.0]),
        (lambda x: xp.sum(xp.real(xp.fft.rfft(x))), [2.0, 0.5, 0.5]),
    ],
    ids=["index", "take", "sort", "rfft"],
)
def test_the_backward_pass_keeps_64_bits(f: object, derivative: list[float]) -> None:
    gradient = xp.grad(f)(xp.asarray([1.0, 2.0, 3.0]))
    assert gradient.dtype == xp.float64
    np.testing.assert_allclose(gradient, derivative, rtol=1e-15, atol=1e-15)


@pytest.mark.parametrize("start", ["float32", "float64"])
def test_matmul_is_differentiated_in_float64(start: str) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(8, 8)), rng.normal(size=(8, 8))
    b_wide = xp.asarray(b)
    gradient = xp.grad(lambda x: xp.sum(xp.astype(x, xp.float64) @ b_wide))(xp.asarray(a.astype(start)))
    exact = np.broadcast_to(b.sum(axis=1), (8, 8))
    np.testing.assert_allclose(np.asarray(gradient), exact, rtol=1e-15 if start == "float64" else 1e-6)
    value, pullback = xp.vjp(lambda x: x @ b_wide, xp.asarray(a))
    np.testing.assert_allclose(np.asarray(pullback(np.ones((8, 8)))[0]), exact, rtol=1e-14)


def test_jvp_vjp_linearize() -> None:
    x, t = xp.asarray([1.0, 2.0]), xp.asarray([1.0, 0.5])
    value, derivative = xp.jvp(lambda v: v * v, (x,), (t,))
    assert values(value) == [1.0, 4.0]
    assert values(derivative) == [2.0, 2.0]
    value, pullback = xp.vjp(lambda v, w: {"p": v * w}, x, t)
    first, second = pullback({"p": np.ones(2)})
    assert values(value["p"]) == [1.0, 1.0]
    assert values(first) == [1.0, 0.5]
    assert values(second) == [1.0, 2.0]
    value, derivative = xp.linearize(lambda v: v * v, x)
    assert values(derivative(t)) == [2.0, 2.0]
    value, pullback, aux = xp.vjp(lambda v: (v * v, v), x, has_aux=True)
    assert values(aux) == [1.0, 2.0]


def test_a_pullback_survives_a_write_to_the_primal() -> None:
    x = xp.asarray([1.0, 2.0])
    x += 0.0
    _, pullback = xp.vjp(lambda v: v * v, x)
    x[0] = 100.0
    assert values(pullback(xp.ones(2))[0]) == [2.0, 4.0]


def test_jacobians_and_hessian() -> None:
    x = xp.asarray([1.0, 2.0])
    for transform in (xp.jacobian, xp.jacfwd, xp.jacrev):
        assert values(transform(lambda v: v * v)(x)) == [[2.0, 0.0], [0.0, 4.0]]
    nested = xp.jacfwd(lambda t: {"out": t["in"] * 3.0})({"in": x})
    assert type(nested["out"]["in"]) is xp.Array
    assert values(nested["out"]["in"]) == [[3.0, 0.0], [0.0, 3.0]]
    assert values(xp.hessian(cube)(x)) == [[6.0, 0.0], [0.0, 12.0]]


def test_complex_and_integer_arguments() -> None:
    z = xp.asarray([1.0 + 2.0j])
    assert values(xp.grad(lambda v: xp.sum(v * v), holomorphic=True)(z)) == [2.0 + 4.0j]
    with pytest.raises(UnsupportedDType, match=r"grad: argument number 0: got dtype int64.*astype"):
        xp.grad(lambda v: xp.sum(v))(xp.asarray([1, 2]))


def test_what_cannot_be_differentiated() -> None:
    with pytest.raises(ShapeMismatch, match=r"shape \(2,\), wanted a scalar.*jacobian"):
        xp.grad(lambda v: v * v)(xp.ones(2))
    with pytest.raises(InvalidArgument, match=r"argnums: got 3, wanted positions of the 1"):
        xp.grad(cube, argnums=3)(xp.ones(2))
    with pytest.raises(InvalidArgument, match="pair"):
        xp.grad(cube, has_aux=True)(xp.ones(2))
    _, pullback = xp.vjp(lambda v: v * v, xp.ones(2))
    with pytest.raises(ShapeMismatch, match=r"cotangent: got shape \(3,\), wanted shape \(2,\)"):
        pullback(xp.ones(3))


def test_custom_vjp() -> None:
    @xp.custom_vjp
    def f(x: xp.Array) -> xp.Array:
        return x * x

    def forward(x: xp.Array) -> tuple[xp.Array, xp.Array]:
        assert type(x) is xp.Array
        return x * x, x

    def backward(x: xp.Array, cotangent: xp.Array) -> tuple[xp.Array]:
        return (10.0 * x * cotangent,)

    f.defvjp(forward, backward)
    for dtype in (xp.float32, xp.float64):
        x = xp.asarray([1.0, 2.0], dtype=dtype)
        assert values(f(x)) == [1.0, 4.0]
        gradient = xp.grad(lambda v: xp.sum(f(v)))(x)
        assert gradient.dtype == dtype
        assert values(gradient) == [10.0, 20.0]
        assert values(xp.jit(xp.grad(lambda v: xp.sum(f(v))))(x)) == [10.0, 20.0]


def test_custom_jvp_and_nondiff() -> None:
    f = xp.custom_jvp(lambda scale, x: scale * x, nondiff_argnums=(0,))

    @f.defjvp
    def rule(scale: int, primals: tuple[xp.Array], tangents: tuple[xp.Array]) -> tuple[xp.Array, xp.Array]:
        return scale * primals[0], 7.0 * tangents[0]

    assert values(f(3, xp.ones(1))) == [3.0]
    assert values(xp.grad(lambda x: xp.sum(f(3, x)))(xp.ones(1))) == [7.0]


def test_checkpoint() -> None:
    weight = xp.asarray([2.0, 3.0])
    f = xp.checkpoint(lambda x, n: xp.sum(xp.sin(x) * weight) * n, static_argnums=1)
    x = xp.asarray([0.5, 1.0])
    np.testing.assert_allclose(
        np.asarray(xp.grad(lambda v: f(v, 2))(x)), 2 * np.cos([0.5, 1.0]) * [2.0, 3.0], rtol=1e-15
    )


def test_64_bit_types_inside_of_a_function_of_narrow_arguments() -> None:
    """The rules that run after the function has returned must not truncate."""
    table = xp.asarray([1.0 / 3.0, 2.0 / 3.0, 1.0])
    x = xp.asarray([1.0, 2.0, 3.0], dtype=xp.float32)

    def f(v: xp.Array) -> xp.Array:
        wide = xp.astype(v, xp.float64) * table
        carry, _ = xp.scan(lambda c, t: (c + xp.sort(xp.stack([t, t]))[0], None), xp.asarray(0.0), wide)
        return carry + xp.cumulative_sum(wide)[-1]

    expected = 2.0 * (1.0 / 3.0 + 4.0 / 3.0 + 3.0)
    for run in (f, xp.jit(f)):
        value, gradient = xp.value_and_grad(run)(x)
        assert value.dtype == xp.float64
        np.testing.assert_allclose(float(value), expected, rtol=1e-15)
        assert gradient.dtype == xp.float32
        np.testing.assert_allclose(np.asarray(gradient), [2 / 3, 4 / 3, 2.0], rtol=1e-6)
    assert jnp.zeros(1).dtype == np.float32


def test_rules_leave_the_state_of_the_thread() -> None:
    import jax

    f = xp.custom_vjp(lambda x: xp.sum(xp.astype(x, xp.float64)))
    f.defvjp(lambda x: (f.fn(x), x), lambda x, g: (xp.astype(xp.astype(x, xp.float64) * g, xp.float32),))
    jax.grad(lambda x: f(x).jax)(xp.ones(2, dtype=xp.float32))
    assert jnp.zeros(1).dtype == np.float32


@pytest.mark.parametrize("transform", [xp.grad, xp.jacobian, xp.hessian])
def test_complex_results_need_holomorphic(transform):
    with pytest.raises(UnsupportedDType, match="complex128.*holomorphic"):
        transform(lambda x: x * 1j)(xp.asarray(1.0))
    with pytest.raises(UnsupportedDType, match="holomorphic"):
        transform(lambda x: x * 2)(xp.asarray(1j))
    derivative = transform(lambda x: x**3, holomorphic=True)(xp.asarray(2j))
    assert complex(derivative) == (12j if transform is xp.hessian else -12.0)
