"""`rtx_jax.fusion`: eager programs give the same, and run together."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable

import jax
import numpy as np
import pytest

import rtx_jax as xp
from rtx_jax.core import lazy
from rtx_jax.core.lazy import FusionStatistics, Lazy
from rtx_jax.errors import (
    BroadcastError,
    IndexOutOfBounds,
    InvalidArgument,
    RtxError,
    ScalarOverflow,
    ShapeMismatch,
    UseAfterMove,
)
from rtx_jax.transforms import fusion

A = np.asarray([[0.5, -1.25, 2.0], [3.5, 0.25, -4.0]], np.float32)
B = np.asarray([[1.5, 2.25, -0.5], [0.75, -3.0, 2.5]], np.float32)


def is_recorded(x: xp.Array) -> bool:
    return type(x._data) is Lazy and type(x._data.state) is lazy.Tape


def chain(ns: object, x: object, y: object) -> object:
    """Twelve elementwise operations, for any namespace."""
    return ns.tanh(ns.sqrt(abs(ns.sin(ns.exp(x * 0.25) + y) - x) + 1.0) / 3.0) * y - x  # type: ignore[attr-defined]


@pytest.mark.parametrize("after", [1, 3])
def test_a_chain_has_the_values_of_numpy(after: int) -> None:
    a, b = A[:, after - 1 :], B[:, after - 1 :]  # each has its own structure
    want = chain(np, a.astype(np.float64), b.astype(np.float64))
    x, y = xp.asarray(a), xp.asarray(b)
    with fusion(after=after) as statistics:
        for i in range(4):
            z = chain(xp, x, y)
            assert isinstance(z, xp.Array) and is_recorded(z) and z.shape == a.shape and z.dtype == xp.float32
            np.testing.assert_allclose(np.asarray(z), want, rtol=2e-6, atol=1e-6)
            assert statistics.compiled == (i + 1 >= after)
    assert (statistics.recorded, statistics.grouped, statistics.runs) == (48, 48, 4)
    assert statistics.fused == 12 * (4 - after + 1)


def test_a_chain_is_one_kernel() -> None:
    x, y = xp.asarray(A), xp.asarray(B)
    with fusion(after=1):
        z = chain(xp, x, y)
        tape = lazy.fusing.thread.tape
        assert tape is not None
        program = lazy.Program(tape.place, (z._data.fact.slot,))
        compiled = jax.jit(lazy.fused._whole(program, False)).lower(*tape.leaves).compile()
    text = compiled.as_text()
    entry = text[text.index("ENTRY") :]
    kernels = [line for line in entry.splitlines() if " fusion(" in line or " call(" in line]
    assert program.operations == 12 and len(kernels) == 1
    assert compiled.memory_analysis().temp_size_in_bytes == 0


WRITES: list[Callable[[object, object], None]] = [
    lambda x, ns: x.__setitem__(0, 3.0),  # type: ignore[attr-defined]
    lambda x, ns: x.__setitem__((slice(None), 1), 2),  # type: ignore[attr-defined]
    lambda x, ns: x.__setitem__((1, slice(None, None, -1)), x[0] + 1),  # type: ignore[attr-defined, index]
    lambda x, ns: x.__setitem__(x > 1, -1.0),  # type: ignore[attr-defined, operator]
    lambda x, ns: x.__setitem__(ns.asarray([1, 0, 1]), x[:1]),  # type: ignore[attr-defined, index]
    lambda x, ns: x.__setitem__(..., x * 2),  # type: ignore[attr-defined, operator]
    lambda x, ns: x.__setitem__(slice(0, 0), 7.0),  # type: ignore[attr-defined]
    lambda x, ns: x.__iadd__(x[1]),  # type: ignore[attr-defined, index]
    lambda x, ns: x.__imul__(-1.5),  # type: ignore[attr-defined]
    lambda x, ns: x.__itruediv__(x * x + 1),  # type: ignore[attr-defined, operator]
]


@pytest.mark.parametrize("write", WRITES, ids=range(len(WRITES)))
@pytest.mark.parametrize("after", [1, 100])
def test_writes(write: Callable[[object, object], None], after: int) -> None:
    want = A.copy() + 1
    write(want, np)
    for _ in range(2):
        with fusion(after=after):
            x = xp.asarray(A) + 1
            y, z = x, x.copy()
            kept = x * 1
            write(x, xp)
            assert y is x
            np.testing.assert_allclose(np.asarray(x), want, rtol=1e-6)
            assert np.array_equal(np.asarray(z), A + 1) and np.array_equal(np.asarray(kept), A + 1)


READS = [
    0,
    -1,
    (1, 2),
    (slice(None), slice(1, None)),
    (slice(None, None, -1), 0),
    (None, 1),
    (..., slice(0, 3, 2)),
    slice(1, 1),
    (slice(1, None, -1), slice(2, 0, -1)),
]


@pytest.mark.parametrize("key", READS, ids=range(len(READS)))
@pytest.mark.parametrize("after", [1, 100])
def test_reads(key: object, after: int) -> None:
    with fusion(after=after):
        for _ in range(2):
            x = xp.asarray(A) * 2
            y = x[key]  # type: ignore[index]
            assert is_recorded(y) and y.shape == (A * 2)[key].shape  # type: ignore[index]
            assert np.array_equal(np.asarray(y + 1), (A * 2)[key] + 1)  # type: ignore[index]


def test_reads_with_arrays() -> None:
    with fusion() as statistics:
        x = xp.asarray(A) * 2
        index = xp.asarray([1, 0, 1, -1])
        assert np.array_equal(np.asarray(x[index] + 1), (A * 2)[[1, 0, 1, -1]] + 1)
        assert statistics.runs == 1
        y = x * 1
        assert np.array_equal(np.asarray(y[y > 0]), (A * 2)[A > 0])
        assert np.array_equal(np.asarray(y[xp.asarray([True, False]), 1]), (A * 2)[[True, False], 1])
        with pytest.raises(IndexOutOfBounds):
            y[index + 5]
        with pytest.raises(IndexOutOfBounds):
            y[2]
        assert float(y[0, 0]) == 1


def test_a_loop_over_positions_and_scalars_is_one_structure() -> None:
    x = xp.asarray(np.arange(40.0))
    with fusion() as statistics:
        total = 0.0
        for i in range(20):
            total += float(x[i] * 2 + i)
    assert total == 3 * 190 and statistics.compiled == 1


def test_growing_slices_compile_no_storm() -> None:
    x = xp.asarray(np.arange(40.0))
    with fusion() as statistics, xp.explain_compiles() as report:
        for n in range(1, 30):
            assert float(xp.sum(x[:n] + 1)) == n * (n - 1) / 2 + n
    assert statistics.compiled == 0
    assert not any("fused" in event.name for event in report.events)


def test_ownership_keeps_the_values_of_others() -> None:
    for _ in range(4):
        with fusion(after=2):
            x = xp.asarray(np.ones(1000, np.float32)) + 1
            raw, view, clone, taken = x.jax, np.asarray(x), x.clone(), x.copy()
            x += 1
            x[3] = 9
            y = x * 2
            x = x - 1
            assert float(y[3]) == 18 and float(x[3]) == 8 and float(x[0]) == 2
            assert float(raw[3]) == 2 and view[3] == 2 and float(clone[3]) == 2 and float(taken[3]) == 2


def test_an_update_runs_in_place() -> None:
    with fusion(after=2):
        x = xp.asarray(np.zeros(10_000, np.float32))
        assert x.jax.shape == (10_000,)  # shared: the first update copies
        for i in range(6):
            x[i] = 1.0
            x *= 2
            x.block_until_ready()
            where = x._data.unsafe_buffer_pointer()
            x += 1
            x.block_until_ready()
            if i > 2:
                assert x._data.unsafe_buffer_pointer() == where
        assert float(x[0]) == ((((((2 + 1) * 2 + 1) * 2 + 1) * 2 + 1) * 2 + 1) * 2 + 1)


def test_what_was_given_up_is_dead_once_it_is_recorded() -> None:
    with fusion():
        x = xp.asarray(A) + 1
        y = x.take() * 2
        assert not x.is_alive
        with pytest.raises(UseAfterMove, match="add"):
            xp.add(x, 1)
        assert is_recorded(y) and np.array_equal(np.asarray(y), (A + 1) * 2)
        shared = xp.asarray(A)
        taken = shared.clone()
        z = taken.take() + shared
        assert np.array_equal(np.asarray(z), A + A) and np.array_equal(np.asarray(shared), A)


def test_errors_are_those_of_eager_code_and_leave_it_usable() -> None:
    with fusion():
        x = xp.asarray(A) + 1
        for wrong, error in (
            (lambda: x + xp.ones(5), (ShapeMismatch, BroadcastError)),
            (lambda: xp.astype(x, xp.int8) + 1000, ScalarOverflow),
            (lambda: x.__setitem__(0, xp.ones(7)), BroadcastError),
            (lambda: x.__iadd__(xp.ones((2, 2, 3))), ShapeMismatch),
            (lambda: xp.reshape(x, (5,)), RtxError),
        ):
            with pytest.raises(error):  # type: ignore[arg-type]
                wrong()
        assert is_recorded(x) and np.array_equal(np.asarray(x), A + 1)


def test_an_exception_ends_the_block_and_values_are_computed_on_demand() -> None:
    kept: list[xp.Array] = []
    with pytest.raises(ZeroDivisionError), fusion():
        kept.append(xp.asarray(A) * 3)
        raise ZeroDivisionError
    assert is_recorded(kept[0])
    assert np.array_equal(np.asarray(kept[0]), A * 3)
    assert not is_recorded(xp.asarray(A) * 3)


def test_the_end_of_the_block_computes() -> None:
    with fusion() as outer:
        x = xp.asarray(A) + 1
        with fusion() as inner:
            y = x * 2
        assert not is_recorded(y) and (inner.recorded, outer.recorded) == (1, 2)
        z = y - 1
        assert is_recorded(z)
    assert not is_recorded(z) and outer.recorded == 3 and not is_recorded(z + 1)


def test_as_a_decorator() -> None:
    @xp.fusion(after=2)
    def sums(n: int, x: xp.Array) -> xp.Array:
        """Add up."""
        y = x * n
        assert is_recorded(y)
        return y if not n else y + sums(n - 1, x)

    assert sums.__name__ == "sums" and sums.__doc__ == "Add up."
    assert np.array_equal(np.asarray(sums(3, xp.asarray(A))), A * 6)
    for wrong in (0, -1, 1.5, True, None):
        with pytest.raises(InvalidArgument, match="after"):
            fusion(after=wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match=r"@fusion\(\)"):
        fusion(sums)  # type: ignore[arg-type]


def test_transforms_inside() -> None:
    double = xp.jit(lambda x: x * 2 + 1)
    with fusion():
        x = xp.asarray(A) + 1
        assert np.array_equal(np.asarray(double(x) + 1), (A + 1) * 2 + 2)
        grad = xp.grad(lambda v: xp.sum(v * v * x))(x)
        np.testing.assert_allclose(np.asarray(grad), 2 * (A + 1) ** 2, rtol=1e-6)
        rows = xp.vmap(lambda row: row - xp.sum(row))(x)
        np.testing.assert_allclose(np.asarray(rows), (A + 1) - (A + 1).sum(1, keepdims=True), rtol=1e-5)
        captured = xp.asarray(A) * 2
        total = xp.jit(lambda: xp.sum(captured))
        first = float(total())
        captured += 1
        assert float(total()) == pytest.approx(first + 6)
        plain = jax.jit(lambda a: a + captured.jax)
        assert np.array_equal(np.asarray(plain(A)), A + A * 2 + 1)


def test_inside_of_a_trace_nothing_is_recorded() -> None:
    @xp.jit
    def step(x: xp.Array) -> xp.Array:
        with fusion() as statistics:
            y = x * 2
            y += 1
            y[0] = 0.0
        assert statistics.recorded == 0
        return y

    want = A * 2 + 1
    want[0] = 0
    assert np.array_equal(np.asarray(step(xp.asarray(A))), want)


def test_a_write_in_a_compiled_function_to_a_recorded_array() -> None:
    @xp.jit
    def write(x: xp.Array) -> None:
        x[0] = 5.0

    with fusion():
        x = xp.asarray(A) + 1
        y = x * 1
        write(x)
        assert np.array_equal(np.asarray(x)[0], [5, 5, 5]) and np.array_equal(np.asarray(y), A + 1)


def test_threads_record_for_themselves_and_read_each_other() -> None:
    x = xp.asarray(A)
    results: dict[int, object] = {}

    def work(i: int, shared: xp.Array) -> None:
        with fusion(after=2):
            for _ in range(10):
                y = (x * i + 1) * shared
            results[i] = np.asarray(y)

    with fusion():
        shared = xp.asarray(B) * 2
        threads = [threading.Thread(target=work, args=(i, shared)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert np.array_equal(np.asarray(shared + 1), B * 2 + 1)
    for i in range(4):
        np.testing.assert_allclose(results[i], (A * i + 1) * (B * 2), rtol=1e-6)


def test_other_threads_are_not_recorded() -> None:
    seen: list[bool] = []
    with fusion():
        thread = threading.Thread(target=lambda: seen.append(is_recorded(xp.asarray(A) + 1)))
        thread.start()
        thread.join()
    assert seen == [False]


def test_several_results_and_dtypes() -> None:
    with fusion() as statistics:
        x = xp.asarray([[2.0, 1.0], [1.0, 3.0]])
        q, r = xp.linalg.qr(x * 1.0)
        assert is_recorded(q) and is_recorded(r)
        np.testing.assert_allclose(np.asarray(q @ r), [[2, 1], [1, 3]], atol=1e-12)
        first, second = xp.unstack(x + 1)
        assert np.array_equal(np.asarray(first + second), [5, 6])
        n = xp.asarray([1, 2, 3])
        half = n / 2
        assert half.dtype == xp.float64 and np.array_equal(np.asarray(half), [0.5, 1, 1.5])
        assert xp.sqrt(n).dtype == xp.float64 and xp.sum(n).dtype == xp.int64 and xp.mean(x).shape == ()
        assert (n > 1000).dtype == xp.bool and bool(xp.all(n < 2**40))
        assert np.array_equal(np.asarray(xp.where(n > 1, n, 0)), [0, 2, 3])
        assert np.array_equal(np.asarray(xp.astype(n, xp.float32) ** 2), [1, 4, 9])
        assert np.array_equal(np.asarray(xp.zeros_like(half) + xp.clip(half, 0.75, 1.25)), [0.75, 1, 1.25])
    assert statistics.recorded > 12


def test_quotients_by_scalars_are_rounded_correctly() -> None:
    values = np.arange(1.0, 200.0)
    for after in (1, 100):
        with fusion(after=after):
            x = xp.asarray(values)
            assert np.array_equal(np.asarray((x * 1.0) / 49.0), values / 49.0)


def test_watching_nans_and_donation() -> None:
    with xp.debug_nans(), fusion():
        x = xp.asarray([-1.0, 1.0])
        with pytest.raises(FloatingPointError, match="sqrt"):
            xp.sqrt(x)
    with fusion():
        assert is_recorded(xp.asarray([1.0]) + 1)
        with xp.donation(False):
            y = xp.asarray(np.ones(100)) + 1
            y += 1
            assert float(y[0]) == 3


def test_device_is_known_without_running() -> None:
    with fusion() as statistics:
        x = xp.asarray(A) + 1
        assert x.device == jax.devices()[0] and len(x.sharding.device_set) == 1
        assert xp.zeros_like(x).device == x.device
        assert statistics.runs == 0
        if len(jax.devices()) > 1:
            there = xp.asarray(A, device=jax.devices()[1])
            y = there * 2
            assert y.device == jax.devices()[1] and np.array_equal(np.asarray(y), A * 2)
            assert np.array_equal(np.asarray(x), A + 1)


def test_sharded_arrays_run_as_without_fusion() -> None:
    if len(jax.devices()) < 2:
        pytest.skip("needs two devices")
    mesh = jax.sharding.Mesh(np.asarray(jax.devices()[:2]), ("i",))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("i"))
    with fusion():
        x = xp.asarray(np.arange(4.0), device=sharding)
        y = x * 2
        assert not is_recorded(y) and y.sharding == sharding and np.asarray(y).tolist() == [0, 2, 4, 6]


def test_no_warning_of_donation_and_statistics_print() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(4):
            with fusion(after=2) as statistics:
                x = xp.asarray(np.ones(50, np.float32)) * 2
                y = xp.sum(x + 1)
                del x
                assert float(y) == 150
    assert isinstance(statistics, FusionStatistics) and "recorded=3" in repr(statistics)
