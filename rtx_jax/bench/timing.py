"""Times of several calls that take turns, so that a machine that slows down slows all of them."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ..errors import InvalidArgument

__all__ = ["Times", "alternate", "ratio"]

# Thread pools spin for some milliseconds after their last work, and would take the cores from whoever comes next.
_PAUSE_S = 0.003


@dataclass(frozen=True, slots=True)
class Times:
    """How long one call took in each round, in seconds.

    Attributes
    ----------
    rounds
        Seconds of one call, the mean of the round's loop.
    calls
        Calls of each loop.
    """

    rounds: tuple[float, ...]
    calls: int

    @property
    def best(self) -> float:
        """The shortest, the one that was disturbed least."""
        return min(self.rounds)

    @property
    def median(self) -> float:
        """The middle one."""
        return statistics.median(self.rounds)


def alternate(
    calls: Mapping[str, Callable[[], object]], /, *, rounds: int = 7, loop_s: float = 0.02, warm_up: int = 1
) -> dict[str, Times]:
    """Time calls in turn.

    Parameters
    ----------
    calls
        Name and call; a call returns when its result is there.
    rounds
        Loops of each call. The order within a round rotates.
    loop_s
        About how long one loop lasts, in seconds; it holds at least one call.
    warm_up
        Calls of each before the first loop, for compilation and caches.

    Returns
    -------
    dict
        The times by name.

    Raises
    ------
    InvalidArgument
        `rounds` is not positive.
    """
    if rounds < 1:
        raise InvalidArgument(
            "alternate", "rounds", got=rounds, wanted="at least 1", arg="rounds", reason="nothing to time"
        )
    counts: dict[str, int] = {}
    for name, call in calls.items():
        for _ in range(warm_up):
            call()
        counts[name] = max(1, min(100_000, int(loop_s / max(_loop(call, 1), 1e-9))))
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    order = list(calls)
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        for number in range(rounds):
            start = number % max(len(order), 1)
            for name in order[start:] + order[:start]:
                time.sleep(_PAUSE_S)
                seconds[name].append(_loop(calls[name], counts[name]))
    finally:
        if enabled:
            gc.enable()
    return {name: Times(tuple(values), counts[name]) for name, values in seconds.items()}


def ratio(these: Times, those: Times, /) -> float:
    """Return how many times longer `these` take than `those`: the ratio of the shortest times."""
    return these.best / those.best


def _loop(call: Callable[[], object], count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - start) / count
