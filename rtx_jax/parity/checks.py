"""`check`: the same comparison for a function of one's own."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version

import jax
import numpy as np

import rtx_jax as xp

from .._version import __version__
from ..checks.parameters import positive
from ..core.devices import DeviceLike
from ..core.dtypes import KIND
from ..errors import InvalidArgument, UnsupportedDType
from .bounds import Bound
from .case import MODES, Case, Mode, Operand, Operation
from .face import NamespaceFace
from .modes import Call
from .operands import widest
from .results import Outcome, Report
from .runner import run_calls
from .ulp import Values, is_floating, is_inexact

__all__ = ["check"]


def check(
    fn: Callable[..., object],
    /,
    *args: xp.Array | jax.Array | np.ndarray | np.generic | float | complex | list[object],
    reference: Callable[..., object] | None = None,
    device: DeviceLike | None = None,
    modes: Sequence[Mode] | None = None,
    max_ulp: float = 16.0,
) -> Report:
    """Run a function of Arrays eagerly, under jit, mapped and differentiated, and compare it with what is right.

    Parameters
    ----------
    fn
        Takes Arrays and returns Arrays, or a tuple, list or dict of them.
    *args
        Its arguments. The dtype under test is the one of the first that is floating-point or complex.
    reference
        The same function on NumPy arrays, which are float64 and complex128. None takes `fn` itself, on float64 and
        complex128 Arrays of the CPU: that judges dtype, device and mode, but not the formula.
    device
        Where `fn` runs; None for the default device.
    modes
        Some of ``"eager"``, ``"jit"``, ``"vmap"`` and ``"grad"``. None takes all; ``"grad"`` only for a real
        floating-point dtype. A function whose result's shape depends on values runs eagerly alone.
    max_ulp
        The bound, in units in the last place of each result's largest value.

    Returns
    -------
    Report
        An outcome for each mode. ``report.passed`` says whether all are within the bound.

    Raises
    ------
    InvalidArgument
        `fn` is no function, there are no arguments, or the bound is negative.
    UnsupportedDType
        None of them is floating-point or complex.

    Examples
    --------
    >>> import numpy as np
    >>> import rtx_jax as xp
    >>> from rtx_jax import parity
    >>> def energy(x):
    ...     return xp.sum(x * x)
    >>> parity.check(energy, np.ones(3, np.float32), reference=lambda x: np.sum(x * x)).passed
    True
    """
    start = time.perf_counter()
    values = [np.asarray(arg) for arg in args]
    if not values:
        raise InvalidArgument("check", "args", got="no arguments", wanted="the arguments of the function", arg="args")
    inexact = [x.dtype for x in values if is_inexact(x.dtype)]
    if not inexact:
        raise UnsupportedDType(
            "check", "args", got=", ".join(str(x.dtype) for x in values), wanted="a floating-point or complex array",
            dtype=values[0].dtype, op="check",
        )  # fmt: skip
    tested = inexact[0]
    if not callable(fn):
        raise InvalidArgument(
            "check", "fn", got=type(fn).__name__, wanted="a function", arg="fn", reason="not callable"
        )
    bound = Bound(positive("check", "max_ulp", max_ulp, zero=True), 0.0)
    face = NamespaceFace(device)
    name = getattr(fn, "__name__", type(fn).__name__)
    case = Case("normal", tuple(Operand(x.shape) for x in values))
    operation = Operation(
        name, (case,), (tested.name,), _with_arrays(fn), reference or _widened(fn), scale="largest", own=True
    )
    call = Call(case, values, {})
    chosen = modes if modes is not None else [m for m in MODES if m != "grad" or is_floating(tested)]
    outcomes: list[Outcome] = [run_calls(face, operation, mode, [call], tested, bound) for mode in chosen]
    versions = {"rtx_jax": __version__, **{package: version(package) for package in ("jax", "jaxlib", "numpy")}}
    return Report(face.device, name, versions, tuple(outcomes), time.perf_counter() - start)


def _with_arrays(fn: Callable[..., object]) -> Callable[..., object]:
    """The function, which must return arrays: beside its own None, another None would pass."""

    @functools.wraps(fn)
    def checked(*args: object) -> object:
        result = fn(*args)
        leaves = jax.tree.leaves(result, is_leaf=lambda leaf: leaf is None or isinstance(leaf, xp.Array))
        for leaf in leaves:
            numbers = isinstance(leaf, int | float | complex) or getattr(leaf, "dtype", None) in KIND
            if not numbers:
                raise InvalidArgument(
                    "check",
                    "fn",
                    got=f"a function that returned {type(leaf).__name__}",
                    wanted="Arrays, or a tuple, list or dict of them",
                    arg="fn",
                    reason="no array",
                )
        return result

    return checked


def _widened(fn: Callable[..., object]) -> Callable[..., object]:
    """The function on Arrays of the CPU, with results on the host."""

    def reference(*operands: Values) -> object:
        arrays = [xp.asarray(x.astype(widest(x.dtype)), device="cpu") for x in operands]
        return jax.tree.map(np.asarray, fn(*arrays), is_leaf=lambda leaf: isinstance(leaf, xp.Array))

    return reference
