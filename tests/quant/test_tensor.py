"""QTensor: a pytree with packed storage."""

from __future__ import annotations

import copy
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rtx_jax as xp
from rtx_jax.errors import InvalidDimension
from rtx_jax.quant import PerBlock, PerChannel, QTensor, QuantScheme, dequantize, quantize

SCHEME = QuantScheme("int4", PerBlock((4,)), "bfloat16", True, symmetric=False)


def made(kind: object = jnp.asarray) -> QTensor[jax.Array]:
    x = np.random.default_rng(0).standard_normal((6, 8)).astype(np.float32)
    return quantize(kind(x), SCHEME)  # type: ignore[operator, no-any-return]


def test_it_is_a_pytree() -> None:
    q = made()
    leaves, structure = jax.tree.flatten(q)
    assert [leaf.dtype for leaf in leaves] == [jnp.uint8, jnp.bfloat16, jnp.int8, jnp.float32]
    again = jax.tree.unflatten(structure, leaves)
    assert (again.shape, again.scheme, again.dtype) == (q.shape, q.scheme, q.dtype)
    assert jax.tree.structure(again) == structure and hash(structure)
    assert len(jax.tree.leaves(quantize(jnp.ones((2, 2), jnp.float32), QuantScheme()))) == 2


@pytest.mark.parametrize("kind", [xp.asarray, jnp.asarray])
def test_copies_and_pickles(kind: object) -> None:
    q = made(kind)
    for other in (copy.deepcopy(q), pickle.loads(pickle.dumps(q)), pickle.loads(pickle.dumps(q.T)).T):
        assert other.scheme == SCHEME
        np.testing.assert_array_equal(np.asarray(dequantize(other)), np.asarray(dequantize(q)))


def test_its_attributes() -> None:
    q = made()
    assert (q.shape, q.ndim, q.size, q.dtype) == ((6, 8), 2, 48, np.dtype(np.float32))
    assert q.storage_bytes == 24 + 12 * 3 + 4 == sum(part.nbytes for part in q.parts())
    assert "int4" in repr(q) and "(6, 8)" in repr(q)


def test_the_transpose_shares_memory() -> None:
    q = made()
    assert q.T.data is q.data and q.T.shape == (8, 6)
    assert q.T.scheme.granularity == PerBlock((4, 1)) and q.T.stored_scheme == SCHEME
    np.testing.assert_array_equal(np.asarray(dequantize(q.T)), np.asarray(dequantize(q)).T)
    assert q.T.T.scheme == SCHEME and not q.T.T.transposed
    with pytest.raises(InvalidDimension):
        quantize(jnp.ones(4, jnp.float32), QuantScheme()).T


@pytest.mark.parametrize("jit", [jax.jit, xp.jit])
def test_it_goes_into_and_out_of_compiled_functions(jit: object) -> None:
    x = np.random.default_rng(1).standard_normal((4, 8)).astype(np.float32)
    kind = xp.asarray if jit is xp.jit else jnp.asarray
    scheme = QuantScheme("int8", PerChannel(0))
    q = jit(lambda x: quantize(x, scheme))(kind(x))  # type: ignore[operator]
    eager = quantize(kind(x), scheme)
    np.testing.assert_array_equal(np.asarray(q.data), np.asarray(eager.data))
    assert type(q.data) is type(eager.data)
    back = jit(dequantize)(q)  # type: ignore[operator]
    np.testing.assert_array_equal(np.asarray(back), np.asarray(dequantize(eager)))


def test_scan_over_stacked_layers() -> None:
    """Quantized layers can be the constants of a loop."""
    q = quantize(jnp.asarray(np.eye(4, dtype=np.float32)), QuantScheme("int8"))
    last, _ = jax.lax.scan(lambda x, _: (x @ dequantize(q) * 2, None), jnp.ones(4, jnp.float32), None, length=3)
    np.testing.assert_allclose(np.asarray(last), 8.0, rtol=1e-6)
