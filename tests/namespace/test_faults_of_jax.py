"""What plain JAX gets wrong, so that code here exists for it. A test that passes asks for that code to be removed."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

inf, nan = math.inf, math.nan


def at(function, *operands):
    with jax.enable_x64(True):
        return np.asarray(jax.jit(function)(*(np.array([x]) for x in operands)))[0]


def same(got, want):
    got, want = complex(got), complex(want)
    return all(
        math.isnan(w) if math.isnan(g) else g == w and math.copysign(1, g) == math.copysign(1, w)
        for g, w in ((got.real, want.real), (got.imag, want.imag))
    )


@pytest.mark.xfail(strict=True, reason="JAX or XLA; see the comment at the function of this name in rtx_jax/raw")
@pytest.mark.parametrize(
    ("name", "got", "want"),
    [
        ("remainder", lambda: at(jnp.remainder, -4.0, 2.0), 0.0),
        ("floor_divide", lambda: at(jnp.floor_divide, inf, 2.0), inf),
        ("floor_divide", lambda: at(jnp.floor_divide, -0.0, 3.0), -0.0),
        ("floor_divide", lambda: at(jnp.floor_divide, 1.0, -inf), -0.0),
        ("integer_power", lambda: at(jnp.power, 2, 64), 0),
        ("nextafter", lambda: at(jnp.nextafter, 0.0, 1e-310), 5e-324),
        ("sign", lambda: at(jnp.sign, -0.0), 0.0),
        ("sign", lambda: at(jnp.sign, complex(1.0, inf)), 1j),
        ("astype", lambda: at(lambda x: jax.lax.convert_element_type(x, bool), 1j), True),
        ("exp", lambda: at(jnp.exp, complex(-inf, nan)), 0.0),
        ("expm1", lambda: round(float(at(jnp.expm1, complex(-60.0, 1.0)).imag) * 1e27, 2), 7.37),
        ("log", lambda: at(jnp.log, complex(inf, nan)), complex(inf, nan)),
        ("sqrt", lambda: at(jnp.sqrt, complex(-1.0, -0.0)), complex(0.0, -1.0)),
        ("sinh", lambda: at(jnp.sinh, complex(0.0, inf)), complex(0.0, nan)),
        ("tanh", lambda: at(jnp.tanh, complex(0.0, inf)), complex(0.0, nan)),
        ("asinh", lambda: at(jnp.arcsinh, complex(nan, 0.0)), complex(nan, 0.0)),
        ("acos", lambda: at(jnp.arccos, complex(0.0, nan)), complex(math.pi / 2, nan)),
        ("atanh", lambda: at(jnp.arctanh, complex(nan, 2.0)), complex(nan, nan)),
        ("pow", lambda: at(jnp.power, 0j, 2 + 1j), 0.0),
        ("abs", lambda: jax.grad(jnp.abs)(0.0), 0.0),
        ("clip", lambda: jax.grad(lambda x: jnp.clip(x, 0.0, 1.0))(1.0), 1.0),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
@pytest.mark.filterwarnings("ignore:Casting complex values")
def test_plain_jax_is_right(name, got, want):
    assert same(got(), want)
