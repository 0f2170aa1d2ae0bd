"""Keys from seeds, streams that count their draws."""

import threading

import jax
import numpy as np
import pytest

from rtx_jax.core import random as r
from rtx_jax.errors import InvalidArgument, RngUnderTrace
from tests import threefry


@pytest.mark.parametrize("seed", [0, 1, 7, 2**31, 2**32 - 1])
def test_a_32_bit_seed_is_jax_s_key(seed):
    assert np.array_equal(r.seed_data(seed), jax.random.key_data(jax.random.key(seed, impl="threefry2x32")))


@pytest.mark.parametrize(
    ("seed", "words"),
    [(2**32, (1, 0)), (2**32 + 1, (1, 1)), (2**63 + 5, (2**31, 5)), (2**64 - 1, (2**32 - 1, 2**32 - 1))],
)
def test_all_64_bits_of_a_seed_count(seed, words):
    assert tuple(r.seed_data(seed)) == words
    assert tuple(r.seed_data(np.uint64(seed))) == words


@pytest.mark.parametrize("seed", [-1, 2**64, 1.0, "7", True, [1, 2]])
def test_what_is_no_seed(seed):
    with pytest.raises(InvalidArgument, match=r"0 to 2\*\*64 - 1"):
        r.seed_data(seed)


def test_seeds_from_the_system_differ():
    assert not np.array_equal(r.seed_data(None), r.seed_data(None))


def test_draw_number_n_is_the_key_folded_with_n():
    stream = r.Stream(r.seed_data(2**40 + 3))
    for n in range(3):
        expected = threefry.fold_in((2**8, 3), n)
        assert np.array_equal(stream.draw_data(), expected)
    assert stream.count == 3


@pytest.mark.parametrize("partitionable", [True, False])
@pytest.mark.parametrize("impl", ["threefry2x32", "rbg"])
def test_the_configuration_of_jax_does_not_matter(partitionable, impl):
    with jax.threefry_partitionable(partitionable), jax.default_prng_impl(impl):
        stream = r.Stream(r.seed_data(5))
        assert np.array_equal(stream.draw_data(), threefry.fold_in((0, 5), 0))
        (child,) = stream.spawn(1)
        assert np.array_equal(child.data, threefry.fold_in(threefry.fold_in((0, 5), 2**32 - 1), 0))


def test_children_differ_and_do_not_change_the_parent():
    stream, same = r.Stream(r.seed_data(1)), r.Stream(r.seed_data(1))
    children = stream.spawn(2) + stream.spawn(1)
    assert stream.children == 3
    first = [tuple(np.asarray(s.draw_data())) for s in (stream, *children)]
    assert len(set(first)) == 4
    assert first[0] == tuple(np.asarray(same.draw_data()))


def test_a_long_stream_moves_on_to_another_key():
    early, late = r.Stream(r.seed_data(1), count=2**31 - 1), r.Stream(r.seed_data(1), count=2**31)
    assert early.next("test")[1] == 2**31 - 1
    data, step = early.next("test")
    assert step == 0
    assert np.array_equal(data, threefry.fold_in(threefry.fold_in((0, 1), 2**32 - 2), 1))
    assert np.array_equal(data, late.next("test")[0])


def test_threads_never_share_a_draw():
    stream, taken = r.Stream(r.seed_data(1)), []
    threads = [threading.Thread(target=lambda: taken.extend(stream.next("t")[1] for _ in range(500))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == list(range(2000))


def test_a_draw_under_plain_jax_raises_and_names_the_remedy():
    stream = r.Stream(r.seed_data(1))
    for transform in (jax.jit, jax.grad, jax.vmap):
        with pytest.raises(RngUnderTrace, match="key="):
            transform(lambda x: x * stream.next("normal")[1])(np.ones(2, np.float32) if transform is jax.vmap else 1.0)
    assert stream.count == 0


def test_a_stream_made_under_the_trace_draws_there():
    def f(data):
        stream = r.Stream(data)
        stream.next("t")
        return r.fold_in(*stream.next("t"))

    assert np.array_equal(jax.jit(f)(r.seed_data(4)), threefry.fold_in((0, 4), 1))


def test_the_global_stream_starts_anew():
    r.global_stream.seed(11)
    first = r.global_stream.get().draw_data()
    assert np.array_equal(first, threefry.fold_in((0, 11), 0))
    r.global_stream.seed(11)
    assert np.array_equal(r.global_stream.get().draw_data(), first)
    r.global_stream.seed(None)
    assert not np.array_equal(r.global_stream.get().draw_data(), first)
