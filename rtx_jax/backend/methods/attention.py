"""Attention, and the rotation of its queries and keys by their positions."""

from __future__ import annotations

from typing import Literal, cast, overload

import numpy as np

from ...checks import attention as check
from ...checks import rope as check_rope
from ...checks.choices import flag
from ...checks.shape import as_int
from ...errors import InvalidArgument, RtxError
from ..core import T
from .index import IndexMethods
from .shape import product_precision

__all__ = ["AttentionMethods"]

_NAMES = "query key value mask bias segment_ids key_segment_ids query_lengths key_lengths sinks q_offset".split()


class AttentionMethods(IndexMethods[T]):
    """Attention in the layout (B, H, S, D): batch, heads, positions, head size."""

    @overload
    def flash_attention(
        self,
        q: T,
        k: T,
        v: T,
        mask: T | None = None,
        *,
        scale: float,
        causal: bool = False,
        bias: T | None = None,
        q_offset: int | T | None = None,
        window: int | tuple[int | None, int | None] | None = None,
        softcap: float | None = None,
        segment_ids: T | None = None,
        key_segment_ids: T | None = None,
        query_lengths: T | None = None,
        key_lengths: T | None = None,
        sinks: T | None = None,
        return_lse: Literal[False] = False,
        precision: str | None = None,
    ) -> T: ...

    @overload
    def flash_attention(
        self,
        q: T,
        k: T,
        v: T,
        mask: T | None = None,
        *,
        scale: float,
        causal: bool = False,
        bias: T | None = None,
        q_offset: int | T | None = None,
        window: int | tuple[int | None, int | None] | None = None,
        softcap: float | None = None,
        segment_ids: T | None = None,
        key_segment_ids: T | None = None,
        query_lengths: T | None = None,
        key_lengths: T | None = None,
        sinks: T | None = None,
        return_lse: Literal[True],
        precision: str | None = None,
    ) -> tuple[T, T]: ...

    def flash_attention(
        self,
        q: T,
        k: T,
        v: T,
        mask: T | None = None,
        *,
        scale: float,
        causal: bool = False,
        bias: T | None = None,
        q_offset: int | T | None = None,
        window: int | tuple[int | None, int | None] | None = None,
        softcap: float | None = None,
        segment_ids: T | None = None,
        key_segment_ids: T | None = None,
        query_lengths: T | None = None,
        key_lengths: T | None = None,
        sinks: T | None = None,
        return_lse: bool = False,
        precision: str | None = None,
    ) -> T | tuple[T, T]:
        """Return ``softmax(q @ k.T * scale + bias) @ v`` over the keys that each query sees.

        Parameters
        ----------
        q
            ``(B, N, T, H)``.
        k, v
            ``(B, K, S, H)`` and ``(B, K, S, Hv)``. K divides N: head n of the queries reads head ``n // (N / K)``.
        mask
            Broadcasts to ``(B, N, T, S)``. Bool: True lets a query see a key. Floating: added to the scores.
        scale
            Factor of the scores; ``H ** -0.5`` is usual.
        causal
            Query t sees the keys up to ``t + q_offset``.
        bias
            Added to the scores; broadcasts to ``(B, N, T, S)``.
        q_offset
            Position of the first query among the keys, for `causal` and `window`; ``(B,)`` or one for all. None is
            ``S - T``, by row where lengths are given, so that the last query sees the last key.
        window
            Keys to the left and to the right of the diagonal that a query sees, None for all: ``(left, right)``; one
            number is both sides.
        softcap
            Scores become ``softcap * tanh(scores / softcap)``, before bias and mask.
        segment_ids, key_segment_ids
            ``(B, T)`` and ``(B, S)`` integers: a query sees the keys of its own segment. One for both where T = S.
        query_lengths, key_lengths
            ``(B,)``: how many of the positions are there.
        sinks
            ``(N,)`` logits that take part in the softmax and have no value.
        return_lse
            Return the log-sum-exp of the scores too, natural, ``(B, N, T)`` in float32; -inf for no key.
        precision
            See `matmul`.

        Returns
        -------
        Tensor
            ``(B, N, T, Hv)``. A query that sees no key gives 0, and has no gradient.

        Raises
        ------
        InvalidDimension, ShapeMismatch
            The operands do not fit together.
        BroadcastError
            Mask or bias do not broadcast.
        InvalidArgument
            A parameter is out of range.

        Notes
        -----
        What a query does not see never reaches it, NaN and infinities included; but on the kernels of accelerators
        those of a value may reach the queries of one block, of which one sees it. Memory grows with T plus S, in each
        mode of differentiation (with T times S on the reference).
        """
        offset: T | np.ndarray | None
        if q_offset is None or hasattr(q_offset, "dtype"):
            offset = cast("T | None", q_offset)
        else:
            whole = as_int("flash_attention", "q_offset", q_offset)
            if abs(whole) >= 2**31:
                raise InvalidArgument(
                    "flash_attention",
                    "q_offset",
                    got=whole,
                    wanted="a number of 32 bits",
                    arg="q_offset",
                    reason="out of range",
                )
            offset = np.asarray(whole, np.int32)
        exactness = product_precision("flash_attention", precision)
        operands = q, k, v, mask, bias, segment_ids, key_segment_ids, query_lengths, key_lengths, sinks, offset
        facts = (
            *[self._given("flash_attention", x) for x in (q, k, v)],
            *[None if x is None else self._facts("flash_attention", x) for x in operands[3:]],  # type: ignore[arg-type]
        )
        sees = flag("flash_attention", "causal", causal)
        both = flag("flash_attention", "return_lse", return_lse)

        def checked() -> tuple[object, ...]:
            named = dict(zip(_NAMES, facts, strict=True))
            try:
                sizes = check.attention(named, layout="BNTH", window=window, softcap=softcap, scale=scale)
            except RtxError as error:
                raise error.renamed("flash_attention") from None
            return sees, sizes.window, sizes.softcap, sizes.scale, "BNTH", both, exactness

        key = "attention", facts, sees, window, type(window), softcap, scale, type(scale), both, exactness
        return self._apply("attention", operands, self._checked(key, checked))

    def rope(
        self,
        x: T,
        cos: T,
        sin: T,
        *,
        layout: str = "half",
        positions: T | None = None,
        rotary_dim: int | None = None,
    ) -> T:
        """Return `x` with each pair of channels turned by the angle of its position (Su et al. 2021, section 3.2).

        Parameters
        ----------
        x
            ``(..., S, D)``.
        cos, sin
            ``(S, D/2)``, or ``(S, D)`` of which the first of each pair is read.
        layout
            ``"half"`` pairs channel i with ``i + D/2``, ``"interleaved"`` channel 2i with 2i + 1.
        positions
            Rows of the tables, ``(S,)`` or ``(B, S)``; 0 to S - 1 by default. Where they cannot be read, because a
            function is being traced, one that the tables do not have gives NaN, which `rtx_jax.checked` reports.
        rotary_dim
            Number of leading channels that are turned, all by default; the tables are for these.

        Raises
        ------
        ShapeMismatch
            The number of channels is odd, or the tables do not fit.
        IndexOutOfBounds
            A position is not a row of the tables.
        InvalidArgument
            The layout is unknown.

        Notes
        -----
        The inverse, and the gradient, is the rotation with ``-sin``.
        """
        operands = x, cos, sin, positions
        facts = *[self._given("rope", operand) for operand in (x, cos, sin)], self._facts("rope", positions)

        def checked() -> tuple[object, ...]:
            shape_x, shape_cos, shape_sin = facts[:3]
            assert shape_x is not None and shape_cos is not None and shape_sin is not None
            check_rope.rope(
                *shape_x,
                *shape_cos,
                *shape_sin,
                *(facts[3] or (None, None)),
                layout=layout,
                seq_axis=-2,
                rotary_dim=rotary_dim,
            )
            return layout, -2, rotary_dim

        params = self._checked(("rope", facts, layout, rotary_dim), checked)
        if positions is not None:
            self._indices("rope", positions, cos.shape[0], "error", flat=False)
        return self._apply("rope", operands, params)
