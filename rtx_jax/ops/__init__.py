"""Operations beyond the standard on raw arrays: arrays by position, static parameters by keyword; all traceable.

`rtx_jax.nn` has the same operations on Array, with the whole documentation.
"""

from __future__ import annotations

from ..kernels.cross_entropy import cross_entropy
from ..kernels.decode import decode_attention, paged_attention
from .activation import (
    celu,
    elu,
    gelu,
    glu,
    hard_sigmoid,
    leaky_relu,
    log_softmax,
    mish,
    prelu,
    relu,
    selu,
    sigmoid,
    silu,
    silu_mul,
    softmax,
    softplus,
    swiglu,
    tanh,
)
from .adaptive_pooling import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    adaptive_max_pool1d,
    adaptive_max_pool2d,
    adaptive_max_pool3d,
)
from .attention import attention
from .convolution import (
    conv1d,
    conv2d,
    conv3d,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
)
from .dropout import dropout
from .fold import (
    fold,
    unfold,
)
from .index import (
    index_add,
    index_select,
)
from .interpolate import (
    interpolate,
)
from .linear import (
    embedding,
    linear,
)
from .norm import (
    batch_norm,
    group_norm,
    instance_norm,
    layer_norm,
    rms_norm,
)
from .pooling import (
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    max_pool1d,
    max_pool2d,
    max_pool3d,
)
from .rope import (
    rope,
    rope_tables,
)

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "attention",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "batch_norm",
    "celu",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "cross_entropy",
    "decode_attention",
    "dropout",
    "elu",
    "embedding",
    "fold",
    "gelu",
    "glu",
    "group_norm",
    "hard_sigmoid",
    "index_add",
    "index_select",
    "instance_norm",
    "interpolate",
    "layer_norm",
    "leaky_relu",
    "linear",
    "log_softmax",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "mish",
    "paged_attention",
    "prelu",
    "relu",
    "rms_norm",
    "rope",
    "rope_tables",
    "selu",
    "sigmoid",
    "silu",
    "silu_mul",
    "softmax",
    "softplus",
    "swiglu",
    "tanh",
    "unfold",
]
