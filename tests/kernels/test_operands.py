"""What is no array of JAX or NumPy is refused by name, with what to do instead."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rtx_jax as xp
from rtx_jax import errors, nn
from rtx_jax.kernels import (
    cross_entropy,
    decode_attention,
    flash_attention,
    layer_norm,
    paged_attention,
    rms_norm,
    rope,
    swiglu,
)

X = jnp.ones((1, 2, 2, 4))
ROWS = jnp.ones((2, 4))
LABELS = jnp.zeros(2, jnp.int32)

CALLS: dict[str, tuple[str, Callable[[object], object]]] = {
    "flash_attention": ("key", lambda a: flash_attention(X, a, X)),
    "decode_attention": ("value", lambda a: decode_attention(X, X, a)),
    "paged_attention": ("value_pages", lambda a: paged_attention(X, X, a, jnp.zeros((1, 1), jnp.int32))),
    "rope": ("positions", lambda a: rope(X, jnp.ones((2, 2)), jnp.ones((2, 2)), a)),
    "rms_norm": ("weight", lambda a: rms_norm(ROWS, a)),
    "layer_norm": ("residual", lambda a: layer_norm(ROWS, residual=a)),
    "swiglu": ("up", lambda a: swiglu(ROWS, a)),
    "cross_entropy": ("weight", lambda a: cross_entropy(ROWS, a, LABELS)),
}


@pytest.mark.parametrize("operation", CALLS)
@pytest.mark.parametrize(
    ("operand", "message"),
    [
        ([1.0, 2.0], "got list, wanted a jax.Array. Convert it with jax.numpy.asarray first."),
        (2.0, "got float, wanted a jax.Array. Convert it"),
        (xp.ones((2, 4)), "got an rtx_jax.Array, wanted a jax.Array. Pass its .jax"),
    ],
    ids=["list", "float", "Array"],
)
def test_an_operand_that_is_no_array(operation: str, operand: object, message: str) -> None:
    argument, call = CALLS[operation]
    with pytest.raises(errors.InvalidArgument) as caught:
        call(operand)
    assert str(caught.value).startswith(f"{operation}: argument {argument}: {message}")


def test_arrays_of_numpy_are_taken() -> None:
    rows = np.asarray(ROWS)
    assert swiglu(rows, rows).shape == rms_norm(rows, rows[0]).shape == (2, 4)


def test_a_table_of_pages_is_needed() -> None:
    with pytest.raises(errors.InvalidArgument, match="paged_attention: argument block_table: got None"):
        paged_attention(X, X, X, None)  # type: ignore[arg-type]


def test_frequencies_that_are_none() -> None:
    with pytest.raises(errors.InvalidArgument, match="rope: argument frequencies: got float, wanted what"):
        rope(X, frequencies=0.5)  # type: ignore[arg-type]


def test_more_channels_than_there_are() -> None:
    with pytest.raises(errors.ShapeMismatch, match="argument rotary_dim: got 6 channels .*, wanted at most the 4"):
        rope(X, jnp.ones((2, 3)), jnp.ones((2, 3)), rotary_dim=6)


def test_operands_of_nn_are_named() -> None:
    x = xp.asarray(X)
    with pytest.raises(errors.UnsupportedDType, match="attention: argument mask: got an object of type list"):
        nn.attention(x, x, x, mask=[[True]])  # type: ignore[arg-type]
    with pytest.raises(errors.ShapeMismatch, match=r"argument key_lengths: got shape \(\), wanted \(1,\)"):
        nn.decode_attention(x, x, x, key_lengths=1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("argument", "call"),
    [
        ("x", lambda: rms_norm(None)),
        ("x", lambda: layer_norm(None)),
        ("x", lambda: rope(None)),
        ("up", lambda: swiglu(ROWS, None)),
        ("labels", lambda: cross_entropy(ROWS, ROWS, None)),
        ("key", lambda: flash_attention(X, None, X)),
        ("value", lambda: decode_attention(X, X, None)),
    ],
)
def test_an_operand_that_must_be_given(argument: str, call: Callable[[], object]) -> None:
    with pytest.raises(errors.InvalidArgument, match=f"argument {argument}: got NoneType, wanted a jax.Array"):
        call()


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("operation", CALLS)
def test_random_keys(operation: str, traced: bool) -> None:
    name, call = CALLS[operation]
    keys = jax.random.split(jax.random.key(0), (1, 2, 2, 4))
    with pytest.raises(errors.UnsupportedDType, match=rf"{operation}: argument {name}: got key<\w+>") as caught:
        jax.jit(call)(keys) if traced else call(keys)
    assert "jax.random.key_data" in str(caught.value)


def test_random_keys_in_faces_and_in_the_namespace() -> None:
    x, keys = xp.asarray(X), jax.random.split(jax.random.key(0), 4)
    for call in (lambda: nn.attention(x, x, keys), lambda: xp.asarray(keys), lambda: xp.sum(keys)):
        with pytest.raises(errors.UnsupportedDType, match=r"key<\w+>"):
            call()
