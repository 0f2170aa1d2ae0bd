"""The backward pass of a norm on Hopper: one pass over the rows.

One warpgroup takes a range of rows; a ring of copies brings the next ones while it computes. It forms the statistics of
a row again, holds its sums for weight and bias in registers, and writes them once; XLA adds the few hundred rows of
sums, in order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._hopper import PROCESSORS, SHARED_BYTES, THREADS, mosaic, rows_layout, unsupported_target
from ..rope.shape import largest_divisor
from ..target import Target
from .spec import NormSpec

__all__ = ["NAME", "backward", "unsupported"]

NAME = "pallas_mosaic_gpu"

_RINGS = (3, 2)  # rows on their way at once
# Values of a row that are in registers at once, and sums for the weight or bias that a warpgroup's registers hold.
_CHUNK, _SUMS = 2048, 8192
_COPIED = 256  # elements along one axis of a copy


def unsupported(size: int, dtype: np.dtype, spec: NormSpec, wanted: tuple[bool, ...], target: Target) -> list[str]:
    """Return why a backward pass cannot run here; nothing where it can."""
    reasons = unsupported_target(target, dtype)
    if size % THREADS:
        reasons.append(f"{size} elements of a row are no multiple of {THREADS}")
    elif size * max(sum(wanted[1:]), 1) > _SUMS:
        reasons.append(f"rows of {size} elements with {sum(wanted[1:])} vectors do not fit the registers")
    elif _ring(size, dtype.itemsize, spec) is None:
        reasons.append(f"two rows of {size} elements of {dtype.name} do not fit the shared memory")
    if not wanted[0]:
        reasons.append("it gives the cotangent of x, which is not wanted")
    return reasons


def _shared_bytes(ring: int, size: int, itemsize: int, spec: NormSpec) -> int:
    return ring * size * itemsize * (3 + spec.passing) + 4 * size * (spec.weight + 1)


def _ring(size: int, itemsize: int, spec: NormSpec) -> int | None:
    return next((ring for ring in _RINGS if _shared_bytes(ring, size, itemsize, spec) <= SHARED_BYTES), None)


@dataclass(frozen=True, slots=True)
class _Plan:
    """A row as (chunks, lines, columns), how many there are, how many warpgroups take them, and their rings."""

    spec: NormSpec
    wanted: tuple[bool, ...]
    rows: int
    chunks: int
    lines: int
    columns: int
    programs: int
    ring: int

    @property
    def size(self) -> int:
        """Elements of a row."""
        return self.chunks * self.lines * self.columns

    @property
    def each(self) -> int:
        """Rows of one program, at most."""
        return -(-self.rows // self.programs)


def backward(
    arrays: Sequence[jax.Array],
    cotangents: Sequence[jax.Array],
    wanted: tuple[bool, ...],
    *,
    spec: NormSpec,
    programs: int | None = None,
    interpret: bool = False,
) -> tuple[jax.Array, ...]:
    """Return the cotangents of those of `x`, the weight and the bias that are wanted; see `xla.backward`.

    `programs` is how many warpgroups take the rows; by default what the memory of an H200's multiprocessors holds.
    """
    x, *vectors = arrays
    size = x.shape[-1]
    rows = x.size // size
    ring = _ring(size, x.dtype.itemsize, spec)
    assert ring is not None
    if programs is None:
        shared = _shared_bytes(ring, size, x.dtype.itemsize, spec)
        programs = min(PROCESSORS * max(min(SHARED_BYTES // shared, 8), 1), max(PROCESSORS, rows // 16))
    chunk = largest_divisor(size, _CHUNK, THREADS)
    assert chunk is not None
    columns = largest_divisor(chunk, _COPIED, 8)
    assert columns is not None
    plan = _Plan(spec, wanted, rows, size // chunk, chunk // columns, columns, min(programs, rows), ring)
    line = (plan.chunks * plan.lines, plan.columns)
    operands = {"x": x, "seed": cotangents[0]} | ({"passed": cotangents[1]} if spec.passing else {})
    flat = {name: t.reshape(rows, *line) for name, t in operands.items()}
    if spec.weight:
        flat["weight"] = vectors[0].astype(jnp.float32).reshape(line)
    slope, *partial = _kernel(plan, flat, x.dtype, interpret)(*flat.values())
    owners = [v for v, w in zip(vectors, wanted[1:], strict=True) if w]
    totals = (p.sum(0).reshape(size).astype(v.dtype) for p, v in zip(partial, owners, strict=True))
    return (slope.reshape(x.shape), *totals)


def _kernel(
    plan: _Plan, operands: Mapping[str, jax.Array], dtype: np.dtype, interpret: bool
) -> Callable[..., list[jax.Array]]:
    plgpu = mosaic()
    line = (plan.chunks * plan.lines, plan.columns)
    sums = sum(plan.wanted[1:])
    results = [jax.ShapeDtypeStruct((plan.rows, *line), dtype)]
    results += [jax.ShapeDtypeStruct((plan.programs, *line), jnp.float32)] * sums
    ringed = [name for name in operands if name != "weight"]
    scratch = {name: plgpu.SMEM((plan.ring, *line), operands[name].dtype) for name in ringed}
    scratch["slope"] = plgpu.SMEM((plan.ring, *line), dtype)
    scratch["there"] = plgpu.Barrier(num_arrivals=len(ringed), num_barriers=plan.ring)
    if "weight" in operands:
        scratch["weight"] = plgpu.SMEM(line, jnp.float32)
        scratch["weight there"] = plgpu.Barrier()
    if sums:
        scratch["sums"] = plgpu.SMEM(line, jnp.float32)

    def body(*refs: Any) -> None:
        given = dict(zip(operands, refs, strict=False))
        outs = refs[len(operands) : len(operands) + len(results)]
        held = dict(zip(scratch, refs[len(operands) + len(results) :], strict=True))
        _Rows(plan, given, outs, held).run()

    return plgpu.kernel(  # type: ignore[no-any-return]
        body,
        out_type=results,
        scratch_types=list(scratch.values()),
        grid=(plan.programs,),
        grid_names=("program",),
        num_threads=1,
        thread_name="warpgroup",
        kernel_name="norm_backward",
        interpret=plgpu.InterpretGPUParams() if interpret else None,
    )


@dataclass(frozen=True)
class _Rows:
    """The rows of one program: references to operands, results and scratch memory by name."""

    plan: _Plan
    given: Mapping[str, Any]
    outs: tuple[Any, ...]
    held: Mapping[str, Any]

    def run(self) -> None:
        """Go over the rows, then write the sums."""
        import jax.experimental.pallas as pl

        plgpu, plan = mosaic(), self.plan
        program = lax.axis_index("program")
        first = program * np.int32(plan.each)
        count = jnp.minimum(np.int32(plan.rows) - first, np.int32(plan.each))
        if "weight" in self.held:
            plgpu.copy_gmem_to_smem(self.given["weight"], self.held["weight"], self.held["weight there"])
        for i in range(min(plan.ring, plan.each)):

            @pl.when(i < count)
            def _(i: int = i) -> None:
                self.bring(first, np.int32(i))

        if "weight" in self.held:
            plgpu.barrier_wait(self.held["weight there"])

        def step(i: Any, sums: Any) -> Any:
            place = lax.rem(i, np.int32(self.plan.ring))
            plgpu.barrier_wait(self.held["there"].at[place])
            # The row that was written from this place before has left it.
            plgpu.wait_smem_to_gmem(plan.ring - 1, wait_read_only=True)
            sums = self.row(place, sums)
            plgpu.commit_smem()
            plgpu.copy_smem_to_gmem(self.held["slope"].at[place], self.outs[0].at[first + i])

            @pl.when(i + np.int32(self.plan.ring) < count)
            def _() -> None:
                self.bring(first, i + np.int32(self.plan.ring))

            return sums

        nothing = jnp.zeros((plan.lines, plan.columns), jnp.float32)
        start = [
            [plgpu.layout_cast(nothing, self.layout) for _ in range(plan.chunks)] for _ in range(len(self.outs) - 1)
        ]
        sums = lax.fori_loop(np.int32(0), count, step, start)
        for total, out in zip(sums, self.outs[1:], strict=True):
            for chunk, part in enumerate(total):
                self.held["sums"][self.lines(chunk)] = part
            plgpu.commit_smem()
            plgpu.copy_smem_to_gmem(self.held["sums"], out.at[program])
            plgpu.wait_smem_to_gmem(0)
        plgpu.wait_smem_to_gmem(0)

    @property
    def layout(self) -> Any:
        """How a chunk lies in the registers."""
        return rows_layout((self.plan.lines, self.plan.columns))

    def lines(self, chunk: int) -> Any:
        """Return the lines of a chunk."""
        return slice(chunk * self.plan.lines, (chunk + 1) * self.plan.lines)

    def bring(self, first: Any, i: Any) -> None:
        """Begin to copy a row."""
        plgpu = mosaic()
        place = lax.rem(i, np.int32(self.plan.ring))
        for name in self.given:
            if name != "weight":
                there = self.held["there"].at[place]
                plgpu.copy_gmem_to_smem(self.given[name].at[first + i], self.held[name].at[place], there)

    def load(self, name: str, place: Any, chunk: int) -> jax.Array:
        """Return a chunk of a row in float32."""
        plgpu = mosaic()
        source = (
            self.held[name].at[self.lines(chunk)] if place is None else self.held[name].at[place, self.lines(chunk)]
        )
        found: jax.Array = plgpu.load(source, layout=self.layout).astype(jnp.float32)
        return found

    def pulled(self, place: Any, chunk: int) -> jax.Array:
        """Return the cotangent times the weight."""
        seed = self.load("seed", place, chunk)
        return seed * self.load("weight", None, chunk) if "weight" in self.held else seed

    def mean(self, of: Callable[[int], jax.Array]) -> Any:
        """Return the mean over the row of what `of` gives for each chunk."""
        total = of(0)
        for chunk in range(1, self.plan.chunks):
            total = total + of(chunk)
        return jnp.sum(total) * np.float32(1 / self.plan.size)

    def row(self, place: Any, sums: Any) -> Any:
        """Write the cotangent of a row, and return the sums with its terms."""
        plan, spec = self.plan, self.plan.spec
        centre = self.mean(lambda c: self.load("x", place, c)) if spec.centred else np.float32(0)

        def rest(chunk: int) -> jax.Array:
            x = self.load("x", place, chunk)
            return x - centre if spec.centred else x

        square = self.mean(lambda c: rest(c) * rest(c))
        product = self.mean(lambda c: self.pulled(place, c) * rest(c))
        level = np.float32(0)
        if spec.centred:
            # What rounding left of the mean.
            off, level = self.mean(rest), self.mean(lambda c: self.pulled(place, c))
            square, product, centre = square - off * off, product - off * level, centre + off
        factor = lax.rsqrt(square + np.float32(spec.eps))
        along = product * factor
        terms: list[list[jax.Array]] = [[] for _ in sums]
        for chunk in range(plan.chunks):
            normal = rest(chunk) * factor
            slope = self.pulled(place, chunk) - normal * along
            slope = (slope - level if spec.centred else slope) * factor
            if spec.passing:
                slope = slope + self.load("passed", place, chunk)
            out = self.held["slope"]
            out[place, self.lines(chunk)] = slope.astype(out.dtype)
            seed = self.load("seed", place, chunk) if sums else None
            kinds = [True] * spec.weight + [False] * spec.bias
            asked = [k for k, w in zip(kinds, plan.wanted[1:], strict=True) if w]
            for number, of_weight in enumerate(asked):
                assert seed is not None
                terms[number].append(sums[number][chunk] + (seed * normal if of_weight else seed))
        return terms
