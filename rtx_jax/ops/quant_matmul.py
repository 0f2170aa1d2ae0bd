"""Products with quantized matrices on raw arrays, which unpack a weight in registers or in tiles, never as a whole.

Dimension letters: M rows of the activations, K the inner axis, N columns of the result. A weight is stored as
``(N, K)`` (`transposed`, as linear layers have it) or ``(K, N)``. Scales lie on a grid of blocks; along the axis that
is not summed over they are brought to one for each of the N, along K there are ``blocks`` of them.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax

from ..checks.quant import FORMATS, Format
from .quant import effective_scale, expand, unpacked
from .quant_formats import decode, halves
from .quant_rows import LEAST_INNER, integer_row

__all__ = ["integer_matmul", "per_row", "quantized_matmul", "weight_matmul"]

_EXCHANGED = range(12, 65)  # numbers of rows that become the right-hand side of an integer product
_TILE_BYTES = 1 << 20  # of unpacked weight at a time: what the second-level cache of a core holds


def integer_matmul(a: jax.Array, b: jax.Array, /, *, transposed: bool = False) -> jax.Array:
    """Return the exact product of two int8 matrices as int32.

    Parameters
    ----------
    a
        ``(M, K)`` int8.
    b
        ``(K, N)`` int8, or ``(N, K)`` if `transposed`, which CPUs multiply several times faster.
    transposed
        How `b` is stored.

    Notes
    -----
    int32 holds the sum for K up to 131,071 values of -128..127; above, it would wrap. XLA's product of one to three
    rows is up to a hundred times slower than that of four on CPUs, so that they get rows of zeros.
    """
    product: jax.Array = lax.platform_dependent(
        a,
        b,
        cpu=lambda a, b: _integer_cpu(a, b, transposed),
        default=lambda a, b: _integer_dot(a, b, transposed),
    )
    return product


def _integer_dot(a: jax.Array, b: jax.Array, transposed: bool) -> jax.Array:
    contract = (((1,), (1 if transposed else 0,)), ((), ()))
    return lax.dot_general(a, b, contract, preferred_element_type=jnp.int32)


def _integer_cpu(a: jax.Array, b: jax.Array, transposed: bool, pairs: bool = False) -> jax.Array:
    rows = a.shape[0]
    if rows == 1 and transposed and b.shape[1] >= LEAST_INNER:
        return integer_row(a, b, packed=False, pairs=pairs)
    if rows in _EXCHANGED and transposed:
        # The product packs its right-hand side: better the few rows than the weight. The barrier keeps XLA from
        # exchanging the sides again.
        contract = (((1,), (1,)), ((), ()))
        product = lax.optimization_barrier(lax.dot_general(b, a, contract, preferred_element_type=jnp.int32))
        return lax.transpose(product, (1, 0))
    padded = jnp.pad(a, ((0, -rows % 4 if rows < 4 else 0), (0, 0)))
    return _integer_dot(padded, b, transposed)[:rows]


def _packed_cpu(a: jax.Array, data: jax.Array, shape: tuple[int, int], transposed: bool) -> jax.Array:
    """Product with int4 values that lie two in a byte, pairs along the rows of the stored weight."""
    if a.shape[0] == 1 and transposed and data.shape[1] >= LEAST_INNER:
        return integer_row(a, data, packed=True, pairs=True)

    if transposed:
        a = _even_odd(a)

    def multiply(start: int | jax.Array, count: int) -> jax.Array:
        codes = jnp.concatenate(halves(_rows(data, start, count), signed=True), axis=1)
        return _integer_cpu(a if transposed else _columns(a, start, count), codes, transposed)

    total = _over_tiles(multiply, shape, (1, 1), 1, transposed)
    return total if transposed else _even_odd_back(total)


def quantized_matmul(
    a: jax.Array,
    scale: jax.Array,
    zero: jax.Array | None,
    data: jax.Array,
    weight_scale: jax.Array,
    weight_zero: jax.Array | None,
    overall: jax.Array | None,
    /,
    *,
    value: str,
    shape: tuple[int, int],
    block: tuple[int, int],
    scale_dtype: str,
    packed: bool,
    transposed: bool,
    pairs: bool,
) -> jax.Array:
    """Return the product of int8 rows and an integer weight as float32; the sums of products are exact int32.

    Neither side has more than one block along K: XLA has no fast product of integers in blocks.

    Parameters
    ----------
    a
        ``(M, K)`` int8.
    scale, zero
        Scale and zero point (None: 0) of each row, or of all rows, as float32: ``(M, 1)`` or ``(1, 1)``.
    data, weight_scale, weight_zero, overall
        The weight, as `quant.quantize` returns it.
    value, shape, block, scale_dtype, packed
        Format of the weight; `shape` and `block` as it is stored.
    transposed
        Whether the weight is stored as ``(N, K)``.
    pairs
        Whether both sides are in -127..127, so that int16 holds the sum of two products.
    """
    form = FORMATS[value]
    scales = _per_column(effective_scale(weight_scale, overall, scale_dtype=scale_dtype), shape, block, transposed)
    zeros = None if weight_zero is None else _per_column(weight_zero.astype(jnp.float32), shape, block, transposed)
    rows = a.shape[0]
    if zero is not None:  # a row of ones gives the sums of the weight's columns
        a = jnp.concatenate((a, jnp.ones((1, a.shape[1]), jnp.int8)))

    def on_cpu(a: jax.Array, data: jax.Array) -> jax.Array:
        if packed and shape[1] % 2 == 0:
            return _packed_cpu(a, data, shape, transposed)
        return _integer_cpu(a, unpacked(data, form, shape, packed), transposed, pairs)

    def elsewhere(a: jax.Array, data: jax.Array) -> jax.Array:
        return _integer_dot(a, unpacked(data, form, shape, packed), transposed)

    sums = lax.platform_dependent(a, data, cpu=on_cpu, default=elsewhere)
    # Zero points are integers: the sum of (a - za)(b - zb) is that of a b - zb a, less za times that of 1 b - zb 1.
    if zeros is not None:
        sums = sums - jnp.sum(a, axis=1, keepdims=True, dtype=jnp.int32) * zeros.astype(jnp.int32).T
    if zero is not None:
        sums = sums[:rows] - zero.astype(jnp.int32) * sums[rows:]
    scaled: jax.Array = sums.astype(jnp.float32) * scale * scales.T
    return scaled


def per_row(grid: jax.Array, shape: tuple[int, int], block: tuple[int, int], /) -> jax.Array:
    """Return values of a grid of blocks as ``(M, blocks along K)``, or with one row where all rows share them."""
    return _per_column(grid, shape, block, True)


def weight_matmul(
    a: jax.Array,
    data: jax.Array,
    scale: jax.Array,
    zero: jax.Array | None,
    overall: jax.Array | None,
    /,
    *,
    value: str,
    shape: tuple[int, int],
    block: tuple[int, int],
    scale_dtype: str,
    packed: bool,
    transposed: bool,
) -> jax.Array:
    """Return the product of float rows and a quantized weight, accumulated in float32 (float64 for float64 rows).

    Parameters
    ----------
    a
        ``(M, K)``, real floating.
    data, scale, zero, overall
        The weight, as `quant.quantize` returns it.
    value, shape, block, scale_dtype, packed
        Format of the weight; `shape` and `block` as it is stored.
    transposed
        Whether the weight is stored as ``(N, K)``.

    Notes
    -----
    On CPUs about a mebibyte of the weight is unpacked at a time: XLA's CPU compiler has no product of mixed types, and
    would write the whole unpacked weight to memory, which also takes ten to twenty times as long. Elsewhere XLA is
    given the whole expression and fuses it into the product where it can. XLA's CPU compiler copies the bytes of a
    float8 weight, to read them as integers. A packed weight whose last axis is odd is unpacked as a whole, and so is
    the weight in a derivative.
    """
    form = FORMATS[value]
    weight = (data, scale, zero, overall)

    def whole(a: jax.Array, *parts: jax.Array) -> jax.Array:
        return _whole(a, *_four(parts, weight), form, shape, block, scale_dtype, packed, transposed)

    def tiled(a: jax.Array, *parts: jax.Array) -> jax.Array:
        return _tiled(a, *_four(parts, weight), form, shape, block, scale_dtype, packed, transposed)

    @jax.custom_jvp
    def product(a: jax.Array, *parts: jax.Array) -> jax.Array:
        result: jax.Array = lax.platform_dependent(a, *parts, cpu=tiled, default=whole)
        return result

    @product.defjvp
    def _jvp(primals: tuple[jax.Array, ...], tangents: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
        return product(*primals), jax.jvp(whole, primals, tangents)[1]

    present = tuple(part for part in weight if part is not None)
    wide = jnp.float64 if a.dtype == jnp.float64 else jnp.float32
    return product(a.astype(wide), *present)


_Parts = tuple[jax.Array, jax.Array, "jax.Array | None", "jax.Array | None"]


def _four(parts: tuple[jax.Array, ...], like: _Parts) -> _Parts:
    rest = iter(parts)
    return tuple(None if part is None else next(rest) for part in like)  # type: ignore[return-value]


def _numbers(
    data: jax.Array, form: Format, shape: tuple[int, ...], packed: bool, dtype: jnp.dtype = jnp.float32
) -> jax.Array:
    return decode(unpacked(data, form, shape, packed), form).astype(dtype)


def _per_column(grid: jax.Array, shape: tuple[int, int], block: tuple[int, int], transposed: bool) -> jax.Array:
    """Return values of the grid as ``(N, blocks)`` or ``(1, blocks)``: repeated over the columns that share them."""
    if not transposed:
        grid, shape, block = grid.T, (shape[1], shape[0]), (block[1], block[0])
    if grid.shape[0] in (1, shape[0]):
        return grid
    return jnp.repeat(grid, block[0], axis=0, total_repeat_length=shape[0])


def _dot(a: jax.Array, w: jax.Array, transposed: bool) -> jax.Array:
    contract = (((1,), (1 if transposed else 0,)), ((), ()))
    return lax.dot_general(a, w, contract, precision=lax.Precision.HIGHEST, preferred_element_type=a.dtype)


def _whole(
    a: jax.Array,
    data: jax.Array,
    scale: jax.Array,
    zero: jax.Array | None,
    overall: jax.Array | None,
    form: Format,
    shape: tuple[int, int],
    block: tuple[int, int],
    scale_dtype: str,
    packed: bool,
    transposed: bool,
) -> jax.Array:
    numbers = _numbers(data, form, shape, packed, a.dtype)
    if zero is not None:
        numbers = numbers - expand(zero.astype(a.dtype), shape, block)
    numbers = numbers * expand(effective_scale(scale, overall, scale_dtype=scale_dtype).astype(a.dtype), shape, block)
    return _dot(a, numbers, transposed)


def _tiled(
    a: jax.Array,
    data: jax.Array,
    scale: jax.Array,
    zero: jax.Array | None,
    overall: jax.Array | None,
    form: Format,
    shape: tuple[int, int],
    block: tuple[int, int],
    scale_dtype: str,
    packed: bool,
    transposed: bool,
) -> jax.Array:
    """Multiply by one tile of rows of the stored weight after the other."""
    if packed and shape[1] % 2:  # pairs lie across the ends of rows
        return _whole(a, data, scale, zero, overall, form, shape, block, scale_dtype, packed, transposed)
    if form.bits == 8 and not form.integer:
        data = lax.bitcast_convert_type(data, jnp.uint8)  # XLA would take slices of float8 out of loops, as float16
    effective = effective_scale(scale, overall, scale_dtype=scale_dtype).astype(a.dtype)
    one_block = shape[1 if transposed else 0] == block[1 if transposed else 0]  # along K
    after = one_block and zero is None  # then scaling the products is enough
    if packed and transposed:
        a = _even_odd(a)

    def per_element(grid: jax.Array, start: int | jax.Array, count: int) -> jax.Array:
        if packed and grid.shape[1] != 1:
            if block[1] % 2 == 0:  # then both values of a byte have one scale
                half = _tile_of(grid, start, count, (block[0], block[1] // 2), (count, shape[1] // 2))
                return jnp.concatenate((half, half), axis=1)
            return _even_odd(_tile_of(grid, start, count, block, (count, shape[1])))
        return _tile_of(grid, start, count, block, (count, shape[1]))

    def multiply(start: int | jax.Array, count: int) -> jax.Array:
        numbers = decode(_codes(_rows(data, start, count), form, packed), form).astype(a.dtype)
        if zero is not None:
            numbers = numbers - per_element(zero.astype(a.dtype), start, count)
        if not after:
            numbers = numbers * per_element(effective, start, count)
        # Of two floats too, the product packs its right-hand side: the rows are the smaller one.
        return _dot(numbers, a, True).T if transposed else _dot(_columns(a, start, count), numbers, False)

    total = _over_tiles(multiply, shape, block, a.dtype.itemsize, transposed)
    if packed and not transposed:
        total = _even_odd_back(total)
    return total * _per_column(effective, shape, block, transposed)[:, 0] if after else total


def _codes(data: jax.Array, form: Format, packed: bool) -> jax.Array:
    """Return codes, of packed ones those of all low halves of a row before those of its high halves.

    In this order they are two vector operations and a copy; interleaving them takes three times as long.
    """
    return jnp.concatenate(halves(data, signed=form.integer), axis=1) if packed else data


def _even_odd(x: jax.Array) -> jax.Array:
    """Bring columns into the order of `_codes`."""
    return jnp.concatenate((x[:, 0::2], x[:, 1::2]), axis=1)


def _even_odd_back(x: jax.Array) -> jax.Array:
    """Bring columns from the order of `_codes` back into their own."""
    return jnp.swapaxes(x.reshape(x.shape[0], 2, -1), 1, 2).reshape(x.shape)


def _over_tiles(
    multiply: Callable[[int | jax.Array, int], jax.Array],
    shape: tuple[int, int],
    block: tuple[int, int],
    itemsize: int,
    transposed: bool,
) -> jax.Array:
    """Call ``multiply(first row, rows)`` for tiles of the stored rows; join the results, or add them up along K."""
    rows = shape[0]
    unit = 1 if block[0] == rows else block[0]  # tiles hold whole blocks
    step = max(1, _TILE_BYTES // max(1, shape[1] * itemsize * unit)) * unit
    count = rows // step
    if count < 2:
        return multiply(0, rows)
    rest = rows - count * step
    starts = jnp.arange(count, dtype=jnp.int32) * step
    if transposed:
        # Tiles of the transposed result: its rows follow one another, and XLA leaves the order of the product alone.
        _, tiles = lax.scan(lambda carry, start: (carry, multiply(start, step).T), None, starts)
        joined = tiles.reshape(count * step, tiles.shape[2]).T
        return joined if not rest else jnp.concatenate((joined, multiply(count * step, rest)), axis=1)
    first = multiply(0, step) if not rest else multiply(count * step, rest)
    total, _ = lax.scan(lambda sums, start: (sums + multiply(start, step), None), first, starts if rest else starts[1:])
    return total


def _rows(x: jax.Array, start: int | jax.Array, count: int) -> jax.Array:
    return lax.dynamic_slice_in_dim(x, start, count, 0)


def _columns(x: jax.Array, start: int | jax.Array, count: int) -> jax.Array:
    return lax.dynamic_slice_in_dim(x, start, count, 1)


def _tile_of(
    grid: jax.Array, start: int | jax.Array, count: int, block: tuple[int, int], size: tuple[int, int]
) -> jax.Array:
    """Return the values of the grid for a tile of rows, in a shape that broadcasts to the tile."""
    if grid.shape[0] != 1:
        grid = _rows(grid, start // block[0], count // block[0])
    return expand(grid, size, (count if grid.shape[0] == 1 else block[0], block[1]))
