"""inspect: what a function compiles to."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .inspection import Inspection

__all__ = ["inspect"]


def inspect(fn: object, /, *args: object, **kwargs: object) -> Inspection:
    """Compile a function for some arguments, and report what it became; nothing runs.

    Parameters
    ----------
    fn
        A function of Arrays, plain arrays, numbers and containers of them, compiled as by `jit`; a function of
        `rtx_jax.jit` or ``jax.jit``; what their ``lower`` gave, or its ``compile``; or a captured graph of
        `rtx_jax.runtime`. The last three take no arguments here.
    *args, **kwargs
        As for a call. Arrays that were given up with ``take`` count as donated, and stay as they are.

    Raises
    ------
    InvalidArgument
        `fn` is nothing that can be compiled, or needs no arguments and got some.
    BackendLimitation
        The graph is replayed without a compiler, as those of NumPy are.

    Notes
    -----
    On the CPU a kernel is what XLA compiles as one function, on a GPU what is launched; a custom call is one kernel.
    Eager code runs one program for each operation: this is about one function as a whole, which is also what
    `rtx_jax.fusion` makes of the operations in it when they are compiled together.

    Examples
    --------
    >>> import rtx_jax as xp
    >>> report = xp.inspect(lambda x: xp.exp(-x * x) + 1.0, xp.arange(1000.0))
    >>> len(report.kernels), report.fused_operations, report.temporary_bytes
    (1, 4, 0)
    """
    from .inspection import report_of  # when it is first asked for: most programs never do

    return report_of(fn, args, kwargs)
