"""Operations of neural networks beyond the standard, on Array.

Losses and optimizers are those of optax, which work on Arrays as they are.

Importing this module binds its functions only; no device starts.
"""

from __future__ import annotations

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
from .attention import attention
from .dropout import dropout
from .index import (
    index_add,
    index_select,
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
from .rope import (
    rope,
    rope_tables,
)

__all__ = [
    "attention",
    "batch_norm",
    "celu",
    "dropout",
    "elu",
    "embedding",
    "gelu",
    "glu",
    "group_norm",
    "hard_sigmoid",
    "index_add",
    "index_select",
    "instance_norm",
    "layer_norm",
    "leaky_relu",
    "linear",
    "log_softmax",
    "mish",
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
]
