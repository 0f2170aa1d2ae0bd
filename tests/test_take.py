"""Arrays that are given up: `take`, `clone`, `is_alive`, `id`."""

from __future__ import annotations

import copy
import gc
import pickle
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rtx_jax as xp
from rtx_jax import quant
from rtx_jax.core.handle import held
from rtx_jax.errors import InvalidArgument, ShapeMismatch, TracedMutation, UseAfterMove
from tests.namespace.test_ownership import BY_NAME, check, owned

SHAPE = (2, 3)


def fresh(start: float = 0.0) -> xp.Array:
    """An Array that alone owns the output of a compiled call."""
    return xp.reshape(xp.arange(6, dtype=xp.float32) + start, SHAPE)


def address(x: xp.Array) -> int:
    """Where the elements are, without counting as somebody who has them."""
    pointer: int = held(x).unsafe_buffer_pointer()
    return pointer


WANTED = np.arange(6, dtype=np.float32).reshape(SHAPE)


# --- handles ---------------------------------------------------------------------------------------------------------


def test_an_array_that_was_given_up_is_dead() -> None:
    x = fresh()
    taken = x.take()
    assert not x.is_alive and taken.is_alive
    assert repr(x) == str(x) == "<Array, given up>"
    uses = (
        lambda: x.shape,
        lambda: x.dtype,
        lambda: x.device,
        lambda: x.jax,
        lambda: x + 1,
        lambda: 1 + x,
        lambda: x / 2,
        lambda: x == 0,
        lambda: -x,
        lambda: x @ fresh().T,
        lambda: x[0],
        lambda: x.__setitem__(0, 1.0),
        lambda: x.__iadd__(1),
        lambda: fresh() + x,
        lambda: fresh().__iadd__(x),
        lambda: fresh().__setitem__(0, x[0]),
        lambda: fresh()[xp.asarray(0) if x.ndim else 0],
        lambda: xp.sum(x),
        lambda: xp.where(x > 0, x, x),
        lambda: xp.concat([fresh(), x]),
        lambda: xp.asarray(x).sum(),
        lambda: xp.nonzero(x),
        lambda: x.at[0].set(1),
        lambda: float(x),
        lambda: np.asarray(x),
        lambda: np.from_dlpack(x),
        lambda: x.tolist(),
        lambda: x.copy(),
        lambda: x.take(),
        lambda: x.clone(),
        lambda: x.to_device("cpu"),
        lambda: copy.deepcopy(x),
        lambda: pickle.dumps(x),
        lambda: jax.tree.leaves(x),
        lambda: jax.jit(lambda x: x)(x),
        lambda: xp.jit(lambda x: x + 1)(x),
        lambda: xp.vmap(lambda x: x + 1)(x),
        lambda: xp.grad(xp.sum)(x),
    )
    for use in uses:
        with pytest.raises(UseAfterMove, match="take"):
            use()
    np.testing.assert_array_equal(np.asarray(taken), WANTED)  # and nothing of this touched the value


def test_errors_name_the_operation() -> None:
    x = fresh()
    x.take()
    for name, use in (
        ("sin", xp.sin),
        ("negative", lambda x: -x),
        ("add", lambda x: x + x),
        ("divide", lambda x: x / 2),
    ):
        with pytest.raises(UseAfterMove, match=f"^{name}:"):
            use(x)


def test_a_look_is_no_use() -> None:
    x = fresh().take()
    assert x.shape == SHAPE and x.dtype == xp.float32 and x.ndim == 2 and x.size == 6 and x.nbytes == 24
    assert "5." in repr(x) and x.tolist() == WANTED.tolist() and x.is_alive
    x.block_until_ready()
    assert x.device == jax.devices()[0]
    np.testing.assert_array_equal(np.asarray(x + 1), WANTED + 1)
    with pytest.raises(UseAfterMove, match="add"):
        x + 1
    with pytest.raises(UseAfterMove, match="add"):
        (t := fresh().take()) + t


def test_ids() -> None:
    x = fresh()
    first = x.id
    assert x.id == first and x.take().id != first and x.id == first
    assert len({fresh().id for _ in range(5)} | {x.clone().id for x in (fresh(), fresh())}) == 7
    y = fresh()
    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.append(y.id)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(found) == {y.id}


def test_is_alive_after_donation() -> None:
    x = fresh()
    xp.jit(lambda x: x + 1, donate_argnums=0)(x)
    assert not x.is_alive
    assert xp.zeros(3).is_alive and xp.Array(jnp.ones(2)).is_alive


# --- memory ----------------------------------------------------------------------------------------------------------


def test_memory_of_every_kind_of_door_is_used() -> None:
    other = fresh(7)
    for use in (
        lambda x: x + 1,
        lambda x: 1 - x,
        lambda x: x + other,
        lambda x: other * x,
        lambda x: x / 2,
        lambda x: -x,
        lambda x: x**2,
        lambda x: xp.sin(x),
        lambda x: xp.flip(x, axis=1),
        lambda x: xp.roll(x, 1, axis=0),
        lambda x: xp.clip(x, 1.0, 3.0),
        lambda x: x / other,
        lambda x: xp.where(other > 8, x, other),
        lambda x: xp.sort(x, axis=1),
        lambda x: xp.cumulative_sum(x, axis=0),
        lambda x: xp.nn.relu(x),
        lambda x: xp.jit(lambda x: x * 3)(x),
    ):
        x = fresh()
        where = address(x)
        want = np.asarray(use(fresh()))
        got = use(x.take())
        assert address(got) == where
        np.testing.assert_array_equal(np.asarray(got), want)
    np.testing.assert_array_equal(np.asarray(other), WANTED + 7)


def test_64_bit_values_keep_their_width() -> None:
    x = xp.asarray([2.0**-40, 1.0], dtype=xp.float64) * 1.0
    where = address(x)
    y = x.take() + 1.0
    assert y.dtype == np.float64 and address(y) == where and y.tolist() == [1.0 + 2.0**-40, 2.0]
    assert not jax.config.jax_enable_x64


def test_each_result_takes_memory_of_its_own() -> None:
    x, y = fresh(), fresh(1)
    where = {address(x), address(y)}
    assert address(xp.add(x.take(), y.take())) in where
    x = xp.asarray([1.5, -2.5], dtype=xp.float64) * 1.0
    with pytest.raises(UseAfterMove):
        divmod(x.take(), x)
    x = fresh(1)
    assert xp.sum(x.take()).tolist() == 21.0 and not x.is_alive  # no result fits; the memory is let go


def test_writes_to_what_was_given_up() -> None:
    x = fresh()
    where = address(x)
    y = x.take()
    y += 1
    assert address(y) == where and not x.is_alive
    y += y  # an ordinary Array by now
    assert y.tolist() == (2 * WANTED + 2).tolist()
    y = y.take()
    y[0, 0] = 9
    y[0, 1] = 8
    assert y.tolist() == [[9, 8, 6], [8, 10, 12]]
    z = fresh()
    z += fresh(1).take()
    assert z.tolist() == (2 * WANTED + 1).tolist()
    value, key = fresh(1)[0], xp.asarray(1)
    z[key.take()] = value.take()
    assert z[1].tolist() == [1, 2, 3] and not (value.is_alive or key.is_alive)
    t = fresh().take()
    t -= t
    assert t.tolist() == np.zeros(SHAPE).tolist()


def test_what_others_have_keeps_its_values() -> None:
    x = fresh()
    view, raw = np.asarray(x), x.jax
    assert (x.take() + 1).tolist() == (WANTED + 1).tolist()
    np.testing.assert_array_equal(view, WANTED)
    np.testing.assert_array_equal(np.asarray(raw), WANTED)
    for share in (
        lambda x: x.copy(),
        lambda x: x.clone(),
        copy.copy,
        lambda x: x[...],
        lambda x: xp.asarray(x, copy=True),
        lambda x: x.to_device(jax.devices()[0]),
        lambda x: xp.Array(x.jax),
        lambda x: xp.Array(jax.device_put(x.jax, x.sharding)),
        lambda x: jax.tree.map(lambda leaf: leaf, [x])[0],
        lambda x: xp.from_dlpack(x),
    ):
        x = fresh()
        twin = share(x)
        assert xp.exp(x.take()).shape == SHAPE
        np.testing.assert_array_equal(np.asarray(twin), WANTED)
    constant = xp.zeros(4)
    (constant.take() + 1).block_until_ready()
    assert xp.zeros(4).tolist() == [0.0] * 4


def test_clones_copy_on_write_and_the_last_one_donates() -> None:
    x = fresh()
    where = address(x)
    twin = x.clone()
    assert address(twin) == where
    twin[0, 0] = 5
    assert address(twin) != where and x.tolist() == WANTED.tolist() and twin.tolist()[0][0] == 5
    third = x.clone()
    first = xp.exp(x.take())
    assert address(first) != where
    assert address(xp.exp(third.take())) == where
    x = fresh()
    where, twin = address(x), x.clone()
    del twin
    gc.collect()
    assert address(x.take() * 2) == where


def test_what_came_from_outside_is_used_when_nobody_holds_it() -> None:
    raw = jnp.arange(4.0) + 1
    x = xp.Array(raw)
    assert (x.take() + 1).tolist() == [2, 3, 4, 5] and raw.tolist() == [1, 2, 3, 4]
    x = xp.Array(jnp.arange(4.0) + 1)
    where = address(x)
    assert address(x.take() + 1) == where


def test_donation_can_be_switched_off() -> None:
    x = fresh()
    where = address(x)
    with xp.donation(False):
        y = x.take() + 1
    assert address(y) != where and y.tolist() == (WANTED + 1).tolist() and not x.is_alive


def test_nans_are_found_among_operands_that_were_given_up() -> None:
    x = fresh()
    with xp.debug_nans(True):
        assert (x.take() + 1).tolist() == (WANTED + 1).tolist() and not x.is_alive
        with pytest.raises(FloatingPointError):
            xp.log(fresh(-1).take())


def test_threads_that_read_meanwhile_see_the_value() -> None:
    wrong: list[object] = []
    for _ in range(30):
        x = fresh()
        ready = threading.Barrier(2)

        def read(x: xp.Array = x, ready: threading.Barrier = ready) -> None:
            ready.wait()
            try:
                if (got := (x + 0).tolist()) != WANTED.tolist():
                    wrong.append(got)
            except UseAfterMove:
                pass

        thread = threading.Thread(target=read)
        thread.start()
        ready.wait()
        if (got := (x.take() + 1).tolist()) != (WANTED + 1).tolist():
            wrong.append(got)
        thread.join()
    assert not wrong


@pytest.mark.parametrize("how", ["take", "use"])
def test_of_several_threads_one_gets_it(how: str) -> None:
    for _ in range(20):
        taken = fresh().take()
        won: list[object] = []
        lost: list[UseAfterMove] = []
        ready = threading.Barrier(4)

        def use(
            x: xp.Array = taken,
            won: list[object] = won,
            lost: list[UseAfterMove] = lost,
            ready: threading.Barrier = ready,
        ) -> None:
            ready.wait()
            try:
                won.append(((x.take() if how == "take" else x) + 1).tolist())
            except UseAfterMove as error:
                lost.append(error)

        threads = [threading.Thread(target=use) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert won == [(WANTED + 1).tolist()] and len(lost) == 3


def test_an_error_leaves_everything_usable() -> None:
    x, y = fresh(), fresh(1)
    with pytest.raises(ShapeMismatch):
        x.take() @ y
    assert not x.is_alive and (y + 1).tolist() == (WANTED + 2).tolist()


# --- every function --------------------------------------------------------------------------------------------------

# What looks at its operand alone, or returns it as it is.
LOOKS = {"zeros_like", "ones_like", "full_like", "asarray"}


@pytest.mark.parametrize("name", BY_NAME)
def test_every_function_takes_what_is_given_up(name: str) -> None:
    call = BY_NAME[name]
    given = [owned(operand).take() for operand in call.operands]
    check(call.run(xp, *given), call.want(*call.operands))
    assert not any(x.is_alive for x in given) or name in LOOKS


METHODS: dict[str, object] = {
    "divmod": lambda x: divmod(x, 2.0),
    "rdivmod": lambda x: divmod(2.0, x + 1 if isinstance(x, np.ndarray) else x + 1),
    "contains": lambda x: 3.0 in x,
    "cumsum": lambda x: x.cumsum(),
    "cumprod": lambda x: x.cumprod(),
    "argsort": lambda x: x.argsort(),
    "std": lambda x: x.std(),
    "var": lambda x: x.var(ddof=1),
    "round": lambda x: x.round(1),
    "clip": lambda x: x.clip(1, 2),
    "flatten": lambda x: x.flatten(),
    "dot": lambda x: x.dot(np.ones(3, np.float32)),
    "index": lambda x: x[1:, ::-1],
    "whole": lambda x: x[...],
    "mask": lambda x: x[np.array([True, False])],
    "iteration": lambda x: [row * 2 for row in x][1] if isinstance(x, np.ndarray) else (x * 2)[1],
}


@pytest.mark.parametrize("name", METHODS)
def test_methods_take_what_is_given_up(name: str) -> None:
    method = METHODS[name]
    got, want = method(fresh().take()), method(WANTED)  # type: ignore[operator]
    if isinstance(want, bool):
        assert got is want
    else:
        check(got, want)


def test_functions_outside_of_the_namespace_take_it_too() -> None:
    for use in (
        lambda x: quant.quantize(x, quant.QuantScheme("int8")),
        lambda x: quant.qmatmul(x, quant.quantize(fresh().T, quant.QuantScheme("int8"))),
        lambda x: xp.allclose(x, WANTED),
        lambda x: xp.testing.assert_allclose(x, WANTED),
        lambda x: np.add(x, 1),
        lambda x: np.add.accumulate(x),
        lambda x: xp.einsum("ij,kj->ik", x, fresh().take()),
        lambda x: xp.pad(x, 1),
        lambda x: xp.random.permutation(x),
        lambda x: xp.linalg.matrix_rank(x),
        lambda x: x.to_device("cpu:0"),
        lambda x: x.at[0].set(1),
    ):
        use(fresh().take())  # asks for it once


# --- transforms ------------------------------------------------------------------------------------------------------


def test_jit_of_what_was_given_up_uses_its_memory() -> None:
    traces: list[int] = []

    @xp.jit
    def step(x: xp.Array, rate: float) -> xp.Array:
        traces.append(1)
        return x - rate * x

    for _ in range(3):
        x = fresh()
        where = address(x)
        y = step(x.take(), 0.5)
        assert address(y) == where and not x.is_alive
        np.testing.assert_array_equal(np.asarray(y), WANTED / 2)
    kept = fresh()
    for _ in range(2):
        np.testing.assert_array_equal(np.asarray(step(kept, 0.5)), WANTED / 2)
    assert kept.is_alive and len(traces) == 2  # one form that donates, one that does not
    taken = fresh().take()
    step({"a": taken}["a"], 0.5)
    with pytest.raises(UseAfterMove):
        step(taken, 0.5)
    state = {"w": fresh().take(), "b": kept}
    assert xp.jit(lambda s: s["w"] + s["b"])(state).tolist() == (2 * WANTED).tolist()
    assert not state["w"].is_alive and kept.is_alive


def test_a_compiled_function_gives_up_its_argument_as_eager_execution_would() -> None:
    def shift(x: xp.Array, y: xp.Array) -> xp.Array:
        return x.take() + y

    for function in (shift, xp.jit(shift), xp.jit(lambda x, y: xp.jit(shift)(x, y) * 1)):
        for _ in range(2):
            x, y = fresh(), fresh(1)
            assert function(x, y).tolist() == (2 * WANTED + 1).tolist()
            assert not x.is_alive and y.is_alive
    x = fresh()
    where = address(x)
    assert address(xp.jit(shift)(x, fresh())) == where

    @xp.jit
    def returns_it(x: xp.Array) -> xp.Array:
        return x.take()

    x = fresh()
    assert (returns_it(x) + 1).tolist() == (WANTED + 1).tolist() and not x.is_alive


def test_a_program_that_uses_twice_is_refused_in_every_mode() -> None:
    def twice(x: xp.Array) -> xp.Array:
        return x.take() + x

    for function in (twice, xp.jit(twice), xp.vmap(twice), jax.jit(twice), xp.grad(lambda x: xp.sum(twice(x)))):
        with pytest.raises(UseAfterMove):
            function(fresh())


def test_under_grad_and_vmap_it_is_a_program_like_any_other() -> None:
    x = fresh()
    slope = xp.grad(lambda x: xp.sum((x * 1.0).take() ** 2))(x)
    assert slope.tolist() == (2 * WANTED).tolist() and x.is_alive
    assert xp.grad(lambda x: xp.sum(x.take() ** 2))(x).tolist() == (2 * WANTED).tolist() and x.is_alive
    assert xp.vmap(lambda row: row.take() + 1)(x).tolist() == (WANTED + 1).tolist() and x.is_alive
    assert jax.jit(lambda x: x.take() + 1)(x).tolist() == (WANTED + 1).tolist() and x.is_alive
    given = fresh()
    assert xp.grad(lambda x: xp.sum(x**2))(given.take()).tolist() == (2 * WANTED).tolist() and not given.is_alive
    carry, _ = xp.scan(lambda c, _: (c.take() + 1, None), fresh().take(), None, length=3)
    assert carry.tolist() == (WANTED + 3).tolist()


def test_outside_arrays_are_not_given_up_inside_of_a_trace() -> None:
    x = fresh()
    for transform in (xp.jit, xp.vmap, jax.jit):
        with pytest.raises(TracedMutation, match="take"):
            transform(lambda y: x.take() + y)(fresh())
        assert x.is_alive and x.tolist() == WANTED.tolist()
    taken = x.take()
    assert xp.jit(lambda y: y + taken)(fresh()).tolist() == (2 * WANTED).tolist()  # a value like any other there


def test_lowering_consumes_nothing() -> None:
    taken = fresh().take()
    assert "multiply" in xp.jit(lambda x: x * 2).lower(taken).as_text()
    assert taken.tolist() == WANTED.tolist()


def test_sharded_arrays() -> None:
    if jax.device_count() < 2:
        mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), "i")
    else:
        mesh = jax.sharding.Mesh(np.array(jax.devices()[:2]), "i")
    x = xp.asarray(WANTED).to_device(jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("i"))) + 0
    assert (x.take() * 2).tolist() == (2 * WANTED).tolist() and not x.is_alive


# --- fusion ----------------------------------------------------------------------------------------------------------


def test_fusion_uses_the_memory_of_what_was_given_up() -> None:
    for _ in range(2):
        x = fresh()
        where = address(x)
        with xp.fusion(after=1):
            y = xp.sin(x.take()) * 2.0
            assert not x.is_alive  # recorded, and dead
        assert address(y) == where
        np.testing.assert_allclose(np.asarray(y), np.sin(WANTED) * 2, rtol=1e-6)


def test_fusion_refuses_what_eager_execution_refuses() -> None:
    with xp.fusion():
        x = fresh()
        y = x.take() + 1
        for use in (lambda: x + 1, lambda: xp.sum(x), lambda: x.take(), lambda: float(x[0, 0]), lambda: np.asarray(x)):
            with pytest.raises(UseAfterMove):
                use()
        taken = y.take()
        assert taken.shape == SHAPE and not y.is_alive
        z = taken * 2
        with pytest.raises(UseAfterMove):
            taken * 2
        with pytest.raises(UseAfterMove):
            (t := fresh().take()) + t
    assert z.tolist() == (2 * WANTED + 2).tolist()


def test_fusion_keeps_clones_and_what_others_hold() -> None:
    x = fresh()
    raw = x.jax
    with xp.fusion(after=1):
        y = x * 1.0
        twin = y.clone()
        z = y.take() + 1.0
        w = x.take() - 1.0
        assert twin.is_alive and not (x.is_alive or y.is_alive)
    assert twin.tolist() == WANTED.tolist() and z.tolist() == (WANTED + 1).tolist()
    assert w.tolist() == (WANTED - 1).tolist() and np.asarray(raw).tolist() == WANTED.tolist()


def test_what_fusion_has_not_computed_is_given_up_outside_of_it() -> None:
    with xp.fusion():
        lazy = fresh() * 3.0
        taken = lazy.take()
    assert (taken + 1).tolist() == (WANTED * 3 + 1).tolist() and not (lazy.is_alive or taken.is_alive)


def test_writes_under_fusion_to_what_was_given_up() -> None:
    with xp.fusion():
        y = fresh().take()
        y += 1
        y[0] = 7
        z = fresh(1)
        z += fresh().take()
    assert y.tolist() == [[7, 7, 7], [4, 5, 6]] and z.tolist() == (2 * WANTED + 1).tolist()


def test_numpys_method_of_the_name_is_refused_and_gives_nothing_up() -> None:
    x = fresh()
    with pytest.raises(InvalidArgument, match=r"rtx_jax\.take\(x, indices"):
        x.take([0, 1])
    assert x.is_alive
    np.testing.assert_array_equal(np.asarray(x), np.arange(6.0).reshape(SHAPE))
