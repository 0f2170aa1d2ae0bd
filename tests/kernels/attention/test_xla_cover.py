"""Blocked attention with every pair of features: results and all gradients against float64."""

from __future__ import annotations

import functools

import jax
import numpy as np
import pytest

from rtx_jax._compat import x64
from rtx_jax.kernels.attention import xla
from rtx_jax.kernels.attention.spec import AttentionSpec, Operands
from tests.kernels.attention.cover import FEATURES, pairwise, spec_of
from tests.kernels.attention.dense import attend, random_operands

CASES = pairwise(FEATURES)
MANY = {7: 4, 129: 48}
# Of the greatest value: measured 1.6e-6 and 6e-7 (with the polynomial 2.5e-6), and 4e-15.
BOUND = {"float32": 6e-6, "float64": 2e-14}


def _id(case: dict[str, object]) -> str:
    return "-".join(str(value).replace(" ", "") for value in case.values())


@functools.partial(jax.jit, static_argnums=(0, 1))
def both(
    spec: AttentionSpec, blocks: xla.Blocks | None, operands: Operands, d_out: jax.Array, d_lse: jax.Array
) -> tuple[object, ...]:
    """Return results and gradients."""
    out, lse = xla.forward(spec, operands, blocks=blocks)
    return (
        out,
        lse,
        *xla.backward(
            spec,
            operands,
            out,
            lse,
            d_out,
            d_lse,
            bias=spec.bias is not None,
            sinks=spec.sinks_dtype is not None,
            blocks=blocks,
        ),
    )


@pytest.mark.parametrize("case", CASES, ids=_id)
def test_results_and_gradients(case: dict[str, object]) -> None:
    spec = spec_of(case)
    rng = np.random.default_rng(CASES.index(case))
    given = random_operands(spec, rng)
    d_out = rng.standard_normal((*given.query.shape[:-1], spec.value_size))
    d_lse = rng.standard_normal((spec.batch, spec.heads, spec.queries))

    def cast(x: np.ndarray | None) -> np.ndarray | None:
        return None if x is None else x.astype({"f": spec.dtype, "i": np.int32, "b": bool}[x.dtype.kind])

    blocks = None
    if case["tiles"] == "many":
        blocks = xla.Blocks(MANY[spec.queries], MANY[spec.keys], 1, 1 if spec.heads == 4 else spec.key_heads)
    operands = Operands(*map(cast, given))
    with x64(spec.dtype == np.float64):
        got = both(spec, blocks, operands, cast(d_out), cast(d_lse))
    exact = attend(spec, operands, cast(d_out), cast(d_lse))
    wanted = (exact.out, exact.lse, exact.query, exact.key, exact.value, exact.bias, exact.sinks)
    for x, want, like in zip(got, wanted, (d_out, d_lse, *given[:3], given.bias, given.sinks), strict=True):
        if want is None:
            assert x is None
            continue
        x = np.asarray(x)
        assert x.dtype == spec.dtype and x.shape == like.shape
        np.testing.assert_array_equal(np.isneginf(x), np.isneginf(want))
        finite = np.isfinite(want)
        scale = max(1.0, np.abs(want[finite]).max(initial=0))
        np.testing.assert_allclose(x[finite], want[finite], rtol=0, atol=BOUND[spec.dtype.name] * scale)


def test_every_pair_is_there() -> None:
    names = list(FEATURES)
    for i, a in enumerate(names):
        for b in names[i + 1 :]:
            met = {(str(case[a]), str(case[b])) for case in CASES}
            assert len(met) == len(FEATURES[a]) * len(FEATURES[b]), (a, b)
