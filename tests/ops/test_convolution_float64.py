"""Gradients of three-dimensional convolutions in float64, which XLA on a CPU cannot compile from padded ones."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from rtx_jax.ops.convolution import conv3d


@pytest.mark.parametrize("groups", [1, 2])
def test_gradient_with_strides_and_padding(groups):
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(2, 4, 4, 3, 4)), rng.normal(size=(4, 4 // groups, 3, 2, 2))
    with jax.enable_x64(True):

        def convolve(x):
            return conv3d(x, w, stride=(2, 2, 2), padding=(1, 1, 1), groups=groups)

        out, pull = jax.vjp(jax.jit(convolve), jax.numpy.asarray(x))
        cotangent = rng.normal(size=out.shape)
        (gradient,) = pull(jax.numpy.asarray(cotangent))
    assert gradient.dtype == np.float64
    # A convolution is linear in x: <conv(x), c> is <x, gradient of c>.
    assert np.vdot(out, cotangent) == pytest.approx(np.vdot(x, gradient), rel=1e-12)
