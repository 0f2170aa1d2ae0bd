"""The module as a whole: names, documentation, parameters, import, one training step."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from collections.abc import Callable

import jax
import numpy as np
import optax
import pytest

import rtx_jax as xp
from rtx_jax import nn, ops

# Raw operations have static parameters by keyword, named as the arrays of the reference and of the backends are; the
# faces name an axis as the standard does.
_RENAMED = {"dim": "axis"}


@pytest.mark.parametrize("name", nn.__all__)
def test_every_name_is_documented(name: str) -> None:
    text = inspect.getdoc(getattr(nn, name)) or ""
    same = re.search(r"Parameters, result and errors are those of `(\w+)`", text)
    if same:
        assert list(inspect.signature(getattr(nn, name)).parameters) == list(
            inspect.signature(getattr(nn, same[1])).parameters
        )
        text = inspect.getdoc(getattr(nn, same[1])) or ""
    for section in ("Parameters", "Returns", "Raises"):
        assert f"{section}\n---" in text, f"{name} has no section {section}"
    for parameter in inspect.signature(getattr(nn, name)).parameters:
        assert parameter in text, f"{name} does not document {parameter}"


def test_faces_and_raw_operations_have_the_same_names() -> None:
    assert set(nn.__all__) == set(ops.__all__) & set(nn.__all__)
    assert list(nn.__all__) == sorted(nn.__all__)
    assert list(ops.__all__) == sorted(ops.__all__)


@pytest.mark.parametrize("name", ["gelu", "softmax", "layer_norm", "batch_norm", "attention", "rope", "index_add"])
def test_the_parameters_of_a_face_are_those_of_the_raw_operation(name: str) -> None:
    raw = {_RENAMED.get(p, p) for p in inspect.signature(getattr(ops, name)).parameters}
    face = set(inspect.signature(getattr(nn, name)).parameters)
    # The precision is a setting, and the two segment arrays one parameter.
    assert raw - {"precision", "key_segment_ids"} == face


def test_importing_starts_no_device() -> None:
    code = """
import jax, rtx_jax.nn
from jax._src import xla_bridge
assert not xla_bridge._backends, "a device was started"
assert rtx_jax.nn.relu.__module__ == "rtx_jax.nn.activation"
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_vmap_is_a_loop() -> None:
    rng = np.random.default_rng(1)
    x = xp.asarray(rng.standard_normal((2, 3, 4, 2, 6)))
    w = xp.asarray(rng.standard_normal((2, 6)))
    lengths = xp.asarray([[4, 2, 0], [1, 3, 4]])
    cos, sin = nn.rope_tables(9, 6, dtype=xp.float64)
    at = xp.asarray([[0, 8, 2, 3], [5, 5, 6, 1]])

    def every(x: xp.Array, w: xp.Array, lengths: xp.Array, at: xp.Array) -> list[xp.Array]:
        return [
            nn.layer_norm(x, w),
            nn.rms_norm(x, w),
            nn.group_norm(x, 2),
            nn.batch_norm(x, training=True)[1],
            nn.attention(x, x, x, causal=True, key_lengths=lengths),
            nn.rope(x, cos, sin, positions=at),
            nn.linear(x, w[None, :]),
            nn.prelu(x, w[:1]),
            nn.softmax(x, axis=1),
        ]

    rows = xp.jit(xp.vmap(every))(x, w, lengths, at)
    for n in range(2):
        for got, want in zip(rows, xp.jit(every)(x[n], w[n], lengths[n], at[n]), strict=True):
            np.testing.assert_allclose(np.asarray(got[n]), np.asarray(want), rtol=1e-12, atol=1e-14)


def test_64_bits_without_the_global_setting() -> None:
    assert not jax.config.jax_enable_x64  # type: ignore[attr-defined]
    x = xp.asarray(np.linspace(-1, 1, 6).reshape(2, 3))
    for out in (nn.gelu(x), nn.layer_norm(x), nn.linear(x, x), nn.softmax(x), xp.jit(nn.rms_norm)(x)):
        assert out.dtype == xp.float64
    assert xp.grad(lambda x: xp.sum(nn.linear(x, x) ** 2))(x).dtype == xp.float64


def test_plain_and_host_arrays_are_taken() -> None:
    x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    want = np.asarray(nn.layer_norm(xp.asarray(x)))
    for operand in (x, jax.numpy.asarray(x)):
        got = nn.layer_norm(operand)  # type: ignore[arg-type]
        assert isinstance(got, xp.Array)
        np.testing.assert_array_equal(np.asarray(got), want)


def test_optax_trains_containers_of_arrays() -> None:
    rng = np.random.default_rng(0)
    x = xp.asarray(rng.standard_normal((32, 3)).astype(np.float32))
    true = xp.asarray(np.array([[1.0, -2.0, 0.5]], np.float32))
    target = nn.linear(x, true)
    params = {"weight": xp.zeros((1, 3), dtype=xp.float32), "bias": xp.zeros(1, dtype=xp.float32)}
    optimizer = optax.adam(0.1)

    def make(loss: Callable[..., object]) -> Callable[..., tuple[object, object]]:
        @xp.jit
        def step(params: dict[str, xp.Array], state: object) -> tuple[object, object]:
            updates, state = optimizer.update(xp.grad(loss)(params), state, params)
            return optax.apply_updates(params, updates), state

        return step

    def loss(params: dict[str, xp.Array]) -> object:
        return optax.l2_loss(nn.linear(x, params["weight"], params["bias"]).jax, target.jax).mean()

    step, state = make(loss), optimizer.init(params)
    for _ in range(200):
        params, state = step(params, state)  # type: ignore[assignment]
    assert isinstance(params["weight"], xp.Array)
    np.testing.assert_allclose(np.asarray(params["weight"]), np.asarray(true), atol=0.02)
