"""What a run of a benchmark measures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..core.dtypes import as_dtype
from ..errors import InvalidArgument

__all__ = ["Request", "check"]


@dataclass(frozen=True, slots=True)
class Request:
    """What to measure.

    Attributes
    ----------
    operation
        A name of `OPERATIONS`.
    lengths, variants, directions
        Where it is measured; the operation's own without any.
    batch, heads, key_heads, size
        B, N, K, H; as many key heads as query heads without them.
    width, vocabulary
        D and V, where an operation has them.
    window
        Keys that a query sees to its left in the variant ``"window"``.
    dtype
        Of the operands.
    implementations
        Of ours, each a contender.
    fast
        Whether ours takes part with ``fast=True`` too.
    device
        Where; JAX's default without it.
    rounds
        Loops of each contender.
    """

    operation: str
    lengths: Sequence[int] = ()
    variants: Sequence[str] = ()
    directions: Sequence[str] = ()
    batch: int = 1
    heads: int = 8
    key_heads: int = -1
    size: int = 64
    width: int = 1024
    vocabulary: int = 32768
    window: int = 512
    dtype: str = "float32"
    implementations: Sequence[str] = ("auto",)
    fast: bool = False
    device: str | None = None
    rounds: int = 7

    def __post_init__(self) -> None:
        if self.key_heads == -1:
            object.__setattr__(self, "key_heads", self.heads)

    @property
    def group(self) -> int:
        """Query heads of one key head."""
        return self.heads // self.key_heads


def check(request: Request, /, *, variants: Sequence[str], directions: Sequence[str]) -> None:
    """Check a request whose lists are filled.

    Raises
    ------
    InvalidArgument
        A name is unknown, a size is not positive, or the heads do not divide.
    UnsupportedDType
        The dtype is none, or not floating.
    """
    for name, given, known in (("variant", request.variants, variants), ("direction", request.directions, directions)):
        for word in given:
            if word not in known:
                raise _wrong(request, f"--{name}", repr(word), f"one of {', '.join(known)}")
    sizes = {name: getattr(request, name) for name in ("batch", "heads", "key_heads", "size", "width", "vocabulary")}
    for name, size in [*sizes.items(), *(("length", length) for length in request.lengths)]:
        if size < 1:
            raise _wrong(request, f"--{name.replace('_', '-')}", size, "a positive number")
    if request.window < 0:
        raise _wrong(request, "--window", request.window, "at least 0")
    if request.heads % request.key_heads:
        raise _wrong(request, "--key-heads", request.key_heads, f"a divisor of {request.heads} heads")
    dtype = as_dtype(request.dtype, f"rtx-jax bench {request.operation}", "--dtype")
    if not (np.issubdtype(dtype, np.floating) or dtype.name == "bfloat16"):
        raise _wrong(request, "--dtype", request.dtype, "float16, bfloat16, float32 or float64")


def _wrong(request: Request, option: str, got: object, wanted: str) -> InvalidArgument:
    operation = f"rtx-jax bench {request.operation}"
    return InvalidArgument(operation, option, got=got, wanted=wanted, arg=option, reason=f"not {wanted}")
