"""Programs of calls: structure, replay, and what the caches keep."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rtx_jax.core import recorder
from rtx_jax.core.recorder import Recording, cached, facts_of, result_facts

add = jax.jit(lambda a, b: a + b)
double = jax.jit(lambda a: a * 2)
halves = jax.jit(lambda a: (a[:2], a[2:]))


def wide_sum(a: jax.Array) -> jax.Array:
    return jnp.sum(a, dtype=np.float64)


def diamond(x: jax.Array, y: jax.Array) -> Recording:
    """``(x + y) + 2 (x + y)``."""
    recording = Recording()
    s = recording.add(add, False, (recording.leaf(x), recording.leaf(y)))
    d = recording.add(double, False, (s,))
    recording.add(add, False, (s, d))
    return recording


def test_a_program_gives_all_values() -> None:
    x, y = jnp.asarray([1.0, 2.0]), jnp.asarray([3.0, 5.0])
    recording = diamond(x, y)
    values = recording.program()(recording.leaves)
    assert [np.asarray(v).tolist() for v in values] == [[4, 7], [8, 14], [12, 21]]
    compiled = jax.jit(recording.program())(recording.leaves)
    assert [np.asarray(v).tolist() for v in compiled] == [[4, 7], [8, 14], [12, 21]]


def test_structure_is_steps_and_facts_of_leaves() -> None:
    one, two = jnp.ones(2), jnp.zeros(2)
    same = diamond(one, two)
    assert same.structure() == diamond(two, one + 1).structure()
    assert hash(same.structure()) == hash(diamond(two, one).structure())
    assert same.structure() != diamond(jnp.ones(3), jnp.ones(3)).structure()
    assert same.structure() != diamond(one, one).structure()  # one leaf
    assert len(diamond(one, one).leaves) == 1


def test_steps_with_several_results_take_as_many_slots() -> None:
    recording = Recording()
    first = recording.add(halves, False, (recording.leaf(jnp.arange(4.0)),), 2)
    recording.add(add, False, (first, first + 1))
    assert [np.asarray(v).tolist() for v in recording.program()(recording.leaves)] == [[0, 1], [2, 3], [2, 4]]


def test_wide_steps_run_with_64_bits() -> None:
    recording = Recording()
    recording.add(wide_sum, True, (recording.leaf(jnp.ones(3, np.float32)),))
    assert recording.is_wide()
    (value,) = recording.program()(recording.leaves)
    assert value.dtype == np.float64 and not jax.config.jax_enable_x64
    assert not diamond(jnp.ones(2), jnp.ones(2)).is_wide()


@pytest.mark.parametrize("wide", [False, True])
def test_facts_are_known_without_running(wide: bool) -> None:
    found = result_facts(wide_sum if wide else double, wide, jax.ShapeDtypeStruct((3,), np.float32))
    assert (found.shape, found.dtype) == (((), np.float64) if wide else ((3,), np.float32))
    assert result_facts(wide_sum if wide else double, wide, jax.ShapeDtypeStruct((3,), np.float32)) is found


def test_weak_types_are_other_facts() -> None:
    half = jnp.ones(2, np.float16)
    strong = result_facts(add, False, half, jnp.asarray(1.0, np.float32))
    weak = result_facts(add, False, half, jnp.asarray(1.0))
    assert (strong.dtype, weak.dtype) == (np.float32, np.float16)


def test_trees_are_leaves() -> None:
    pair = {"a": jnp.ones(2), "b": np.zeros((1, 3), np.int32)}
    tree, facts = facts_of(pair)
    assert tree == jax.tree.structure(pair) and facts == (((2,), np.float32), ((1, 3), np.int32))
    recording = Recording()
    recording.add(lambda p: p["a"] + p["b"][0, 0], False, (recording.leaf(pair),))
    assert np.asarray(recording.program()(recording.leaves)[0]).tolist() == [1, 1]


def test_programs_are_kept_by_key_and_the_oldest_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "_MAX_PROGRAMS", 2)
    recorder.clear()
    built: list[str] = []

    def build(name: str) -> object:
        def make() -> object:
            built.append(name)
            return lambda: name

        return cached(name, make)

    for name in ("a", "b", "a", "c", "a", "b"):
        assert build(name)() == name  # type: ignore[operator]
    assert built == ["a", "b", "c", "b"]
