"""QuantScheme: names, shapes of blocks, storage, JSON."""

from __future__ import annotations

import json
import pickle

import pytest

from rtx_jax.errors import FormatError, InvalidArgument, InvalidDimension, ShapeMismatch
from rtx_jax.quant import PerBlock, PerChannel, PerTensor, QuantScheme, packed_shape

SCHEMES = [
    QuantScheme(),
    QuantScheme("int4", PerBlock((32,)), "bfloat16"),
    QuantScheme("int8", PerChannel(-1), symmetric=False),
    QuantScheme("fp4_e2m1", PerBlock((2, 16)), "e4m3", global_scale=True),
    QuantScheme("fp8_e5m2", PerChannel(1), "e8m0", store="native"),
]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_it_hashes_pickles_and_travels_as_json(scheme: QuantScheme) -> None:
    again = QuantScheme.from_json(scheme.to_json())
    assert again == scheme and hash(again) == hash(scheme)
    assert pickle.loads(pickle.dumps(scheme)) == scheme
    assert len({*SCHEMES, again}) == len(SCHEMES)


def test_json_is_readable() -> None:
    assert json.loads(SCHEMES[1].to_json()) == {
        "value": "int4",
        "granularity": {"kind": "per_block", "shape": [32]},
        "scale_dtype": "bfloat16",
        "global_scale": False,
        "store": "packed",
        "symmetric": True,
    }


def test_it_is_frozen() -> None:
    with pytest.raises(AttributeError):
        QuantScheme().value = "int4"  # type: ignore[misc]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"granularity": {"kind": "per_row"}}', '{"granularity": 3}'])
def test_other_json_is_refused(text: str) -> None:
    with pytest.raises(FormatError, match="to_json"):
        QuantScheme.from_json(text)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"value": "int3"}, "value"),
        ({"value": 8}, "value"),
        ({"granularity": 32}, "granularity"),
        ({"scale_dtype": "float16"}, "scale_dtype"),
        ({"scale_dtype": "e4m3"}, "global_scale=True"),
        ({"store": "dense"}, "store"),
        ({"symmetric": 1}, "symmetric"),
        ({"value": "fp8_e4m3", "symmetric": False}, "zero point"),
    ],
)
def test_bad_fields(arguments: dict[str, object], named: str) -> None:
    with pytest.raises(InvalidArgument, match=named):
        QuantScheme(**arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", [(), (0,), (-1,), [32], 32, (1.5,)])
def test_bad_blocks(shape: object) -> None:
    with pytest.raises(InvalidArgument, match="PerBlock"):
        PerBlock(shape)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("granularity", "shape", "scales"),
    [
        (PerTensor(), (6, 8), (1, 1)),
        (PerTensor(), (), ()),
        (PerTensor(), (0, 4), (1, 1)),
        (PerChannel(0), (6, 8), (6, 1)),
        (PerChannel(-1), (6, 8), (1, 8)),
        (PerBlock((4,)), (6, 8), (6, 2)),
        (PerBlock((3, 8)), (6, 8), (2, 1)),
        (PerBlock((4,)), (2, 6, 8), (2, 6, 2)),
    ],
)
def test_shape_of_the_scales(granularity: object, shape: tuple[int, ...], scales: tuple[int, ...]) -> None:
    assert QuantScheme("int8", granularity).scale_shape(shape) == scales  # type: ignore[arg-type]


def test_schemes_that_do_not_fit() -> None:
    with pytest.raises(ShapeMismatch, match=r"\(1, 3\).*\(6, 8\)") as caught:
        QuantScheme("int8", PerBlock((3,))).scale_shape((6, 8))
    assert caught.value.got_shape == (6, 8)  # type: ignore[attr-defined]
    with pytest.raises(InvalidDimension):
        QuantScheme("int8", PerBlock((2, 2))).scale_shape((8,))
    with pytest.raises(InvalidDimension):
        QuantScheme("int8", PerChannel(2)).scale_shape((6, 8))


@pytest.mark.parametrize(
    ("scheme", "shape", "count"),
    [
        (QuantScheme("int8"), (3, 5), 15 + 4),
        (QuantScheme("int4"), (3, 5), 8 + 4),
        (QuantScheme("int4", store="native"), (3, 5), 15 + 4),
        (QuantScheme("int4", PerBlock((4,)), "bfloat16", symmetric=False), (3, 8), 12 + 6 * 3),
        (QuantScheme("fp4_e2m1", PerBlock((16,)), "e4m3", True), (2, 32), 32 + 4 + 4),
        (QuantScheme("fp8_e4m3", PerChannel(0), "e8m0"), (3, 8), 24 + 3),
        (QuantScheme("int8"), (0, 5), 4),
    ],
)
def test_storage_bytes(scheme: QuantScheme, shape: tuple[int, ...], count: int) -> None:
    assert scheme.storage_bytes(shape) == count


@pytest.mark.parametrize(
    ("shape", "packed"), [((3, 8), (3, 4)), ((3, 5), (8,)), ((), (1,)), ((5,), (3,)), ((0,), (0,))]
)
def test_packed_shape(shape: tuple[int, ...], packed: tuple[int, ...]) -> None:
    assert packed_shape(shape) == packed


def test_transposed_schemes() -> None:
    assert QuantScheme("int8", PerChannel(0)).transposed(2).granularity == PerChannel(1)
    assert QuantScheme("int8", PerChannel(-1)).transposed(2).granularity == PerChannel(0)
    assert QuantScheme("int8", PerChannel(0)).transposed(3).granularity == PerChannel(0)
    assert QuantScheme("int8", PerBlock((32,))).transposed(2).granularity == PerBlock((32, 1))
    assert QuantScheme("int8").transposed(2) == QuantScheme("int8")
