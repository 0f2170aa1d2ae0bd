"""NumPy's ufuncs: which function stands for each, and those that the standard has no name for."""

from __future__ import annotations

import numpy as np

from .. import _interop
from .._array import Array, _door, binary
from ..core.dispatch import Op
from ..core.floating import floating_binary, floating_unary
from ..raw import ufuncs as _raw
from . import elementwise as ew
from .linear_algebra import matmul, vecdot
from .statistical import max as amax
from .statistical import min as amin
from .statistical import prod, sum
from .utility import all, any

__all__: list[str] = []


_cbrt = floating_unary(_door, Op("cbrt", _raw.cbrt))
_exp2 = floating_unary(_door, Op("exp2", _raw.exp2))
_deg2rad = floating_unary(_door, Op("deg2rad", _raw.deg2rad))
_rad2deg = floating_unary(_door, Op("rad2deg", _raw.rad2deg))
_logaddexp2 = floating_binary(_door, Op("logaddexp2", _raw.logaddexp2))
_heaviside = floating_binary(_door, Op("heaviside", _raw.heaviside))
_fmax, _fmin = binary(Op("fmax", _raw.fmax)), binary(Op("fmin", _raw.fmin))
_fmod, _gcd, _lcm = binary(Op("fmod", _raw.fmod)), binary(Op("gcd", _raw.gcd)), binary(Op("lcm", _raw.lcm))


def _divmod(x1: object, x2: object, /) -> tuple[Array, Array]:
    return ew.floor_divide(x1, x2), ew.remainder(x1, x2)  # type: ignore[arg-type]


def _modf(x: Array, /) -> tuple[Array, Array]:
    whole = ew.trunc(x)
    return ew.copysign(x - whole, x), whole


_interop.UFUNCS.update(
    {
        np.absolute: ew.abs,
        np.add: ew.add,
        np.arccos: ew.acos,
        np.arccosh: ew.acosh,
        np.arcsin: ew.asin,
        np.arcsinh: ew.asinh,
        np.arctan: ew.atan,
        np.arctan2: ew.atan2,
        np.arctanh: ew.atanh,
        np.bitwise_and: ew.bitwise_and,
        np.bitwise_or: ew.bitwise_or,
        np.bitwise_xor: ew.bitwise_xor,
        np.cbrt: _cbrt,
        np.ceil: ew.ceil,
        np.conjugate: ew.conj,
        np.copysign: ew.copysign,
        np.cos: ew.cos,
        np.cosh: ew.cosh,
        np.deg2rad: _deg2rad,
        np.degrees: _rad2deg,
        np.divide: ew.divide,
        np.divmod: _divmod,
        np.equal: ew.equal,
        np.exp: ew.exp,
        np.exp2: _exp2,
        np.expm1: ew.expm1,
        np.fabs: ew.abs,
        np.floor: ew.floor,
        np.floor_divide: ew.floor_divide,
        np.fmax: _fmax,
        np.fmin: _fmin,
        np.fmod: _fmod,
        np.gcd: _gcd,
        np.greater: ew.greater,
        np.greater_equal: ew.greater_equal,
        np.heaviside: _heaviside,
        np.hypot: ew.hypot,
        np.invert: ew.bitwise_invert,
        np.isfinite: ew.isfinite,
        np.isinf: ew.isinf,
        np.isnan: ew.isnan,
        np.lcm: _lcm,
        np.left_shift: ew.bitwise_left_shift,
        np.less: ew.less,
        np.less_equal: ew.less_equal,
        np.log: ew.log,
        np.log10: ew.log10,
        np.log1p: ew.log1p,
        np.log2: ew.log2,
        np.logaddexp: ew.logaddexp,
        np.logaddexp2: _logaddexp2,
        np.logical_and: ew.logical_and,
        np.logical_not: ew.logical_not,
        np.logical_or: ew.logical_or,
        np.logical_xor: ew.logical_xor,
        np.matmul: matmul,
        np.maximum: ew.maximum,
        np.minimum: ew.minimum,
        np.modf: _modf,
        np.multiply: ew.multiply,
        np.negative: ew.negative,
        np.nextafter: ew.nextafter,
        np.not_equal: ew.not_equal,
        np.positive: ew.positive,
        np.power: ew.pow,
        np.rad2deg: _rad2deg,
        np.radians: _deg2rad,
        np.reciprocal: ew.reciprocal,
        np.remainder: ew.remainder,
        np.right_shift: ew.bitwise_right_shift,
        np.rint: ew.round,
        np.sign: ew.sign,
        np.signbit: ew.signbit,
        np.sin: ew.sin,
        np.sinh: ew.sinh,
        np.sqrt: ew.sqrt,
        np.square: ew.square,
        np.subtract: ew.subtract,
        np.tan: ew.tan,
        np.tanh: ew.tanh,
        np.trunc: ew.trunc,
        np.vecdot: vecdot,
    }
)

_interop.REDUCTIONS.update(
    {
        np.add: sum,
        np.logical_and: all,
        np.logical_or: any,
        np.maximum: amax,
        np.minimum: amin,
        np.multiply: prod,
    }
)
