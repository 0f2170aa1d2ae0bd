"""What is hidden does nothing, what is seen shows: NaN, infinity, extreme scores, tables that name no page."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rtx_jax import check_bounds
from rtx_jax.kernels.decode import decode_attention, paged_attention

from .oracle import attend

EVERY = ("reference", "blocked_xla", "interpreted_triton", "interpreted_tpu")


def cache(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    query, key = draw.normal(size=(2, 2, 4, 8)), draw.normal(size=(2, 129, 2, 8))
    value, lengths = draw.normal(size=(2, 129, 2, 8)), np.array([100, 40], np.int32)
    return (*(x.astype(np.float32) for x in (query, key, value)), lengths)


@pytest.mark.parametrize("implementation", EVERY)
def test_hidden_slots_may_hold_anything(implementation: str) -> None:
    query, key, value, lengths = cache()
    scale = np.ones((2, 129, 2), np.float32)
    expected, expected_lse = attend(query, key, value, lengths=lengths, window=(30, None))
    for row, length in enumerate(lengths):
        for hidden in (slice(length, None), slice(0, length - 32)):
            for x in (key, value, scale):
                x[row, hidden] = np.nan
    out, lse = decode_attention(
        query,
        key,
        value,
        lengths,
        key_scale=scale,
        value_scale=scale,
        window=(30, None),
        return_lse=True,
        implementation=implementation,
    )
    np.testing.assert_allclose(out, expected, rtol=2e-6, atol=2e-6)
    np.testing.assert_allclose(lse, expected_lse, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("implementation", EVERY)
def test_a_nan_in_a_key_reaches_the_queries_that_see_it(implementation: str) -> None:
    query, key, value, lengths = cache()
    expected, _ = attend(query, key, value, lengths=lengths)
    # The last key of a row: the first of two queries does not see it.
    key[0, 99, 0] = np.nan
    out = decode_attention(query, key, value, lengths, implementation=implementation)
    assert np.isnan(out[0, 1, :2]).all()
    np.testing.assert_allclose(out[0, 0], expected[0, 0], rtol=2e-6, atol=2e-6)
    np.testing.assert_allclose(out[0, 1, 2:], expected[0, 1, 2:], rtol=2e-6, atol=2e-6)
    np.testing.assert_allclose(out[1], expected[1], rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("of", ["key", "scale"])
def test_a_nan_reaches_no_gradient_of_a_query_that_does_not_see_it(of: str) -> None:
    query, key, value, _ = cache()
    scale = np.ones((2, 129, 2), np.float32)

    def gradient(key: np.ndarray, scale: np.ndarray) -> jax.Array:
        def loss(query: jax.Array) -> jax.Array:
            # The last key is seen by the last query alone.
            return jnp.sum(decode_attention(query, key, value, key_scale=scale, softcap=2.0) ** 2)

        return jax.grad(loss)(jnp.asarray(query))

    clean = gradient(key, scale)
    (key if of == "key" else scale)[:, -1] = np.nan
    got = gradient(key, scale)
    np.testing.assert_array_equal(got[:, 0], clean[:, 0])
    assert np.isnan(got[:, 1]).all()


@pytest.mark.parametrize("implementation", EVERY)
@pytest.mark.parametrize("large", [1e4, pytest.param(1e18, marks=pytest.mark.slow)])
def test_extreme_scores(implementation: str, large: float) -> None:
    query, key, value, lengths = cache()
    expected, expected_lse = attend(query * large, key * large, value, lengths=lengths)
    out, lse = decode_attention(
        jnp.float32(query * large),
        jnp.float32(key * large),
        value,
        lengths,
        return_lse=True,
        implementation=implementation,
    )
    # One key takes all the weight; its score is exact to float32.
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(lse, expected_lse, rtol=1e-5)


@pytest.mark.parametrize("implementation", EVERY)
def test_infinite_keys_follow_ieee(implementation: str) -> None:
    query, key, value, lengths = cache()
    query = np.abs(query)
    key[0, 0] = -np.inf  # a weight of 0
    key[1, 3] = np.inf  # inf - inf
    rest = key.copy()
    rest[0, 0] = -1e30
    expected, _ = attend(query[:1], rest[:1], value[:1], lengths=lengths[:1])
    out = decode_attention(query, key, value, lengths, implementation=implementation)
    np.testing.assert_allclose(out[:1], expected, rtol=2e-6, atol=2e-6)
    assert np.isnan(out[1]).all()
    # Where all that a query sees weighs nothing, there is no softmax; without a key there is: 0.
    key[0] = -np.inf
    out, lse = decode_attention(
        query, key, value, np.array([5, 0], np.int32), return_lse=True, implementation=implementation
    )
    assert np.isnan(out[0]).all() and (out[1] == 0).all()
    assert (lse == -np.inf).all()


@pytest.mark.parametrize("implementation", ["reference", "blocked_xla"])
def test_entries_that_nobody_needs_name_no_page(implementation: str) -> None:
    query, key, value, _ = cache()
    lengths = np.array([60, 33], np.int32)
    pages = [x[:, :128].reshape(16, 16, *x.shape[2:]) for x in (key, value)]
    table = np.arange(16, dtype=np.int32).reshape(2, 8)
    expected, _ = attend(query, key, value, lengths=lengths)
    table[0, 4:], table[1, 3:] = -7, 1 << 30
    out = paged_attention(query, *pages, table, lengths, implementation=implementation)
    np.testing.assert_allclose(out, expected, rtol=2e-6, atol=2e-6)
    table[1, 2] = 16
    out, lse = paged_attention(query, *pages, table, lengths, return_lse=True, implementation=implementation)
    np.testing.assert_allclose(out[0], expected[0], rtol=2e-6, atol=2e-6)
    assert np.isnan(out[1]).all() and np.isnan(lse[1]).all()


@pytest.mark.parametrize("implementation", ["reference", "blocked_xla"])
def test_what_only_absent_queries_see_may_be_anything(implementation: str) -> None:
    query, key, value, _ = cache()
    there = np.array([1, 0], np.int32)
    expected, _ = attend(query[:, :1], key, value, lengths=np.array([32, 32]))
    table = np.arange(8, dtype=np.int32).reshape(2, 4)

    def results(query: jax.Array, key: np.ndarray, value: np.ndarray, table: np.ndarray) -> list[jax.Array]:
        asked = {"query_lengths": there, "q_offset": 31, "implementation": implementation}
        pages = [x[:, :64].reshape(8, 16, *x.shape[2:]) for x in (key, value)]
        return [decode_attention(query, key, value, **asked), paged_attention(query, *pages, table, **asked)]

    def loss(*arrays: jax.Array) -> jax.Array:
        return sum((jnp.sum(x**2) for x in results(*arrays)), jnp.zeros(()))

    clean = jax.grad(loss)(jnp.asarray(query), key, value, table)
    for x in (key, value):
        x[0, 32:], x[1] = np.nan, np.inf
    table[0, 2:], table[1] = -1, 99
    for out in results(query, key, value, table):
        np.testing.assert_allclose(out[0, :1], expected[0], rtol=2e-6, atol=2e-6)
        assert (out[0, 1] == 0).all() and (out[1] == 0).all()
    np.testing.assert_array_equal(jax.grad(loss)(jnp.asarray(query), key, value, table), clean)


def test_a_shared_scale_of_nan_does_nothing_to_a_query_that_sees_no_key() -> None:
    query, key, value, _ = cache()
    lengths, scale = np.array([0, 5], np.int32), jnp.asarray(np.nan, np.float32)

    def run(query: jax.Array) -> jax.Array:
        return decode_attention(query, key, value, lengths, key_scale=scale, value_scale=scale)

    out, pull = jax.vjp(run, jnp.asarray(query))
    (slope,) = pull(jnp.ones_like(out))
    assert (out[0] == 0).all() and (slope[0] == 0).all() and np.isnan(out[1]).all()


def test_lengths_of_any_integer_dtype_and_size() -> None:
    query, key, value, _ = cache()
    expected, _ = attend(query, key, value, lengths=np.array([100, 100]))
    for dtype in ("int8", "uint8", "int16", "uint32"):
        out = decode_attention(query, key, value, np.array([100, 100], dtype))
        np.testing.assert_allclose(out, expected, rtol=2e-6, atol=2e-6)
    # More than the cache holds: the diagonal is where the lengths say, and what is not there is hidden.
    expected, _ = attend(query, key, value, lengths=np.array([200, 200]), window=(90, None))
    with check_bounds(False):
        out = decode_attention(query, key, value, np.array([200, 200]), window=(90, None))
        np.testing.assert_allclose(out, expected, rtol=2e-6, atol=2e-6)
        assert (decode_attention(query, key, value, np.array([-3, -(2**31)], np.int32)) == 0).all()


def test_offsets_and_windows_far_away() -> None:
    query, key, value, lengths = cache()
    expected, _ = attend(query, key, value, lengths=lengths, causal=False)
    out = decode_attention(query, key, value, lengths, q_offset=2**40, window=(2**41, None))
    np.testing.assert_allclose(out, expected, rtol=2e-6, atol=2e-6)
    assert (decode_attention(query, key, value, lengths, q_offset=-(2**40)) == 0).all()
