"""Mask, bias and segments in the Hopper kernels: what comes through the ring, what a warpgroup holds, and their tile.

A tile has rows, which a warpgroup holds, and columns, which the ring brings. Rows are queries, or keys where the
kernel is `transposed`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from .pallas_mosaic_gpu_tiles import Shape, mosaic, swizzled

__all__ = ["Extras"]


@dataclass(frozen=True, slots=True)
class Extras:
    """How one kernel treats them. References are given by the name of the operand."""

    shape: Shape
    transposed: bool = False

    @property
    def kinds(self) -> dict[str, str]:
        """How bias and mask, where they are there, lie over this kernel's tiles: ``"tile"``, ``"held"``, ``"ring"``."""
        ring = "row" if self.transposed else "column"
        kinds = {"bias": self.shape.bias, "mask": self.shape.mask}
        return {name: x if x == "tile" else "ring" if x == ring else "held" for name, x in kinds.items() if x}

    def scratch(self, operands: Mapping[str, jax.Array], rows: int, columns: int) -> tuple[dict[str, Any], int]:
        """Return the ring's places for them, and how many copies fill one turn."""
        plgpu, stages = mosaic(), self.shape.stages
        found: dict[str, Any] = {}
        for name, kind in self.kinds.items():
            if kind == "tile":
                found[name] = swizzled((stages, rows, columns), operands[name].dtype)
            elif kind == "ring":
                found[name] = plgpu.SMEM((stages, columns), operands[name].dtype)
        if self.shape.spec.segments:
            found["segments"] = plgpu.SMEM((stages, columns), jnp.int32)
        return found, len(found)

    def bring(
        self,
        given: Mapping[str, Any],
        scratch: Mapping[str, Any],
        there: Any,
        place: Any,
        batch: Any,
        head: Any,
        rows: tuple[Any, int],
        columns: tuple[Any, int],
    ) -> None:
        """Start the copies of one turn; `rows` and `columns` are where they start and how many there are."""
        import jax.experimental.pallas as pl

        plgpu = mosaic()
        held, ring = pl.ds(*rows), pl.ds(*columns)
        for name, kind in self.kinds.items():
            if kind == "held":
                continue
            pair = (held, ring) if kind == "tile" else (0, ring)
            plgpu.copy_gmem_to_smem(self._part(given, name, batch, head, *pair), scratch[name].at[place], there)
        if self.shape.spec.segments:
            source = given["segment_ids" if self.transposed else "key_segment_ids"].at[batch, ring]
            plgpu.copy_gmem_to_smem(source, scratch["segments"].at[place], there)

    def held(self, given: Mapping[str, Any], batch: Any, head: Any, rows: Any) -> dict[str, Any]:
        """Return what a warpgroup holds of its rows."""
        sources = {}
        for name, kind in self.kinds.items():
            if kind == "held":
                sources[name] = self._part(given, name, batch, head, 0, rows)
        if self.shape.spec.segments:
            sources["segments"] = given["key_segment_ids" if self.transposed else "segment_ids"].at[batch, rows]
        plgpu = mosaic()
        layout = plgpu.Layout.WGMMA.reduce(1)
        return {name: plgpu.load(source, layout=layout, optimized=False) for name, source in sources.items()}

    def tile(
        self, scratch: Mapping[str, Any], held: Mapping[str, Any], place: Any, first: Any, tile: tuple[int, int]
    ) -> dict[str, Any]:
        """Return the arguments of `Shape.scores` for one tile; its rows start at `first` of the ring's."""
        import jax.experimental.pallas as pl

        plgpu = mosaic()
        per_column = plgpu.Layout.WGMMA.reduce(0)
        found: dict[str, Any] = {}
        for name, kind in self.kinds.items():
            if kind == "tile":
                mine = scratch[name].at[place, pl.ds(first, tile[0])]
                x = plgpu.load(mine, layout=plgpu.Layout.WGMMA, optimized=False)
            elif kind == "ring":
                x = lax.broadcast_in_dim(plgpu.load(scratch[name].at[place], layout=per_column), tile, [1])
            else:
                x = lax.broadcast_in_dim(held[name], tile, [0])
            found[name] = x.astype(jnp.float32) if name == "bias" else x != 0
        if self.shape.spec.segments:
            pair = held["segments"], plgpu.load(scratch["segments"].at[place], layout=per_column)
            found["segments"] = pair[::-1] if self.transposed else pair
        return found

    def _part(self, given: Mapping[str, Any], name: str, batch: Any, head: Any, first: Any, second: Any) -> Any:
        shape = self.shape.spec.mask if name == "mask" else self.shape.spec.bias
        assert shape is not None
        return given[name].at[0 if shape[0] == 1 else batch, 0 if shape[1] == 1 else head, first, second]
