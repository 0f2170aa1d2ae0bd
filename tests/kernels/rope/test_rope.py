"""The face of rope: layouts, tables, positions, partial rotation, derivatives, donation, refusals."""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from rtx_jax import errors
from rtx_jax.kernels.rope import rope, rope_frequencies, xla
from tests.kernels.modes import assert_same_modes
from tests.kernels.rope.oracle import turned

RNG = np.random.default_rng(0)
LAYOUT = pytest.mark.parametrize("layout", ["half", "interleaved"])
F32, BF16 = np.dtype(np.float32), np.dtype(ml_dtypes.bfloat16)
# Of numbers up to about 8: some roundings, or half a unit in the last place of the result.
BOUND = {np.dtype(np.float32): 2e-6, np.dtype(np.float64): 4e-15, np.dtype(np.float16): 2.1e-3, BF16: 1.7e-2}


def radians(positions: np.ndarray, channels: int) -> np.ndarray:
    return np.asarray(positions, np.float64)[..., None] * 1e4 ** (-2.0 * np.arange(channels // 2) / channels)


def tables(positions: int, channels: int, dtype: np.dtype = F32) -> tuple[jax.Array, jax.Array]:
    angle = radians(np.arange(positions), channels)
    return jnp.asarray(np.cos(angle), dtype), jnp.asarray(np.sin(angle), dtype)


@LAYOUT
@pytest.mark.parametrize("dtype", BOUND, ids=str)
@pytest.mark.parametrize("channels", [10, 6], ids=["all", "partial"])
def test_values(layout: str, dtype: np.dtype, channels: int) -> None:
    with jax.enable_x64(dtype.itemsize == 8):
        x = jnp.asarray(RNG.standard_normal((2, 7, 3, 10)), dtype)
        got = rope(x, *tables(7, channels, np.promote_types(dtype, np.float32)), layout=layout, rotary_dim=channels)
    want = turned(np.asarray(x), radians(np.arange(7), channels)[:, None], layout)
    assert got.shape == x.shape and got.dtype == dtype
    np.testing.assert_allclose(np.asarray(got, np.float64), want, atol=BOUND[dtype], rtol=0)
    np.testing.assert_array_equal(np.asarray(got)[..., channels:], np.asarray(x)[..., channels:])


@pytest.mark.slow
@LAYOUT
@pytest.mark.parametrize("length", [1, 64, 1000])
@pytest.mark.parametrize("channels", [2, 64, 130])
def test_more_sizes(layout: str, length: int, channels: int) -> None:
    x = jnp.asarray(RNG.standard_normal((1, length, 2, 130)), jnp.float32)
    angle = radians(np.arange(length), channels)
    got, back = jax.vjp(lambda x: rope(x, *tables(length, channels), layout=layout, rotary_dim=channels), x)
    np.testing.assert_allclose(np.asarray(got), turned(np.asarray(x), angle[:, None], layout), atol=3e-6)
    want = turned(np.asarray(x), -angle[:, None], layout)
    np.testing.assert_allclose(np.asarray(back(x)[0]), want, atol=3e-6)


@LAYOUT
@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.uint32], ids=str)
def test_positions_of_any_integer_dtype_are_traced(layout: str, dtype: type) -> None:
    x = jnp.asarray(RNG.standard_normal((2, 3, 2, 4)), jnp.float32)
    positions = np.array([[7, 0, 199], [3, 3, 100]], dtype)
    want = turned(np.asarray(x), radians(positions, 4)[:, :, None], layout)
    of_tables = jax.jit(lambda x, p: rope(x, *tables(200, 4), p, layout=layout))
    of_frequencies = jax.jit(lambda x, p: rope(x, positions=p, frequencies=rope_frequencies(4), layout=layout))
    for fn in (of_tables, of_frequencies):
        np.testing.assert_allclose(np.asarray(fn(x, positions)), want, atol=2e-6)


def test_positions_far_out_are_exact_without_tables() -> None:
    frequencies = rope_frequencies(8)
    positions = np.array([0, 1, 99_999, 1_048_575, 2**31 - 1, -1, -70_000], np.int32)
    x = jnp.ones((7, 8), jnp.float32)
    got = rope(x, positions=positions, frequencies=frequencies, seq_axis=0)
    # The angles in float64 are exact to 2e-7 themselves at 2**31.
    np.testing.assert_allclose(np.asarray(got), turned(np.ones((7, 8)), radians(positions, 8), "half"), atol=1e-6)
    with jax.enable_x64(True):
        wide = rope(jnp.ones((3, 8)), positions=positions[:3], frequencies=frequencies, seq_axis=0)
    np.testing.assert_allclose(np.asarray(wide), turned(np.ones((3, 8)), radians(positions[:3], 8), "half"), atol=1e-10)


def test_a_row_that_the_tables_do_not_have_is_nan() -> None:
    got = rope(jnp.ones((1, 4, 1, 4)), *tables(5, 4), np.array([4, 5, -1, 0]))
    np.testing.assert_array_equal(np.isnan(np.asarray(got)[0, :, 0, 0]), [False, True, True, False])


@LAYOUT
def test_axes_of_positions_anywhere(layout: str) -> None:
    x = RNG.standard_normal((2, 5, 3, 4)).astype(np.float32)
    cos, sin = tables(5, 4)
    want = turned(x, radians(np.arange(5), 4)[:, None], layout)
    for axis, order in ((2, (0, 2, 1, 3)), (-2, (0, 2, 1, 3)), (0, (1, 0, 2, 3))):
        got = rope(jnp.asarray(x.transpose(order)), cos, sin, layout=layout, seq_axis=axis)
        np.testing.assert_allclose(np.asarray(got), want.transpose(order), atol=2e-6)


def test_special_values_stay_in_their_pair() -> None:
    x = np.zeros((1, 2, 1, 4), np.float32)
    x[0, 1, 0, 0] = np.nan
    x[0, 0, 0, 1] = np.inf
    got = np.asarray(rope(jnp.asarray(x), *tables(2, 4)))[0, :, 0]
    np.testing.assert_array_equal(np.isnan(got), [[False, False, False, True], [True, False, True, False]])
    assert got[0, 1] == np.inf  # and infinity times the sine of 0 is no number


# Derivatives


def _plain(x: jax.Array, cos: jax.Array, sin: jax.Array, layout: str) -> jax.Array:
    """For positions on axis 1, by scattering both channels of each pair."""
    pairs = cos.shape[1]
    first = np.arange(pairs) if layout == "half" else np.arange(0, 2 * pairs, 2)
    second = first + (pairs if layout == "half" else 1)
    c, s = cos[:, None], sin[:, None]
    out = x.at[..., first].set(x[..., first] * c - x[..., second] * s)
    return out.at[..., second].set(x[..., second] * c + x[..., first] * s)


@pytest.mark.parametrize(("layout", "channels"), [("half", 6), ("interleaved", 4)])
def test_every_mode_of_differentiation(layout: str, channels: int) -> None:
    with jax.enable_x64(True):
        x = jnp.asarray(RNG.standard_normal((2, 3, 2, 6)))
        cos, sin = tables(3, channels, np.dtype(np.float64))
        fn = functools.partial(rope, layout=layout, rotary_dim=channels)
        assert_same_modes(fn, functools.partial(_plain, layout=layout), [x, cos, sin])
        seed = jnp.asarray(RNG.standard_normal(x.shape))
        (way_back,) = jax.vjp(lambda x: fn(x, cos, sin), x)[1](seed)
        np.testing.assert_allclose(np.asarray(fn(way_back, cos, sin)), np.asarray(seed), atol=1e-14)
        (transposed,) = jax.linear_transpose(lambda x: fn(x, cos, sin), x)(seed)
        np.testing.assert_array_equal(np.asarray(transposed), np.asarray(way_back))
        _, forward = jax.linearize(lambda x: fn(x, cos, sin), x)
        np.testing.assert_array_equal(np.asarray(forward(seed)), np.asarray(fn(seed, cos, sin)))


@pytest.mark.parametrize("axes", [(0, None, None), (None, 0, 0), (1, 0, None), (0, 0, 0)], ids=str)
def test_batches_of_any_operand(axes: tuple[int | None, ...]) -> None:
    with jax.enable_x64(True):
        shapes = [(2, 3, 2, 4), (3, 2), (3, 2)]
        batched = [
            jnp.asarray(RNG.standard_normal(s if a is None else (*s[:a], 5, *s[a:])))
            for s, a in zip(shapes, axes, strict=True)
        ]

        def loss(*operands: jax.Array) -> jax.Array:
            return jnp.sum(jnp.sin(rope(*operands)))

        def one(i: int) -> list[jax.Array]:
            return [x if a is None else jnp.take(x, i, a) for x, a in zip(batched, axes, strict=True)]

        got = jax.vmap(rope, axes)(*batched)
        slopes = jax.vmap(jax.grad(loss, (0, 1, 2)), axes)(*batched)
        outside = jax.grad(lambda *operands: jnp.sum(jax.vmap(loss, axes)(*operands)), (0, 1, 2))(*batched)
        each = [jax.grad(loss, (0, 1, 2))(*one(i)) for i in range(5)]
        for i in range(5):
            np.testing.assert_allclose(np.asarray(got[i]), np.asarray(rope(*one(i))), atol=1e-14)
            for slope, want in zip(slopes, each[i], strict=True):
                np.testing.assert_allclose(np.asarray(slope[i]), np.asarray(want), atol=1e-13)
        for k, axis in enumerate(axes):
            want = sum(e[k] for e in each) if axis is None else jnp.stack([e[k] for e in each], axis)
            np.testing.assert_allclose(np.asarray(outside[k]), np.asarray(want), atol=1e-13)


def test_nothing_of_the_size_of_x_is_kept() -> None:
    x, (cos, sin) = jnp.ones((2, 5, 3, 4)), tables(5, 4)
    kept = jax.eval_shape(lambda x: jax.vjp(lambda x: rope(x, cos, sin), x)[1], x)
    assert sum(leaf.size for leaf in jax.tree.leaves(kept)) <= 2 * cos.size


def test_a_donated_array_is_turned_in_its_own_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xla, "_BLOCK_ELEMENTS", 100)
    x, (cos, sin) = jnp.asarray(RNG.standard_normal((2, 64, 3, 8)), jnp.float32), tables(64, 8)
    want = np.asarray(rope(x, cos, sin))
    fn = functools.partial(rope, in_place=True)
    np.testing.assert_array_equal(np.asarray(fn(x, cos, sin)), want)
    compiled = jax.jit(fn, donate_argnums=0).lower(x, cos, sin).compile()
    memory = compiled.memory_analysis()
    assert memory.alias_size_in_bytes == x.nbytes and memory.temp_size_in_bytes < x.nbytes // 4
    place = x.unsafe_buffer_pointer()
    got = compiled(x, cos, sin)
    assert got.unsafe_buffer_pointer() == place and x.is_deleted()
    np.testing.assert_array_equal(np.asarray(got), want)


# Refusals


def _call(**change: object) -> object:
    cos, sin = tables(3, 4)
    operands: dict[str, object] = {"x": jnp.ones((2, 3, 1, 4)), "cos": cos, "sin": sin}
    return rope(**(operands | change))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        ({"x": jnp.ones((2, 3, 1, 5))}, errors.ShapeMismatch, "even number"),
        ({"x": jnp.ones((2, 4, 1, 4))}, errors.ShapeMismatch, "4 rows"),
        ({"x": jnp.ones((2, 3, 1, 4), int)}, errors.UnsupportedDType, "floating"),
        ({"sin": jnp.ones((3, 3))}, errors.ShapeMismatch, "sin"),
        ({"sin": None}, errors.InvalidArgument, "got cos"),
        ({"cos": None, "sin": None}, errors.InvalidArgument, "neither"),
        ({"frequencies": rope_frequencies(4)}, errors.InvalidArgument, "cos and sin and frequencies"),
        ({"positions": jnp.ones(3)}, errors.UnsupportedDType, "positions"),
        ({"positions": jnp.ones((3, 3), int)}, errors.ShapeMismatch, "positions"),
        ({"layout": "pairs"}, errors.InvalidArgument, "layout"),
        ({"seq_axis": 3}, errors.InvalidArgument, "axis of the channels"),
        ({"seq_axis": 4}, errors.InvalidDimension, "seq_axis"),
        ({"rotary_dim": 6}, errors.ShapeMismatch, "rotary_dim"),
        ({"in_place": 2}, errors.InvalidArgument, "in_place"),
        ({"implementation": "triton"}, errors.InvalidArgument, "pallas_tpu"),
        ({"implementation": "pallas_tpu"}, errors.BackendLimitation, "not on cpu"),
        ({"implementation": "pallas_mosaic_gpu"}, errors.BackendLimitation, "not on cpu"),
    ],
    ids=lambda v: "-".join(v) if isinstance(v, dict) else "",
)
def test_refusals(change: dict[str, object], error: type[errors.RtxError], said: str) -> None:
    with pytest.raises(error) as caught:
        _call(**change)
    assert said in str(caught.value) and caught.value.operation == "rope"


def test_frequencies_fit_the_channels() -> None:
    with pytest.raises(errors.ShapeMismatch):
        rope(jnp.ones((1, 3, 1, 4)), frequencies=rope_frequencies(6))
    with pytest.raises(errors.InvalidDimension):
        rope(jnp.ones((1, 3, 1, 4)), frequencies=rope_frequencies(4), seq_axis=7)


def test_two_runs_are_equal_bit_by_bit() -> None:
    x, (cos, sin) = jnp.asarray(RNG.standard_normal((1, 129, 2, 8)), jnp.float32), tables(129, 8)
    fn: Callable[..., jax.Array] = jax.jit(jax.grad(lambda c: jnp.sum(rope(x, c, sin) ** 2)))
    np.testing.assert_array_equal(np.asarray(fn(cos)), np.asarray(fn(cos)))
