"""QuantScheme: how numbers are quantized, as a value that hashes, compares and travels as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from ..checks.choices import is_one_of
from ..checks.parameters import axis as checked_axis
from ..checks.quant import SCALE_BYTES, Format, as_format, block_grid, full_block
from ..errors import FormatError, InvalidArgument

__all__ = ["Calibration", "Granularity", "PerBlock", "PerChannel", "PerTensor", "QuantScheme"]

Value: TypeAlias = Literal["int8", "int4", "fp8_e4m3", "fp8_e5m2", "fp4_e2m1"]
"""Formats of quantized values."""

ScaleType: TypeAlias = Literal["float32", "bfloat16", "e8m0", "e4m3"]
"""Types of scales."""

Store: TypeAlias = Literal["packed", "native"]
"""Whether 4-bit values lie two in a byte, or one in each."""

Calibration: TypeAlias = Literal["minmax", "absmax", "absmean", "mse"]
"""How the range of a block is found."""


@dataclass(frozen=True, slots=True)
class PerTensor:
    """One scale for the whole array."""


@dataclass(frozen=True, slots=True)
class PerChannel:
    """One scale for each index along an axis.

    Attributes
    ----------
    axis
        The axis; negative ones count from the end.
    """

    axis: int = 0

    def __post_init__(self) -> None:
        if type(self.axis) is not int:
            raise InvalidArgument(
                "PerChannel", "axis", got=repr(self.axis), wanted="an int", arg="axis", reason="not an int"
            )


@dataclass(frozen=True, slots=True)
class PerBlock:
    """One scale for each block of the array.

    Attributes
    ----------
    shape
        Sizes of a block along the last axes, at least 1; along the axes before them a block has size 1.
        ``PerBlock((32,))`` is one scale for 32 neighbours along the last axis. Leading ones are dropped.
    """

    shape: tuple[int, ...] = (32,)

    def __post_init__(self) -> None:
        shape = self.shape
        if not isinstance(shape, tuple) or not shape or any(type(n) is not int or n < 1 for n in shape):
            raise InvalidArgument(
                "PerBlock",
                "shape",
                got=repr(shape),
                wanted="a tuple of sizes of at least 1",
                arg="shape",
                reason="sizes",
            )
        first = next((i for i, n in enumerate(shape) if n != 1), len(shape) - 1)
        object.__setattr__(self, "shape", shape[first:])


Granularity: TypeAlias = PerTensor | PerChannel | PerBlock
"""Which elements share a scale."""


@dataclass(frozen=True, slots=True)
class QuantScheme:
    """How an array is quantized: format, granularity, scales.

    Parameters
    ----------
    value
        Format of the values: ``"int8"``, ``"int4"``, ``"fp8_e4m3"``, ``"fp8_e5m2"`` or ``"fp4_e2m1"``.
    granularity
        Which elements share a scale.
    scale_dtype
        Type of the scales, which are rounded up to it: ``"float32"``, ``"bfloat16"``, ``"e8m0"`` (powers of two) or
        ``"e4m3"``. The last has so small a range that it needs `global_scale`.
    global_scale
        Whether one float32 scale of the whole array stands before the scales of the blocks, as in NVFP4.
    store
        ``"packed"`` puts two 4-bit values into a byte, ``"native"`` one.
    symmetric
        Whether the range is symmetric about zero (-127..127, -7..7). Else integers use their whole range and each
        block has a zero point, an integer that stands for 0.

    Raises
    ------
    InvalidArgument
        A name does not exist, floats are asymmetric, or e4m3 scales come without the global one.

    Examples
    --------
    >>> from rtx_jax.quant import PerBlock, QuantScheme
    >>> scheme = QuantScheme("int4", PerBlock((32,)), "bfloat16")
    >>> QuantScheme.from_json(scheme.to_json()) == scheme
    True
    >>> scheme.storage_bytes((4096, 4096))  # half a byte each, and a scale for each 32
    9437184
    """

    value: Value = "int8"
    granularity: Granularity = PerTensor()
    scale_dtype: ScaleType = "float32"
    global_scale: bool = False
    store: Store = "packed"
    symmetric: bool = True

    def __post_init__(self) -> None:
        form = as_format("QuantScheme", self.value)
        if not isinstance(self.granularity, PerTensor | PerChannel | PerBlock):
            raise _invalid("granularity", self.granularity, "PerTensor(), PerChannel(axis) or PerBlock(shape)")
        _one_of("scale_dtype", self.scale_dtype, tuple(SCALE_BYTES))
        _one_of("store", self.store, get_args(Store))
        for name in ("global_scale", "symmetric"):
            if not isinstance(getattr(self, name), bool):
                raise _invalid(name, getattr(self, name), "True or False")
        if not self.symmetric and not form.integer:
            raise _invalid("symmetric", False, f"True for {self.value}", "Floats have no zero point.")
        if self.scale_dtype == "e4m3" and not self.global_scale:
            raise _invalid("scale_dtype", "e4m3", "global_scale=True beside it", "448 is the greatest e4m3 number.")

    @property
    def format(self) -> Format:
        """The format of the values: bits, range, significand."""
        return as_format("QuantScheme", self.value)

    @property
    def packed(self) -> bool:
        """Whether two values lie in a byte."""
        return self.store == "packed" and self.format.bits == 4

    def block(self, shape: tuple[int, ...], /) -> tuple[int, ...]:
        """Return the sizes of a block in an array of that shape, one for each axis.

        Raises
        ------
        InvalidDimension
            The array lacks the axis, or has fewer axes than the block.
        ShapeMismatch
            The block does not divide the shape.
        """
        if isinstance(self.granularity, PerChannel):
            axis = checked_axis("quantize", self.granularity.axis, len(shape), "axis")
            return tuple(1 if i == axis else n for i, n in enumerate(shape))
        if isinstance(self.granularity, PerBlock):
            block = full_block("quantize", shape, self.granularity.shape)
            block_grid("quantize", shape, block)
            return block
        return shape

    def scale_shape(self, shape: tuple[int, ...], /) -> tuple[int, ...]:
        """Return the shape of the scales of an array of that shape: the number of blocks along each axis."""
        return block_grid("quantize", shape, self.block(shape))

    def storage_bytes(self, shape: tuple[int, ...], /) -> int:
        """Return how many bytes an array of that shape takes.

        The values take ``ceil(n * bits / 8)``, each block its scale and, if not symmetric, one byte for the zero
        point; the global scale takes 4.
        """
        count, blocks = math.prod(shape), math.prod(self.scale_shape(shape))
        bits = 8 if self.store == "native" else self.format.bits
        per_block = SCALE_BYTES[self.scale_dtype] + (0 if self.symmetric else 1)
        return (count * bits + 7) // 8 + blocks * per_block + (4 if self.global_scale else 0)

    def transposed(self, ndim: int, /) -> QuantScheme:
        """Return the scheme of the array with its last two axes exchanged."""
        grains = self.granularity
        if isinstance(grains, PerChannel):
            axis = checked_axis("quantize", grains.axis, ndim, "axis")
            grains = PerChannel({ndim - 1: ndim - 2, ndim - 2: ndim - 1}.get(axis, axis))
        elif isinstance(grains, PerBlock):
            shape = (1,) * (2 - len(grains.shape)) + grains.shape
            grains = PerBlock((*shape[:-2], shape[-1], shape[-2]))
        return QuantScheme(self.value, grains, self.scale_dtype, self.global_scale, self.store, self.symmetric)

    def to_json(self) -> str:
        """Return the scheme as a JSON object."""
        grains = self.granularity
        if isinstance(grains, PerChannel):
            described: dict[str, object] = {"kind": "per_channel", "axis": grains.axis}
        elif isinstance(grains, PerBlock):
            described = {"kind": "per_block", "shape": list(grains.shape)}
        else:
            described = {"kind": "per_tensor"}
        return json.dumps(
            {
                "value": self.value,
                "granularity": described,
                "scale_dtype": self.scale_dtype,
                "global_scale": self.global_scale,
                "store": self.store,
                "symmetric": self.symmetric,
            }
        )

    @classmethod
    def from_json(cls, text: str, /) -> QuantScheme:
        """Return the scheme that `to_json` wrote.

        Raises
        ------
        FormatError
            The text is no such object.
        InvalidArgument
            A field has a value that no scheme has.
        """
        try:
            fields = json.loads(text)
            described = fields.pop("granularity")
            grains = _granularity(described)
            return cls(granularity=grains, **fields)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            if isinstance(error, InvalidArgument):
                raise
            raise FormatError(
                "QuantScheme.from_json", "text", got=text, wanted="what QuantScheme.to_json returned"
            ) from error


def _granularity(described: Mapping[str, object]) -> Granularity:
    kind = described["kind"]
    if kind == "per_channel":
        return PerChannel(described["axis"])  # type: ignore[arg-type]
    if kind == "per_block":
        return PerBlock(tuple(described["shape"]))  # type: ignore[arg-type]
    if kind == "per_tensor":
        return PerTensor()
    raise KeyError(kind)


def _one_of(name: str, value: object, names: tuple[str, ...]) -> None:
    if not is_one_of(value, names):
        raise _invalid(name, value, "one of " + ", ".join(map(repr, names)))


def _invalid(name: str, value: object, wanted: str, remedy: str = "") -> InvalidArgument:
    return InvalidArgument(
        "QuantScheme", name, got=repr(value), wanted=wanted, remedy=remedy, arg=name, reason="no such scheme"
    )
