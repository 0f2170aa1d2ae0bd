"""Choosing a backend: by the user's word, by preference, by what is here."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core import devices as core_devices
from ..errors import BackendUnavailable, InvalidArgument
from .autodiff import Autodiff
from .base import Backend
from .core import Tensor
from .fusion import Fusion
from .jax import CpuBackend, CudaBackend, MetalBackend, RocmBackend, TpuBackend
from .numpy import NumpyBackend
from .operations import OPERATIONS
from .quantized import Quantized
from .webgpu import WebGpuBackend

__all__ = ["ORDER", "VARIABLE", "Candidate", "Explanation", "auto_select", "backend_of", "explain"]

VARIABLE = "RTX_JAX_BACKEND"
"""The environment variable that overrules every preference: a name, or several in order, with commas between."""

ORDER = ("cuda", "rocm", "tpu", "metal", "cpu", "numpy")
"""Backends as they are tried without a preference."""

_CLASSES: dict[str, Callable[[], Backend[Any]]] = {
    "cuda": CudaBackend,
    "rocm": RocmBackend,
    "tpu": TpuBackend,
    "metal": MetalBackend,
    "cpu": CpuBackend,
    "numpy": NumpyBackend,
    "webgpu": WebGpuBackend,
}
_WRAPPERS: dict[str, Callable[[Backend[Any]], Backend[Any]]] = {
    "autodiff": Autodiff,
    "fusion": Fusion,
    "quantized": Quantized,
}
_STACKS = ", or a stack such as " + " or ".join(f"{word}<cpu>" for word in _WRAPPERS)
_ALIASES = {"mps": "metal", "mtl": "metal", "mlx": "metal", "nvidia": "cuda", "hip": "rocm"}
_ABILITIES = ("jit", "grad")


@dataclass(frozen=True, slots=True)
class Candidate:
    """One backend that was looked at.

    Attributes
    ----------
    name
        Its name.
    chosen
        Whether it was taken.
    reason
        Why it was, or why not.
    """

    name: str
    chosen: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a choice came to; prints as a table.

    Attributes
    ----------
    source
        Where the order came from.
    candidates
        In the order in which they were tried, up to and after the chosen one.
    """

    source: str
    candidates: tuple[Candidate, ...]

    @property
    def chosen(self) -> str | None:
        """Name of the chosen backend, or None."""
        return next((c.name for c in self.candidates if c.chosen), None)

    def __str__(self) -> str:
        width = max(len(c.name) for c in self.candidates)
        rows = [f"{'->' if c.chosen else '  '} {c.name:{width}}  {c.reason}" for c in self.candidates]
        return "\n".join([f"order: {self.source}", *rows])


def backend_of(name: str, /) -> Backend[Tensor]:
    """Return the backend of a name: ``"cpu"``, ``"cuda"``, ``"numpy"``, ..., or a stack's, as ``"quantized<cpu>"``.

    It is the name that `Backend.name` gives. A wrapper of a stack has its default parameters.

    Raises
    ------
    InvalidArgument
        There is none of that name.
    """
    word = name.strip() if isinstance(name, str) else ""
    prefix, bracket, inner = word.partition("<")
    wrapper = _WRAPPERS.get(prefix.lower())
    if bracket and word.endswith(">") and wrapper is not None:
        return wrapper(backend_of(inner[:-1]))
    return _CLASSES[_known(name, "backend_of", "name", _STACKS)]()


def _known(name: object, operation: str, argument: str, more: str = "") -> str:
    word = name.strip().lower() if isinstance(name, str) else ""
    word = _ALIASES.get(word, word)
    if word not in _CLASSES:
        raise InvalidArgument(
            operation,
            argument,
            got=repr(name),
            wanted="one of " + ", ".join(_CLASSES) + more,
            arg=argument,
            reason="unknown backend",
        )
    return word


def auto_select(
    prefer: str | Sequence[str] | None = None, require: Iterable[str] = (), n_devices: int | None = None
) -> Backend[Tensor]:
    """Return the first backend that is here and can do what is asked.

    Parameters
    ----------
    prefer
        A name or several in order, tried before the others. Where none of them is here the next in `ORDER` is taken.
    require
        What it must have: names of dtypes (``"float64"``), of operations (``"flash_attention"``), ``"jit"`` or
        ``"grad"``.
    n_devices
        Number of devices that it must have at least.

    Raises
    ------
    BackendUnavailable
        No candidate will do; the text has every reason. With `RTX_JAX_BACKEND` set only the backends that it names
        are candidates.
    InvalidArgument
        A name is unknown.

    Notes
    -----
    The order is that of the environment variable `RTX_JAX_BACKEND`, then `prefer`, then `ORDER`.
    """
    found = explain(prefer, require, n_devices)
    if found.chosen is None:
        reasons = "; ".join(f"{c.name}: {c.reason}" for c in found.candidates)
        raise BackendUnavailable(
            "auto_select",
            "",
            got=f"no backend of {', '.join(c.name for c in found.candidates)} ({found.source})",
            wanted="one that is here and has what is required",
            remedy=f"{reasons}.",
            backend=",".join(c.name for c in found.candidates),
            reason=reasons,
        )
    return _CLASSES[found.chosen]()


def explain(
    prefer: str | Sequence[str] | None = None, require: Iterable[str] = (), n_devices: int | None = None
) -> Explanation:
    """Return what `auto_select` would choose with the same arguments, and why not the others.

    Raises
    ------
    InvalidArgument
        A name is unknown.

    Examples
    --------
    >>> print(explain("numpy"))
    order: prefer, then the default
    -> numpy  chosen
       cuda   ...
    """
    needs = [_requirement(word) for word in require]
    if n_devices is not None and (not isinstance(n_devices, int) or n_devices < 1):
        raise InvalidArgument(
            "auto_select", "n_devices", got=repr(n_devices), wanted="1 or more", arg="n_devices", reason="out of range"
        )
    forced = os.environ.get(VARIABLE, "").strip()
    preferred = [prefer] if isinstance(prefer, str) else list(prefer or ())
    wanted = [_known(name, "auto_select", "prefer") for name in preferred]
    if forced:
        source, names = VARIABLE, [_known(name, VARIABLE, "") for name in forced.split(",") if name.strip()]
    else:
        source = "prefer, then the default" if wanted else "the default"
        names = [*wanted, *ORDER]
    here = core_devices.platforms()
    candidates, chosen = [], False
    for name in dict.fromkeys(names):
        problem = _problem(name, here, needs, n_devices)
        if problem is not None:
            candidates.append(Candidate(name, False, problem))
        elif chosen:
            candidates.append(Candidate(name, False, "would do, comes later"))
        else:
            chosen = True
            candidates.append(Candidate(name, True, "chosen"))
    return Explanation(source, tuple(candidates))


def _requirement(word: object) -> str | np.dtype:
    if isinstance(word, str) and (word in OPERATIONS or word in _ABILITIES or word == "flash_attention"):
        return word
    try:
        from ..core.dtypes import as_dtype

        return as_dtype(word, "auto_select", "require")
    except Exception as error:
        raise InvalidArgument(
            "auto_select",
            "require",
            got=repr(word),
            wanted="names of dtypes or operations, 'jit' or 'grad'",
            arg="require",
            reason="unknown requirement",
        ) from error


def _problem(
    name: str, here: dict[str, list[object]] | object, needs: Sequence[str | np.dtype], n_devices: int | None
) -> str | None:
    """Return why a backend will not do, or None."""
    if name == "webgpu":
        return "no PJRT plugin: it runs exported programs only"
    there: object = [object()] if name == "numpy" else here[name]  # type: ignore[index]
    if isinstance(there, str):
        return there
    assert isinstance(there, list)
    if n_devices is not None and len(there) < n_devices:
        return f"has {len(there)} device{'s' * (len(there) != 1)}, {n_devices} wanted"
    backend = _CLASSES[name]()
    for need in needs:
        if isinstance(need, np.dtype):
            if not backend.supports_dtype(need):
                return f"has no {need.name}"
        elif need in _ABILITIES and name == "numpy":
            return f"has no {need}: it is the reference, without JAX"
    return None
