"""The Hopper kernels in interpret mode, against the formula in float64; one case for each feature."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rtx_jax._compat import JAX_VERSION
from rtx_jax.errors import BackendLimitation
from rtx_jax.kernels.attention import pallas_mosaic_gpu
from rtx_jax.kernels.attention.pallas_mosaic_gpu import Blocks
from rtx_jax.kernels.attention.pallas_mosaic_gpu_operands import seen_keys, segment_blocks
from rtx_jax.kernels.attention.pallas_mosaic_gpu_tiles import Shape
from rtx_jax.kernels.attention.spec import AttentionSpec, Gradients, Operands
from rtx_jax.kernels.target import Target
from tests.kernels.attention import dense

HAS_MOSAIC = JAX_VERSION >= (0, 12)
interpreted = pytest.mark.skipif(not HAS_MOSAIC, reason="needs JAX 0.12: its interpreter of Mosaic GPU")
# Compiling the interpreted kernels for speed would take longer than running them.
QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
H200 = Target("cuda", "NVIDIA H200", (9, 0))
BF16, F16, F32 = np.dtype(jnp.bfloat16), np.dtype(np.float16), np.dtype(np.float32)
BASE = AttentionSpec(1, 70, 129, 1, 1, 16, 16, BF16, scale=0.25, q_offset=59)
# Two blocks of keys in the forward pass and of queries in the gradients.
SMALL = {"queries": 129, "keys": 129, "q_offset": 0}

CASES: dict[str, dict[str, Any]] = {
    "causal, key heads, value size": {"window": (None, 0), "heads": 2, "value_size": 24, "layout": "BNTH", "size": 20},
    "window, lengths, offsets": {
        "batch": 2,
        "window": (40, 3),
        "q_offset": None,
        "query_lengths": True,
        "key_lengths": True,
    },
    "segments, softcap": {"segments": True, "softcap": 1.5, "dtype": F16},
    "mask, sinks": {"mask": (1, 1, 70, 129), "sinks_dtype": F32},
    "bias": {"bias": (1, 1, 70, 129), "bias_dtype": BF16},
    "bias of heads, mask of rows": {"bias": (1, 1, 1, 129), "bias_dtype": F32, "mask": (1, 1, 70, 1)},
    "bias of rows, mask of heads": {"bias": (1, 1, 70, 1), "bias_dtype": F32, "mask": (1, 1, 1, 129), **SMALL},
    "wide heads": {"size": 144, "value_size": 160, "queries": 7, "keys": 7, "q_offset": 0, "window": (None, 0)},
}
CASES["bias of rows, mask of heads"] |= {"bias": (1, 1, 129, 1)}
LONG: dict[str, dict[str, Any]] = {
    "plain": {},
    "causal": {"window": (None, 0), **SMALL},
    "window": {"window": (17, 3), "layout": "BNTH", **SMALL},
    "left window": {"window": (20, None), "heads": 2},
    "more queries": {"queries": 300, "keys": 150, "q_offset": -150, "window": (None, 0)},
    "one key head": {"heads": 3, "layout": "BNTH", "window": (None, 0)},
    "mask": {"mask": (1, 2, 70, 129), "heads": 2},
    "bias": {"bias": (2, 2, 70, 129), "bias_dtype": F32, "heads": 2, "batch": 2},
    "bias of the batch": {"bias": (1, 2, 70, 129), "bias_dtype": F32, "heads": 2, "batch": 2},
    "bias of heads": {"bias": (1, 2, 1, 129), "bias_dtype": F32, "heads": 2, "window": (None, 0)},
    "bias of all": {"bias": (1, 1, 1, 1), "bias_dtype": F32},
    "segments": {"segments": True, "window": (None, 0), **SMALL},
    "lengths": {"batch": 3, "query_lengths": True, "key_lengths": True, "window": (None, 0)},
    "softcap": {"softcap": 1.5, "window": (None, 0)},
    "sinks": {"sinks_dtype": F32, "window": (None, 0), "heads": 2},
    "negative scale": {"scale": -0.3},
    "heads of 96": {"size": 96, "value_size": 64, "window": (None, 0)},
    "heads of 256": {"size": 256, "value_size": 256, "window": (None, 0), **SMALL},
    "all": {
        "batch": 2,
        "heads": 2,
        "layout": "BNTH",
        "value_size": 40,
        "window": (60, 2),
        "softcap": 2.0,
        "mask": (1, 2, 70, 129),
        "bias": (2, 1, 70, 129),
        "bias_dtype": F32,
        "segments": True,
        "query_lengths": True,
        "key_lengths": True,
        "sinks_dtype": F32,
        "q_offset": None,
    },
}


def typed(spec: AttentionSpec, operands: Operands) -> Operands:
    kinds = {"f": spec.dtype, "i": np.int32, "b": bool}

    def cast(name: str, x: np.ndarray | None) -> Any:
        given = {"bias": spec.bias_dtype, "sinks": spec.sinks_dtype}.get(name)
        return None if x is None else jnp.asarray(x, given or kinds[np.asarray(x).dtype.kind])

    return Operands(*map(cast, Operands._fields, operands))


def made(spec: AttentionSpec, seed: int = 0) -> tuple[Operands, jax.Array, jax.Array]:
    """Operands of a call, and cotangents of its results."""
    rng = np.random.default_rng(seed)
    operands = typed(spec, dense.random_operands(spec, rng))
    d_out = rng.standard_normal((*operands.query.shape[:-1], spec.value_size))
    d_lse = rng.standard_normal((spec.batch, spec.heads, spec.queries))
    return operands, jnp.asarray(d_out, spec.dtype), jnp.asarray(d_lse, F32)


def run(
    spec: AttentionSpec, operands: Operands, d_out: jax.Array, d_lse: jax.Array, blocks: Blocks | None = None
) -> dict[str, np.ndarray]:
    wanted = {"bias": spec.bias is not None, "sinks": spec.sinks_dtype is not None}

    def both(operands: Operands, d_out: jax.Array, d_lse: jax.Array) -> tuple[jax.Array, jax.Array, Gradients]:
        out, lse = pallas_mosaic_gpu.forward(spec, operands, blocks=blocks, interpret=True)
        given = (spec, operands, out, lse, d_out, d_lse)
        return out, lse, pallas_mosaic_gpu.backward(*given, **wanted, blocks=blocks, interpret=True)

    out, lse, gradients = jax.jit(both, compiler_options=QUICK)(operands, d_out, d_lse)
    assert out.dtype == spec.dtype and lse.dtype == F32
    for name, gradient in gradients._asdict().items():
        operand = getattr(operands, name)
        assert gradient is None or (gradient.shape, gradient.dtype) == (operand.shape, operand.dtype)
    found = {"out": out, "lse": lse, **gradients._asdict()}
    return {name: np.asarray(x, np.float64) for name, x in found.items() if x is not None}


def assert_close(got: dict[str, np.ndarray], spec: AttentionSpec, *given: Any) -> None:
    """Compare with the formula, which takes the rounded operands.

    Weights are rounded to the operands' dtype before they meet the values, and so are results: measured 1.6 half units
    of the dtype of the greatest value, without rounding of the weights it would be 1. The log-sum-exp is float32.
    """
    want = dataclasses.asdict(dense.attend(spec, *given))
    want = {name: x for name, x in want.items() if x is not None}
    assert got.keys() == want.keys()
    for name, exact in want.items():
        assert got[name].shape == exact.shape, name
        finite = np.isfinite(exact)
        np.testing.assert_array_equal(got[name][~finite], exact[~finite], err_msg=name)
        bound = 2e-6 if name == "lse" else 2 * float(jnp.finfo(spec.dtype).eps)
        scale = max(1.0, np.abs(exact[finite]).max(initial=0))
        if name == "bias" and spec.bias is not None and spec.bias[2] == 1:
            # Each row adds the rounding of its result, where the rows themselves may cancel.
            scale *= spec.queries**0.5
        np.testing.assert_allclose(got[name][finite], exact[finite], rtol=0, atol=bound * scale, err_msg=name)


@interpreted
@pytest.mark.parametrize("name", CASES)
def test_results_and_gradients(name: str) -> None:
    spec = dataclasses.replace(BASE, **CASES[name])
    assert pallas_mosaic_gpu.unsupported(spec, H200) == []
    given = made(spec)
    assert_close(run(spec, *given), spec, *given)


@interpreted
@pytest.mark.slow
@pytest.mark.parametrize("name", LONG)
def test_results_and_gradients_of_one_feature(name: str) -> None:
    spec = dataclasses.replace(BASE, **LONG[name])
    assert pallas_mosaic_gpu.unsupported(spec, H200) == []
    given = made(spec)
    assert_close(run(spec, *given), spec, *given)


@interpreted
@pytest.mark.slow
@pytest.mark.parametrize("length", [1, 64, 128, 257])
@pytest.mark.parametrize("stages", [1, 2, 3])
def test_lengths_and_stages(length: int, stages: int) -> None:
    spec = dataclasses.replace(BASE, queries=length, keys=length, q_offset=0, window=(None, 0))
    given = made(spec)
    blocks = Blocks(64, stages, 64, stages, 64, stages)
    assert_close(run(spec, *given, blocks), spec, *given)


@interpreted
def test_entropy_and_column_scores() -> None:
    spec = dataclasses.replace(BASE, window=(None, 0), q_offset=-2, heads=2)
    operands, _, _ = made(spec)
    counts = np.random.default_rng(1).random((1, 2, 20))

    def both(operands: Operands, counts: jax.Array) -> tuple[jax.Array, ...]:
        _, lse, entropy = pallas_mosaic_gpu.forward(spec, operands, entropy=True, interpret=True)
        return entropy, pallas_mosaic_gpu.column_scores(spec, operands, lse, 20, counts=counts, interpret=True)

    entropy, scores = jax.jit(both, compiler_options=QUICK)(operands, jnp.asarray(counts, F32))
    query, key = (np.asarray(x, np.float64).swapaxes(1, 2) for x in (operands.query, operands.key))
    seen = dense.seen_keys(spec, operands)
    exact = np.where(seen, query @ key.swapaxes(2, 3) * spec.scale, -np.inf)
    powers = np.where(seen, np.exp(exact - np.where(seen.any(-1), exact.max(-1), 0)[..., None]), 0)
    weights = powers / np.maximum(powers.sum(-1, keepdims=True), 1e-300)
    with np.errstate(divide="ignore", invalid="ignore"):
        want = -np.where(weights > 0, weights * np.log(weights), 0).sum(-1)
    # The first rows see nothing, and have no entropy.
    assert not seen[0, 0, :2].any()
    np.testing.assert_allclose(entropy, want, atol=3e-6)
    np.testing.assert_allclose(scores, (weights[:, :, -20:] * counts[..., None]).sum(2), atol=3e-6)


@interpreted
def test_nan_in_hidden_places() -> None:
    spec = dataclasses.replace(BASE, queries=20, keys=40, query_lengths=True, key_lengths=True, window=(5, 0))
    operands, d_out, d_lse = made(dataclasses.replace(spec, q_offset=3))
    spec = dataclasses.replace(spec, q_offset=3)
    operands = operands._replace(query_lengths=jnp.int32([17]), key_lengths=jnp.int32([30]))
    # The last query is 16 and sees up to key 19; no query sees beyond.
    dirty = operands._replace(
        query=operands.query.at[:, 17:].set(jnp.nan),
        key=operands.key.at[:, 20:].set(jnp.nan),
        value=operands.value.at[:, 20:].set(jnp.inf),
    )
    got = run(spec, dirty, d_out.at[:, 17:].set(jnp.nan), d_lse)
    assert_close(got, spec, operands, d_out, d_lse)
    assert (got["out"][:, 17:] == 0).all() and np.isneginf(got["lse"][..., 17:]).all()


@interpreted
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.* encountered in matmul")  # by the interpreter
def test_a_nan_in_a_key_stays_with_those_who_see_it() -> None:
    spec = dataclasses.replace(BASE, mask=(1, 1, 70, 129))
    operands, d_out, d_lse = made(spec)
    mask = jnp.asarray(operands.mask).at[:, :, :35, 3].set(False).at[:, :, 35:, 3].set(True)
    # Queries that see no NaN alone see key 5.
    operands = operands._replace(mask=mask.at[:, :, :35, 5].set(True).at[:, :, 35:, 5].set(False))
    clean = run(spec, operands, d_out, d_lse)
    for what in (np.nan, np.inf):
        dirty = run(spec, operands._replace(key=operands.key.at[:, 3].set(what)), d_out, d_lse)
        for name, axis in (("out", 1), ("lse", 2), ("query", 1)):
            got, want = (np.moveaxis(x[name], axis, 0) for x in (dirty, clean))
            np.testing.assert_array_equal(got[:35], want[:35], err_msg=name)
            assert np.isnan(got[35:]).all(), name
        for name in ("key", "value"):
            np.testing.assert_array_equal(dirty[name][:, 5], clean[name][:, 5], err_msg=name)


@interpreted
@pytest.mark.slow
@pytest.mark.parametrize("sink", [3e38, -3e38])
def test_a_sink_beyond_the_units_of_the_kernel(sink: float) -> None:
    spec = dataclasses.replace(BASE, sinks_dtype=F32)
    operands, *others = made(spec)
    given = (operands._replace(sinks=jnp.full(1, sink, F32)), *others)
    assert_close(run(spec, *given), spec, *given)


@interpreted
@pytest.mark.slow
@pytest.mark.parametrize("scale", [1e4, 1e30])
def test_extreme_scores(scale: float) -> None:
    spec = dataclasses.replace(BASE, window=(None, 0), scale=scale)
    given = made(spec)
    want = dense.attend(spec, *given)
    out, lse = jax.jit(
        lambda operands: pallas_mosaic_gpu.forward(spec, operands, interpret=True), compiler_options=QUICK
    )(given[0])
    np.testing.assert_allclose(np.asarray(out, np.float64), want.out, atol=2**-7 * np.abs(want.out).max())
    np.testing.assert_allclose(lse, want.lse, rtol=1e-6)


@interpreted
@pytest.mark.slow
def test_nothing_races() -> None:
    from jax.experimental.pallas import mosaic_gpu

    spec = dataclasses.replace(BASE, window=(60, 0), segments=True, mask=(1, 1, 70, 129))
    given = made(spec)
    params = mosaic_gpu.InterpretGPUParams(detect_races=True)
    with mosaic_gpu.force_gpu_interpret_mode(params):
        assert_close(run(spec, *given, Blocks(64, 2, 64, 2, 64, 2)), spec, *given)


@interpreted
@pytest.mark.slow
def test_two_runs_are_equal() -> None:
    spec = dataclasses.replace(BASE, window=(None, 0))
    given = made(spec)
    first, second = run(spec, *given), run(spec, *given)
    for name, x in first.items():
        np.testing.assert_array_equal(x, second[name], err_msg=name)


@pytest.mark.parametrize("window", [(None, None), (None, 0), (5, 2), (0, 0), (30, None), (None, 7)])
@pytest.mark.parametrize("offset", [-20, 0, 9])
@pytest.mark.parametrize("lengths", [(48, 64), (20, 13), (0, 64), (48, 0)])
def test_blocks_are_touched_where_something_is_seen(
    window: tuple[int | None, int | None], offset: int, lengths: tuple[int, int]
) -> None:
    spec = AttentionSpec(1, 48, 64, 1, 1, 16, 16, BF16, window=window, q_offset=offset)
    shape = Shape(spec, 48, 64, 16, 16, 16, 8, 2)
    queries, keys = lengths
    seen = dense.seen_keys(spec, Operands(*[None] * 3))[0, 0]  # type: ignore[arg-type]
    rows = seen & (np.arange(64) < keys)
    both = rows & (np.arange(48) < queries)[:, None]

    def check(bounds: tuple[Any, ...], some: np.ndarray, whole: np.ndarray) -> None:
        first, plain, rest, last = (int(x) for x in bounds)
        assert first <= plain <= rest <= last
        assert set(np.flatnonzero(some)) <= set(range(first, last))
        # At most one block too many, where the edge of the window lies between blocks.
        assert last - first <= some.sum() + 1
        assert whole[plain:rest].all()

    for row in range(0, 48, 16):
        tiles = rows[row : row + 16].reshape(16, 8, 8)
        bounds = shape.touched_keys(jnp.int32(row), 16, offset, jnp.int32(keys))
        check(bounds, tiles.any((0, 2)), tiles.all((0, 2)))
    for column in range(0, 64, 8):
        part = both[:, column : column + 8].reshape(3, 16, 8)
        plain = rows[:, column : column + 8].reshape(3, 16, 8)
        bounds = shape.touched_queries(jnp.int32(column), 8, offset, jnp.int32(keys), jnp.int32(queries))
        check(bounds, part.any((1, 2)), plain.all((1, 2)))


def test_segments_bound_the_blocks() -> None:
    ids = jnp.repeat(jnp.int32([[0, 1, 2, 3], [0, 0, 0, 5], [4, 4, 4, 4]]), 16, axis=1)
    found = segment_blocks(ids, ids.at[2].set(1), 16, 8)
    np.testing.assert_array_equal(found["first_block"], [[0, 2, 4, 6], [0, 0, 0, 6], [0, 0, 0, 0]])
    np.testing.assert_array_equal(found["last_block"], [[2, 4, 6, 8], [6, 6, 6, 8], [0, 0, 0, 0]])


@pytest.mark.parametrize(
    "change",
    [
        {"window": (3, 1)},
        {"window": (None, 0), "q_offset": -9},
        {"key_lengths": True},
        {"query_lengths": True, "window": (4, 0), "q_offset": None},
        {"segments": True, "mask": (1, 1, 30, 40), "key_lengths": True, "window": (None, 0)},
    ],
)
def test_keys_that_some_query_sees(change: dict[str, Any]) -> None:
    spec = dataclasses.replace(BASE, batch=2, queries=30, keys=40, **{"q_offset": 5, **change})
    operands, *_ = made(spec, 3)
    got = seen_keys(spec, operands)
    want = dense.seen_keys(spec, operands).any((1, 2))[:, :, None, None]
    np.testing.assert_array_equal(np.broadcast_to(got, want.shape), want)


def test_every_key_is_seen_without_a_pass_over_them() -> None:
    for change in ({}, {"window": (None, 0)}, {"window": (None, 0), "queries": 129, "q_offset": 0}):
        spec = dataclasses.replace(BASE, **change)
        assert seen_keys(spec, made(spec)[0]) is None


@pytest.mark.skipif(not HAS_MOSAIC, reason="needs JAX 0.12: older ones have one reason more")
@pytest.mark.parametrize(
    ("change", "target", "reason"),
    [
        ({}, Target("cpu"), "platform is 'cpu'"),
        ({}, Target("cuda", "NVIDIA A100", (8, 0)), "9.0, and this is 8.0"),
        ({}, Target("cuda", "NVIDIA L4"), "device is 'NVIDIA L4'"),
        ({"dtype": F32}, H200, "dtype is float32"),
        ({"size": 264}, H200, "these are 264"),
        ({"queries": 0}, H200, "an axis is empty"),
        ({"nan_safe": True}, H200, "nan_safe"),
    ],
)
def test_what_it_cannot_do_has_a_reason(change: dict[str, Any], target: Target, reason: str) -> None:
    (found,) = pallas_mosaic_gpu.unsupported(dataclasses.replace(BASE, **change), target)
    assert reason in found


@pytest.mark.skipif(HAS_MOSAIC, reason="needs a JAX before 0.12")
def test_an_older_jax_is_refused_by_name() -> None:
    (reason,) = pallas_mosaic_gpu.unsupported(BASE, H200)
    assert "JAX 0.12" in reason and jax.__version__ in reason
    operands, *_ = made(BASE)
    with pytest.raises(BackendLimitation, match="JAX 0.12"):
        pallas_mosaic_gpu.forward(BASE, operands, interpret=True)


def test_shapes_are_refused_before_any_kernel() -> None:
    spec = dataclasses.replace(BASE, dtype=F32)
    operands, *_ = made(spec)
    with pytest.raises(BackendLimitation, match="dtype is float32"):
        pallas_mosaic_gpu.forward(spec, operands)
