"""Every mode and order of differentiation, against JAX's own derivatives of the oracle in float64."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rtx_jax._compat import x64
from rtx_jax.kernels.attention import extras, flash_attention, reference, walk
from rtx_jax.kernels.attention.primitives import attention
from rtx_jax.kernels.attention.spec import AttentionSpec, Operands
from tests.kernels.attention.dense import random_operands

Results = tuple[jax.Array, jax.Array]
Moving = dict[str, jax.Array]
Run = Callable[[Moving], Results]

DIFFERENTIABLE = ("query", "key", "value", "bias", "sinks")
# Measured: 3e-14 of the greatest value.
BOUND = 3e-13

F64 = np.dtype(np.float64)
PLAIN = AttentionSpec(2, 7, 9, 4, 2, 5, 3, F64, scale=0.6)
CASES = {
    "plain": PLAIN,
    "causal": replace(PLAIN, window=(None, 0), q_offset=2, layout="BNTH"),
    "window": replace(PLAIN, window=(3, 1), q_offset=1),
    "mask": replace(PLAIN, mask=(2, 1, 7, 9)),
    "bias": replace(PLAIN, bias=(1, 4, 7, 9), bias_dtype=F64),
    "segments": replace(PLAIN, segments=True, layout="BNTH"),
    "lengths": replace(PLAIN, query_lengths=True, key_lengths=True, window=(None, 0), q_offset=None),
    "softcap": replace(PLAIN, softcap=0.8),
    "sinks": replace(PLAIN, sinks_dtype=F64, layout="BNTH"),
}
TOGETHER = {
    "causal, bias and grouped heads": replace(CASES["causal"], bias=(1, 4, 7, 9), bias_dtype=F64),
    "window, mask and softcap": replace(CASES["window"], mask=(2, 1, 7, 9), softcap=0.8),
    "segments, lengths and sinks": replace(CASES["lengths"], segments=True, sinks_dtype=F64, layout="BNTH"),
}
# Of the modes; all of each feature are among the slow tests.
FEW = ("grad", "jvp", "reverse over reverse")
ALL = replace(
    PLAIN,
    window=(50, 3),
    q_offset=4,
    softcap=1.5,
    mask=(1, 4, 7, 9),
    bias=(2, 1, 7, 1),
    bias_dtype=F64,
    sinks_dtype=F64,
    segments=True,
    key_lengths=True,
)


@pytest.fixture(autouse=True, scope="module")
def _several_blocks() -> Iterator[None]:
    """129 queries are three blocks of these sums, 7 are one."""
    with pytest.MonkeyPatch.context() as patch, x64():
        patch.setattr(walk, "_LARGEST", 48)
        yield


def _long(spec: AttentionSpec) -> AttentionSpec:
    """Return the same call of 129 queries and 140 keys."""

    def longer(shape: tuple[int, int, int, int] | None) -> tuple[int, int, int, int] | None:
        return shape and (
            *shape[:2],
            *(size if size == 1 else n for size, n in zip(shape[2:], (129, 140), strict=True)),
        )

    return replace(spec, queries=129, keys=140, mask=longer(spec.mask), bias=longer(spec.bias))


def _setup(spec: AttentionSpec) -> tuple[Operands, Moving]:
    found = random_operands(spec, np.random.default_rng(5))
    operands = Operands(
        *(None if x is None else jnp.asarray(x, np.int32 if x.dtype.kind == "i" else None) for x in found)
    )
    moving = {name: x for name, x in operands._asdict().items() if x is not None and name in DIFFERENTIABLE}
    return operands, moving


def _like(rng: np.random.Generator, tree: object) -> object:
    return jax.tree.map(lambda x: jnp.asarray(rng.standard_normal(x.shape)), tree)


def _every_mode(run: Run, moving: Moving, ways: tuple[Moving, Moving], seeds: Results) -> dict[str, object]:
    """Return what each mode and order gives, by name."""
    # An infinite bias cannot be moved.
    ways = tuple({name: jnp.where(jnp.isfinite(moving[name]), x, 0) for name, x in way.items()} for way in ways)  # type: ignore[assignment]

    def loss(moving: Moving) -> jax.Array:
        out, lse = run(moving)
        # A nonlinear function of the results, so that second derivatives go through them too.
        seen = jnp.where(lse == -jnp.inf, 0, lse)
        return jnp.sum(jnp.sin(out) * seeds[0]) + jnp.sum(seen**2 * seeds[1])

    def pushed(moving: Moving) -> Results:
        out, lse = jax.jvp(run, (moving,), (ways[0],))[1]
        return out, lse

    def along(tree: Moving, way: Moving) -> jax.Array:
        return sum((jnp.vdot(tree[name], way[name]) for name in tree), jnp.zeros(()))

    _, linear = jax.linearize(run, moving)
    return {
        "result": run(moving),
        "grad": jax.grad(loss)(moving),
        "jvp": pushed(moving),
        "linearize": linear(ways[1]),
        "remat": jax.grad(jax.checkpoint(loss))(moving),
        "forward over reverse": jax.jvp(jax.grad(loss), (moving,), (ways[0],))[1],
        "reverse over reverse": jax.grad(lambda m: along(jax.grad(loss)(m), ways[1]))(moving),
        "forward over forward": jax.jvp(pushed, (moving,), (ways[1],))[1],
        "reverse over forward": jax.grad(lambda m: along(dict(enumerate(pushed(m))), dict(enumerate(seeds))))(moving),
    }


def _compare(spec: AttentionSpec, names: tuple[str, ...] = ()) -> None:
    operands, moving = _setup(spec)
    rng = np.random.default_rng(6)
    ways = (_like(rng, moving), _like(rng, moving))
    seeds = _like(rng, jax.eval_shape(functools.partial(reference.forward, spec), operands))

    def evaluate(fn: Callable[[AttentionSpec, Operands], Results]) -> dict[str, object]:
        def run(moving: Moving) -> Results:
            return fn(spec, operands._replace(**moving))

        every = jax.jit(lambda *a: {k: v for k, v in _every_mode(run, *a).items() if not names or k in names})
        return every(moving, ways, seeds)  # type: ignore[no-any-return]

    got, want = evaluate(attention), evaluate(reference.forward)
    assert got.keys() == want.keys() and (not names or len(got) == len(names))
    for name in want:
        for a, b in zip(jax.tree.leaves(got[name]), jax.tree.leaves(want[name]), strict=True):
            assert a.dtype == b.dtype
            scale = max(1.0, float(np.max(np.abs(b), initial=0, where=np.isfinite(b))))
            np.testing.assert_allclose(a, b, rtol=0, atol=BOUND * scale, err_msg=name)


@pytest.mark.parametrize("name", TOGETHER)
def test_every_mode(name: str) -> None:
    _compare(TOGETHER[name], () if name.startswith("causal") else FEW)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_every_mode_with_each_feature_alone(name: str) -> None:
    _compare(CASES[name])


def test_all_features_at_once_in_several_blocks() -> None:
    _compare(_long(ALL), ("reverse over reverse",))


def test_causal_blocks_that_nothing_sees_are_left_out() -> None:
    _compare(_long(CASES["causal"]), ("reverse over reverse",))


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_every_mode_in_several_blocks(name: str) -> None:
    _compare(_long(CASES[name]))


def test_third_order() -> None:
    operands, moving = _setup(CASES["causal"])

    def third(fn: Callable[[AttentionSpec, Operands], Results]) -> jax.Array:
        def along(x: jax.Array) -> jax.Array:
            out, lse = fn(CASES["causal"], operands._replace(query=operands.query * x, bias=None))
            return jnp.sum(out**2) + jnp.sum(lse**2)

        # Reverse, forward, reverse.
        slope = jax.grad(along)
        return jax.jit(jax.grad(lambda x: jax.jvp(slope, (x,), (1.0,))[1]))(0.7)  # type: ignore[no-any-return]

    np.testing.assert_allclose(third(attention), third(reference.forward), rtol=1e-11)


# vmap

MAPPED = replace(
    ALL, queries=6, keys=8, mask=(1, 1, 6, 8), bias=(1, 4, 6, 8), query_lengths=True, window=(4, 0), q_offset=None
)


@pytest.mark.parametrize(
    "names",
    [
        ("query",),
        ("key", "value", "bias"),
        ("mask", "segment_ids", "key_lengths", "q_offset"),
        tuple(name for name in Operands._fields),
    ],
    ids="-".join,
)
def test_vmap_of_results_and_gradients(names: tuple[str, ...]) -> None:
    rows = [_setup_at(seed) for seed in range(3)]
    axes = Operands(*(0 if name in names else None for name in Operands._fields))
    stacked = Operands(
        *(
            jnp.stack([getattr(row, name) for row in rows]) if name in names else getattr(rows[0], name)
            for name in Operands._fields
        )
    )

    def loss(fn: Callable[[AttentionSpec, Operands], Results], operands: Operands) -> jax.Array:
        moving = {name: getattr(operands, name) for name in DIFFERENTIABLE}

        def of(moving: Moving) -> jax.Array:
            out, lse = fn(MAPPED, operands._replace(**moving))
            return jnp.sum(out**2) + jnp.sum(jnp.where(lse == -jnp.inf, 0, lse))

        value, pull = jax.vjp(of, moving)
        way = {name: jnp.where(jnp.isfinite(x), jnp.cos(x), 0) for name, x in moving.items()}
        return value, pull(jnp.ones(()))[0], jax.jvp(of, (moving,), (way,))[1]  # type: ignore[return-value]

    got, want = (
        jax.jit(jax.vmap(functools.partial(loss, fn), in_axes=(axes,)))(stacked)
        for fn in (attention, reference.forward)
    )
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12)


def _setup_at(seed: int) -> Operands:
    found = random_operands(MAPPED, np.random.default_rng(seed))
    return Operands(*(jnp.asarray(x, np.int32 if x.dtype.kind == "i" else None) for x in found))


def test_vmap_of_a_derivative_of_second_order_and_of_vmap() -> None:
    spec = CASES["causal"]
    operands, _ = _setup(spec)
    queries = jnp.stack([operands.query * x for x in (0.5, 1.0, -1.0, 2.0)]).reshape(2, 2, *operands.query.shape)

    def second(fn: Callable[[AttentionSpec, Operands], Results], query: jax.Array) -> jax.Array:
        slope = jax.grad(lambda q: jnp.sum(fn(spec, operands._replace(query=q))[0] ** 3))
        return jax.jvp(slope, (query,), (jnp.cos(query),))[1]  # type: ignore[no-any-return]

    got, want = (
        jax.jit(jax.vmap(jax.vmap(functools.partial(second, fn)), in_axes=1))(queries)
        for fn in (attention, reference.forward)
    )
    np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("mapped", [DIFFERENTIABLE, ("query",), ("sinks",), ("key", "bias")])
def test_vmap_over_an_axis_of_no_elements(mapped: tuple[str, ...]) -> None:
    spec = replace(PLAIN, bias=(1, 4, 7, 9), bias_dtype=F64, sinks_dtype=F64)
    operands = Operands(*(None if x is None else jnp.asarray(x, jnp.float32) for x in _setup(spec)[0]))
    spec = replace(spec, dtype=np.dtype(np.float32), bias_dtype=np.dtype(np.float32), sinks_dtype=np.dtype(np.float32))
    moving = {name: getattr(operands, name) for name in DIFFERENTIABLE}

    def run(moving: Moving) -> Results:
        return attention(spec, operands._replace(**moving))

    def gradient(moving: Moving) -> Moving:
        return jax.grad(lambda moving: sum((jnp.sum(x) for x in run(moving)), jnp.zeros(())))(moving)

    axes = ({name: 0 if name in mapped else None for name in DIFFERENTIABLE},)
    none = {name: jnp.zeros((0, *x.shape)) if name in mapped else x for name, x in moving.items()}
    out, lse = jax.vmap(run, axes)(none)
    assert out.shape == (0, 2, 7, 4, 3) and lse.shape == (0, 2, 4, 7)
    for name, x in jax.vmap(gradient, axes)(none).items():
        assert x.shape == (0, *moving[name].shape)
    along = jax.vmap(lambda moving: jax.jvp(run, (moving,), (moving,))[1], axes)(none)
    assert along[0].shape == out.shape


# What else is a sum over pairs


@pytest.mark.parametrize("kind", ["entropy", "columns"])
def test_entropy_and_column_scores_have_derivatives(kind: str) -> None:
    spec = _long(replace(ALL, query_lengths=True)) if kind == "columns" else ALL
    operands, moving = _setup(spec)

    def exact(operands: Operands) -> jax.Array:
        seen = reference.keep(spec, operands)
        scores = reference.scores(spec, operands, seen)
        _, lse = reference.forward(spec, operands)
        lse = lse.reshape(scores.shape[:-1])
        p = jnp.where(seen, jnp.exp(jnp.where(seen, scores, 0) - jnp.where(jnp.isinf(lse), 0, lse)[..., None]), 0)
        if kind == "columns":
            t = jnp.arange(spec.queries)
            last = (t >= operands.query_lengths[:, None] - 5) & (t < operands.query_lengths[:, None])
            return jnp.einsum("bkgts,bt->bkgs", p, last.astype(p.dtype)).reshape(spec.batch, spec.heads, -1)
        # The sum of -p ln p, the sink's among them.
        own = jnp.exp(operands.sinks.reshape(1, spec.key_heads, -1, 1) - jnp.where(jnp.isinf(lse), jnp.inf, lse))
        every = jnp.concatenate([p, own[..., None]], -1)
        terms = jnp.where(every > 0, every * jnp.log(jnp.where(every > 0, every, 1)), 0)
        return -jnp.sum(terms, -1).reshape(spec.batch, spec.heads, -1)

    def ours(operands: Operands) -> jax.Array:
        if kind == "columns":
            _, lse = attention(spec, operands)
            return extras.column_scores(spec, operands, lse, 5, "auto", False)
        return extras.attention_with_entropy(spec, operands, "auto", False)[2]

    def both(fn: Callable[[Operands], jax.Array]) -> tuple[object, object]:
        def loss(moving: Moving) -> tuple[jax.Array, jax.Array]:
            found = fn(operands._replace(**moving))
            return jnp.sum(found**2), found

        return jax.jit(jax.grad(loss, has_aux=True))(moving)  # type: ignore[no-any-return]

    got, want = both(ours), both(exact)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("sink", [np.inf, -np.inf, np.nan])
def test_the_entropy_of_a_query_that_sees_no_key_is_0_beside_any_sink(sink: float) -> None:
    x = jnp.ones((1, 2, 1, 3), np.float32)
    sinks, none = jnp.full(1, sink, np.float32), jnp.zeros(1, np.int32)
    entropy = flash_attention(x, x, x, sinks=sinks, key_lengths=none, return_entropy=True)[1]
    assert (entropy == 0).all()


@pytest.mark.parametrize("implementation", ["xla", "reference"])
def test_a_hidden_nan_beside_a_softcap_reaches_no_derivative(implementation: str) -> None:
    """Of the result, the entropy and the column scores, of the first and the second order."""
    draw = np.random.default_rng(0)
    query, key, value = (jnp.asarray(draw.normal(size=(1, 4, 1, 3)), np.float32) for _ in range(3))
    mask = jnp.arange(4) < 2

    def loss(query: jax.Array, key: jax.Array) -> jax.Array:
        results = flash_attention(
            query,
            key,
            value,
            mask=mask,
            softcap=2.0,
            return_lse=True,
            return_entropy=True,
            column_scores=3,
            implementation=implementation,
        )
        return sum((jnp.sum(x**2) for x in results), jnp.zeros(()))

    def curved(query: jax.Array, key: jax.Array) -> jax.Array:
        return jnp.sum(jax.grad(loss)(query, key) ** 2)

    both = jax.jit(lambda *arrays: (jax.grad(loss, (0, 1))(*arrays), jax.grad(curved, (0, 1))(*arrays)))
    clean, got = both(query, key), both(query, key.at[:, 2:].set(jnp.nan))
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(clean), strict=True):
        np.testing.assert_array_equal(a, b)


def test_float32_derivatives_of_second_order() -> None:
    spec = replace(_long(CASES["causal"]), dtype=np.dtype(np.float32))
    operands, _ = _setup(spec)

    def second(fn: Callable[[AttentionSpec, Operands], Results], dtype: np.dtype) -> jax.Array:
        q, k, v = (x.astype(dtype) for x in operands[:3])
        slope = jax.grad(lambda q: jnp.sum(fn(replace(spec, dtype=dtype), Operands(q, k, v))[0] ** 2))
        return jax.jit(lambda q: jax.jvp(slope, (q,), (q,))[1])(q)  # type: ignore[no-any-return]

    got, want = second(attention, np.dtype(np.float32)), second(reference.forward, F64)
    assert got.dtype == np.float32
    # Measured 2.8e-6.
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-5 * float(jnp.max(jnp.abs(want))))
