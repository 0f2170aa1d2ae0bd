"""Calls take turns, and each is timed by itself."""

from __future__ import annotations

import gc

import pytest

from rtx_jax.bench import timing
from rtx_jax.bench.timing import Times, alternate, ratio
from rtx_jax.errors import InvalidArgument


class Clock:
    """A clock that only moves when somebody works."""

    def __init__(self) -> None:
        self.now = 0.0
        self.order: list[str] = []

    def work(self, name: str, seconds: float) -> None:
        self.now += seconds
        self.order.append(name)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(timing.time, "perf_counter", lambda: made.now)
    monkeypatch.setattr(timing.time, "sleep", lambda seconds: None)
    return made


def test_times_of_each_call(clock: Clock) -> None:
    times = alternate({"a": lambda: clock.work("a", 1.0), "b": lambda: clock.work("b", 0.25)}, rounds=3, loop_s=0.5)
    assert times["a"] == Times((1.0, 1.0, 1.0), 1)
    assert times["b"] == Times((0.25, 0.25, 0.25), 2)
    assert ratio(times["a"], times["b"]) == 4.0


def test_the_first_of_a_round_changes(clock: Clock) -> None:
    alternate({name: lambda name=name: clock.work(name, 1.0) for name in "abc"}, rounds=3, loop_s=0.0)
    # One call to warm up and one to choose the number of calls, each; then the rounds.
    assert "".join(clock.order) == "aabbcc" + "abc" + "bca" + "cab"


def test_the_shortest_and_the_middle_time() -> None:
    times = Times((3.0, 1.0, 2.0), 1)
    assert (times.best, times.median) == (1.0, 2.0)


def test_garbage_is_collected_again_after_a_fault(clock: Clock) -> None:
    def fail() -> None:
        if not gc.isenabled():
            raise RuntimeError("a fault within the rounds")

    assert gc.isenabled()
    with pytest.raises(RuntimeError):
        alternate({"a": fail})
    assert gc.isenabled()


def test_no_rounds() -> None:
    with pytest.raises(InvalidArgument, match="got 0, wanted at least 1"):
        alternate({}, rounds=0)
