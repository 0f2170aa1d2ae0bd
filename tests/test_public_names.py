"""Every public name is the standard's or one of the extras, each with its reason."""

from __future__ import annotations

import operator
import re
import types

import pytest

import rtx_jax as xp
from rtx_jax import _numpy_names

STANDARD = frozenset(
    """
    e inf nan newaxis pi
    bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 complex128
    arange asarray empty empty_like eye from_dlpack full full_like linspace meshgrid ones ones_like tril triu zeros
    zeros_like
    astype broadcast_arrays broadcast_shapes broadcast_to can_cast finfo iinfo isdtype result_type
    abs acos acosh add asin asinh atan atan2 atanh bitwise_and bitwise_left_shift bitwise_invert bitwise_or
    bitwise_right_shift bitwise_xor ceil clip conj copysign cos cosh divide equal exp expm1 floor floor_divide greater
    greater_equal hypot imag isfinite isinf isnan less less_equal log log1p log2 log10 logaddexp logical_and logical_not
    logical_or logical_xor maximum minimum multiply negative nextafter not_equal positive pow real reciprocal remainder
    round sign signbit sin sinh sqrt square subtract tan tanh trunc
    take take_along_axis
    matmul matrix_transpose tensordot vecdot
    concat expand_dims flip moveaxis permute_dims repeat reshape roll squeeze stack tile unstack
    argmax argmin count_nonzero nonzero searchsorted where
    isin unique_all unique_counts unique_inverse unique_values
    argsort sort
    cumulative_prod cumulative_sum max mean min prod std sum var
    all any diff
    __array_namespace_info__ linalg fft
    """.split()
)


def test_names_are_the_standard_s_or_extras():
    assert set(xp.__all__) == STANDARD | set(xp.EXTRAS)
    assert not STANDARD & set(xp.EXTRAS)
    assert len(xp.__all__) == len(set(xp.__all__))
    assert all(reason for reason in xp.EXTRAS.values())


def test_everything_listed_is_there():
    for name in xp.__all__:
        assert hasattr(xp, name)


def test_nothing_else_is_public():
    public = {
        name for name, value in vars(xp).items() if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }
    assert public - set(xp.__all__) == {"EXTRAS"}


def test_no_submodule_has_the_name_of_a_function():
    modules = {name for name, value in vars(xp).items() if isinstance(value, types.ModuleType)}
    assert not modules & (STANDARD - {"linalg", "fft"})


def test_names_of_numpy_say_what_to_write():
    for module, names in ((xp, _numpy_names.MAIN), (xp.linalg, _numpy_names.LINALG)):
        for name, instead in names.items():
            assert not hasattr(module, name)
            with pytest.raises(AttributeError) as found:
                getattr(module, name)
            assert instead in str(found.value)
            for called in re.findall(r"(?<![\w.])([a-z][\w.]*)\(", instead):
                assert operator.attrgetter(called)(module), instead
    with pytest.raises(AttributeError, match="Did you mean matmul"):
        xp.matmull


def test_the_version_of_the_standard_is_declared():
    assert xp.__array_api_version__ == "2025.12"
