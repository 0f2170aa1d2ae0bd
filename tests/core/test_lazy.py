"""The engine of fusion: what is computed, whose memory is used, threads, traces and errors."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rtx_jax.core import fused, lazy
from rtx_jax.core.lazy import FusionStatistics, Lazy, Unrecordable, fusing, open_tape, record, resolve, slot_of
from rtx_jax.errors import InvalidArgument

add = jax.jit(lambda a, b: a + b)
double = jax.jit(lambda a: a * 2)
summed = jax.jit(lambda a: a.sum())
halves = jax.jit(lambda a: (a[:2], a[2:]))


def call(fn: object, *operands: object) -> Lazy:
    tape = open_tape()
    assert tape is not None
    value = record(tape, fn, False, tuple([slot_of(tape, x) for x in operands]))  # type: ignore[arg-type]
    return value  # type: ignore[return-value]


@pytest.fixture
def counted() -> Iterator[FusionStatistics]:
    lazy.flush()
    statistics = FusionStatistics()
    before = lazy.enter(3, statistics)
    yield statistics
    lazy.flush()
    lazy.leave(before, statistics)


X = jnp.asarray(np.arange(4.0, dtype=np.float32))


def test_nothing_runs_before_a_value_is_needed(counted: FusionStatistics) -> None:
    y = call(add, call(double, X), X)
    assert (y.shape, y.dtype, y.ndim, y.size, y.nbytes) == ((4,), np.float32, 1, 4, 16)
    assert counted.runs == 0
    assert np.asarray(y).tolist() == [0, 3, 6, 9]
    assert (counted.recorded, counted.runs, counted.grouped) == (2, 1, 2)
    assert resolve(y) is resolve(y)


def test_only_what_somebody_refers_to_is_computed(counted: FusionStatistics) -> None:
    kept = call(double, X)
    call(double, kept)  # nobody wants it
    y = call(add, call(double, kept), X)
    assert float(np.asarray(y).sum()) == 30
    assert type(kept.state) is not lazy.Tape and np.asarray(kept).tolist() == [0, 2, 4, 6]
    assert (counted.recorded, counted.grouped) == (4, 3)
    z = call(double, X)
    del z
    lazy.flush()
    assert (counted.recorded, counted.runs) == (5, 1)


def test_a_structure_is_compiled_when_it_recurs(counted: FusionStatistics) -> None:
    for i in range(5):
        y = call(add, call(double, X + i), X)
        assert np.asarray(y)[1] == 3 + 2 * i
        assert counted.compiled == (i >= 2)
    assert (counted.fused, counted.runs) == (6, 5)


def test_a_changing_program_compiles_nothing_new(counted: FusionStatistics) -> None:
    y = X
    for n in range(1, 12):
        y = X
        for _ in range(n):
            y = call(add, y, X)
        np.asarray(y)
    assert np.asarray(y).tolist() == [0, 12, 24, 36]
    assert counted.compiled == 0 and counted.recorded == 66


def test_what_is_wanted_is_part_of_the_structure(counted: FusionStatistics) -> None:
    for i in range(8):
        a = call(double, X)
        b = call(add, a, X)
        if i % 2:
            del a
            assert np.asarray(b).tolist() == [0, 3, 6, 9]
        else:
            assert np.asarray(b).tolist() == [0, 3, 6, 9] and np.asarray(a).tolist() == [0, 2, 4, 6]
    assert counted.compiled == 2


def test_memory_that_only_a_tape_keeps_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lazy, "BYTES", 100_000)
    lazy.flush()
    total = call(double, jnp.zeros(()))
    kept = jnp.ones((5, 1000))
    most = 0
    for i in range(100):
        total = call(add, total, call(summed, jnp.full((1000,), float(i))))
        total = call(add, total, call(summed, kept))
        most = max(most, sum(a.shape == (1000,) for a in jax.live_arrays()))
    assert most <= 60 and float(total) == 1000 * 4950 + 100 * 5000


def test_several_results(counted: FusionStatistics) -> None:
    for _ in range(4):
        low, high = call(halves, call(double, X))  # type: ignore[misc]
        assert low.shape == high.shape == (2,)
        assert np.asarray(call(add, low, high)).tolist() == [4, 8]


def test_the_cap_bounds_what_is_recorded(counted: FusionStatistics, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused, "CAP", 8)
    fused.clear()
    y = call(double, X)
    for _ in range(20):
        y = call(add, y, X)
    assert counted.runs == 2 and counted.recorded == 16
    assert np.asarray(y).tolist() == [0, 22, 44, 66]
    fused.clear()


def test_the_tree_of_structures_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused, "_MAX_PLACES", 10)
    fused.clear()
    for n in range(2, 9):
        y = call(double, jnp.ones(n))
        for _ in range(n):
            y = call(add, y, y)
        assert np.asarray(y).tolist() == [2.0 ** (n + 1)] * n
        assert fused._tree.count <= 11 + n
    fused.clear()


def test_kept_programs_are_bounded(monkeypatch: pytest.MonkeyPatch, counted: FusionStatistics) -> None:
    fused.clear()
    lazy.flush()
    monkeypatch.setattr(fused, "_MAX_COMPILED", 2)
    for n in (2, 3, 4, 2):
        for _ in range(3):
            y = call(add, call(double, jnp.ones(n)), jnp.ones(n))
            assert np.asarray(y).tolist() == [3.0] * n
    assert counted.compiled == 4 and len(fused._kept) == 2


def test_memory_of_what_nobody_sees_is_used_again(counted: FusionStatistics) -> None:
    def step(data: jax.Array) -> tuple[jax.Array, int]:
        where = data.unsafe_buffer_pointer()
        tape = open_tape()
        assert tape is not None
        slot = lazy.leaf(tape, data, True)
        del data
        y = record(tape, double, False, (slot,))
        z = record(tape, double, False, (y.fact.slot,))  # type: ignore[union-attr]
        del y
        return z, where  # type: ignore[return-value]

    for i in range(5):
        owned = jnp.full(1000, float(i))
        boxed = [owned]
        del owned
        z, where = step(boxed.pop())
        value = resolve(z)  # type: ignore[arg-type]
        assert np.asarray(value)[0] == 4 * i
        if i > 2:
            assert value.unsafe_buffer_pointer() == where


def test_memory_that_somebody_sees_is_left_alone(counted: FusionStatistics) -> None:
    for _ in range(5):
        shared, viewed, disowned = (jnp.full(1000, 3.0) for _ in range(3))
        view = np.asarray(viewed)
        tape = open_tape()
        assert tape is not None
        slots = [lazy.leaf(tape, x, True) for x in (shared, viewed, disowned)]
        alias = jax.device_put(disowned, disowned.sharding)
        lazy.disown(disowned)
        del viewed, disowned
        y = record(tape, add, False, (slots[0], slots[1]))
        z = record(tape, add, False, (y.fact.slot, slots[2]))  # type: ignore[union-attr]
        del y
        assert np.asarray(z)[0] == 9
        assert view[0] == 3 and float(shared[0]) == 3 and float(alias[0]) == 3


def test_a_value_is_computed_outside_of_a_trace(counted: FusionStatistics) -> None:
    y = call(add, call(double, X), X)

    @jax.jit
    def traced(a: jax.Array) -> jax.Array:
        assert open_tape() is None
        assert type(y.state) is lazy.Tape
        return a + resolve(y)

    assert np.asarray(traced(X)).tolist() == [0, 4, 8, 12]
    assert not isinstance(y.state, jax.core.Tracer) and np.asarray(y).tolist() == [0, 3, 6, 9]
    assert np.asarray(jax.grad(lambda a: (a * resolve(call(double, X) if False else y)).sum())(X)).tolist() == [
        0,
        3,
        6,
        9,
    ]
    with pytest.raises(Unrecordable):
        jax.jit(lambda a: slot_of(lazy.Tape(fusing.thread), a))(X)


def test_another_thread_computes_what_it_needs() -> None:
    a = call(double, X)
    b = call(add, a, X)
    seen: list[object] = []
    thread = threading.Thread(target=lambda: seen.append(np.asarray(b).tolist()))
    thread.start()
    thread.join()
    assert seen == [[0, 3, 6, 9]]
    assert type(a.state) is lazy.Tape  # this thread goes on recording
    assert np.asarray(call(add, a, b)).tolist() == [0, 5, 10, 15]


def test_many_threads_need_the_same_values() -> None:
    wrong: list[object] = []
    values: list[Lazy] = []
    done = threading.Event()

    def reader() -> None:
        while not done.is_set() or values:
            try:
                y = values[-1]
                if np.asarray(y).tolist() != [0, 3, 6, 9]:
                    wrong.append(y)
                if done.is_set():
                    return
            except IndexError:
                pass

    threads = [threading.Thread(target=reader) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(200):
        values.append(call(add, call(double, X), X))
        if len(values) > 5:
            lazy.flush()
            values.pop(0)
    done.set()
    for thread in threads:
        thread.join()
    assert not wrong


def test_an_operation_that_is_wrong_is_refused_when_it_is_recorded(counted: FusionStatistics) -> None:
    y = call(double, X)
    with pytest.raises(TypeError):
        call(add, y, jnp.ones(3))
    with pytest.raises(Unrecordable):
        call(lambda a: {"a": a}, y)
    assert np.asarray(call(add, y, X)).tolist() == [0, 3, 6, 9]


def test_an_error_while_running_spoils_what_depends_on_it_alone() -> None:
    def broken(a: jax.Array) -> jax.Array:
        if isinstance(a, jax.core.Tracer):
            return a
        raise InvalidArgument("broken", "a", got="this", wanted="that", arg="a", reason="test")

    good = call(double, X)
    bad = call(broken, good)
    worse = call(add, bad, good)
    for x in (bad, worse):
        for _ in range(2):
            with pytest.raises(InvalidArgument, match="broken"):
                resolve(x)
    assert np.asarray(good).tolist() == [0, 2, 4, 6]
    with pytest.raises(InvalidArgument, match="broken"):
        call(double, worse)
    assert np.asarray(call(double, good)).tolist() == [0, 4, 8, 12]


def test_an_interrupt_leaves_the_values_to_be_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    y = call(add, call(double, X), X)

    def interrupted(*args: object) -> object:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(lazy, "_results", interrupted)
        with pytest.raises(KeyboardInterrupt):
            resolve(y)
    later = call(double, y)
    assert np.asarray(later).tolist() == [0, 6, 12, 18] and np.asarray(y).tolist() == [0, 3, 6, 9]


def test_what_is_committed_stays_that_and_the_rest_is_not(counted: FusionStatistics) -> None:
    device = jax.devices()[0]
    here = jax.device_put(X, device)
    for _ in range(4):
        a, b = call(double, here), call(double, X)
        c = call(add, a, b)
        assert [resolve(x).committed for x in (a, b, c)] == [True, False, True]
    assert counted.compiled == 0


def test_arrays_of_two_devices_do_not_mix(counted: FusionStatistics) -> None:
    if len(jax.devices()) < 2:
        pytest.skip("needs two devices")
    first, second = (jax.device_put(X, device) for device in jax.devices()[:2])
    a = call(double, second)
    assert a.device == jax.devices()[1] and a.committed
    with pytest.raises(Unrecordable):
        call(double, first)
    assert np.asarray(a).tolist() == [0, 2, 4, 6] and resolve(a).devices() == {jax.devices()[1]}
    assert np.asarray(call(double, first)).tolist() == [0, 2, 4, 6]


def test_64_bit_values_beside_others(counted: FusionStatistics) -> None:
    with jax.enable_x64(True):
        wide = jnp.asarray([1.0, 2.0], np.float64)
    for _ in range(4):
        y, z = call(add, call(double, wide), wide), call(double, X)
        assert (y.dtype, z.dtype) == (np.float64, np.float32)
        assert resolve(y).dtype == np.float64 and resolve(z).dtype == np.float32
        assert np.asarray(y).tolist() == [3, 6]
    assert counted.compiled == 1


def test_a_value_reads_as_an_array() -> None:
    assert float(call(double, jnp.asarray(2.0))) == 4 and int(call(double, jnp.asarray(2))) == 4
    assert bool(call(double, jnp.asarray(1))) and complex(call(double, jnp.asarray(1.0))) == 2
    assert [10, 11, 12][call(double, jnp.asarray(1))] == 12
    assert len(call(double, X)) == 4 and call(double, X).tolist() == [0, 2, 4, 6]
    assert call(double, jnp.asarray(2)).item() == 4 and f"{call(double, jnp.asarray(2.0)):.1f}" == "4.0"
    assert repr(call(double, X)) == repr(double(X))
    assert np.from_dlpack(call(double, X)).tolist() == [0, 2, 4, 6]
    assert call(double, X).block_until_ready().jax.tolist() == [0, 2, 4, 6]


def test_nothing_is_kept_alive_by_a_tape_that_ran() -> None:
    gc.collect()
    big = jnp.ones(12345)
    y = call(double, big)
    np.asarray(y)
    del y
    before = sum(a.shape == (12345,) for a in jax.live_arrays())
    del big
    assert sum(a.shape == (12345,) for a in jax.live_arrays()) == before - 1
