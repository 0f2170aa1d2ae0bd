"""`fusion`: operations are recorded and run together when a value is needed."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import TracebackType
from typing import Never, ParamSpec, TypeVar

from ..core.handle import tracing
from ..core.lazy import WHOLE_AFTER, FusionStatistics, enter, flush, leave
from ..errors import InvalidArgument

__all__ = ["FusionStatistics", "fusion"]

P = ParamSpec("P")
R = TypeVar("R")


class fusion:
    """Record operations on Arrays and run them together when a value is needed; a context manager or a decorator.

    Inside, functions and operators of the namespace return at once, with shape and dtype known. The values are
    computed when something looks at the elements (printing, ``float``, ``bool``, NumPy, DLPack, ``.jax``), when an
    operation cannot be recorded, after 512 operations, and at the end. Only what is referred to by then gets memory,
    and memory of operands that are gone is used again, so an expression runs as one kernel. Values that were not
    computed when an exception ends the block are computed when they are asked for.

    Parameters
    ----------
    after
        How often the same operations must have been seen, this time included, before they are compiled as a whole.
        Until then they run one by one through the compiled calls that they use without fusion, so a program that
        changes all the time compiles nothing more than without it.

    Raises
    ------
    InvalidArgument
        `after` is no positive integer.

    Notes
    -----
    It holds for the thread that enters it. Arrays of it may be used anywhere: another thread that needs a value
    computes it. Only arrays on the default device are recorded; with others everything is as without fusion. Inside of
    a function that is being traced nothing is recorded: there everything is one program anyway.

    A program that is compiled whole rounds as one under `jit` does, which may differ from that of its operations
    alone in the last digit.

    Examples
    --------
    >>> import rtx_jax as xp
    >>> x = xp.arange(3.0)
    >>> with xp.fusion() as statistics:
    ...     y = xp.sqrt(x * x + 1.0)
    ...     print(y)
    [1.         1.41421356 2.23606798]
    >>> statistics.recorded, statistics.runs
    (3, 1)
    """

    __slots__ = ("_after", "_entered")

    def __init__(self, *misplaced: Never, after: int = WHOLE_AFTER) -> None:
        if misplaced:
            raise InvalidArgument(
                "fusion",
                "",
                got=f"an object of type {type(misplaced[0]).__name__} by position",
                wanted="after=, or nothing",
                remedy="Decorate with @fusion(), with parentheses.",
                arg="",
                reason="by position",
            )
        if not isinstance(after, int) or isinstance(after, bool) or after < 1:
            raise InvalidArgument(
                "fusion", "after", got=repr(after), wanted="a positive integer", arg="after", reason="not positive"
            )
        self._after = after
        self._entered: list[tuple[FusionStatistics, int]] = []

    def __enter__(self) -> FusionStatistics:
        flush()  # each context counts its own
        statistics = FusionStatistics()
        self._entered.append((statistics, enter(self._after, statistics)))
        tracing.active += 1
        return statistics

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if error is None:
                flush()
        finally:
            tracing.active -= 1
            statistics, before = self._entered.pop()
            leave(before, statistics)

    def __call__(self, fn: Callable[P, R], /) -> Callable[P, R]:
        """Return a function that runs `fn` in a context of its own."""

        @functools.wraps(fn)
        def fused(*args: P.args, **kwargs: P.kwargs) -> R:
            with fusion(after=self._after):
                return fn(*args, **kwargs)

        return fused
