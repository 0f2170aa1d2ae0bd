"""Kernels on raw `jax.Array`s, at the speed of the device: each folder is one operation, one implementation a file.

`rtx_jax.nn` has their faces on Arrays. Every function takes ``implementation="auto"``, or the name of one to force it.
"""

from __future__ import annotations

from .attention import flash_attention
from .cross_entropy import cross_entropy
from .decode import decode_attention, paged_attention
from .norm import layer_norm, rms_norm
from .rope import Frequencies, LinearScaling, Llama3Scaling, YarnScaling, rope, rope_frequencies
from .swiglu import swiglu

__all__ = [
    "Frequencies",
    "LinearScaling",
    "Llama3Scaling",
    "YarnScaling",
    "cross_entropy",
    "decode_attention",
    "flash_attention",
    "layer_norm",
    "paged_attention",
    "rms_norm",
    "rope",
    "rope_frequencies",
    "swiglu",
]
