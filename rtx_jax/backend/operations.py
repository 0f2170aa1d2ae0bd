"""The operations of a backend: their operands and their parameters, in the order in which `Backend._apply` gets them.

An operand that may be absent ends in ``?`` and arrives as None. Parameters are hashable Python values. `rtx_jax.ops`,
the NumPy reference and `Backend` use the same names.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["MANAGEMENT", "OPERATIONS", "PRIMITIVES", "Operation"]


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation.

    Attributes
    ----------
    name
        Key of the tables of functions.
    operands
        Names of the tensors, given by position; ``?`` marks one that may be None.
    params
        Names of the static parameters, given by keyword.
    group
        The group of methods that it belongs to.
    """

    name: str
    operands: tuple[str, ...]
    params: tuple[str, ...]
    group: str


_GROUPS: dict[str, dict[str, tuple[str, str]]] = {
    "creation": {
        "full": ("", "shape value dtype device"),
        "rand": ("key", "shape dtype device"),
        "randn": ("key", "shape dtype device"),
    },
    "elementwise": {
        **dict.fromkeys(("add", "sub", "mul", "div", "maximum", "minimum"), ("lhs rhs", "")),
        **dict.fromkeys(("neg", "exp", "log", "sqrt", "abs", "sin", "cos"), ("x", "")),
        "pow": ("x", "exp"),
        "clamp": ("x", "min max"),
        "gt_scalar": ("x", "v"),
        "cast": ("x", "dtype"),
    },
    "activation": {
        **dict.fromkeys(("relu", "sigmoid", "tanh", "silu", "mish", "selu", "hard_sigmoid"), ("x", "")),
        "gelu": ("x", "approximate"),
        "leaky_relu": ("x", "negative_slope"),
        "elu": ("x", "alpha"),
        "celu": ("x", "alpha"),
        "softplus": ("x", "beta threshold"),
        "prelu": ("x weight", ""),
        "silu_mul": ("gate up", ""),
        "glu": ("x", "dim"),
        "swiglu": ("x", "dim"),
        "softmax": ("x", "dim"),
        "log_softmax": ("x", "dim"),
    },
    "contraction": {
        "matmul": ("lhs rhs", "precision"),
        "bmm": ("lhs rhs", "precision"),
        "linear": ("x weight bias?", "precision"),
    },
    "reduction": {
        **dict.fromkeys(("sum", "mean", "max", "min"), ("x", "")),
        "var": ("x", "correction"),
        **dict.fromkeys(("sum_dim", "mean_dim", "max_dim", "min_dim"), ("x", "dim")),
        "var_dim": ("x", "dim correction"),
    },
    "shape": {
        "reshape": ("x", "shape"),
        "permute": ("x", "dims"),
        "transpose": ("x", ""),
        "swap_dims": ("x", "dim1 dim2"),
    },
    "index": {
        "index_select": ("x indices", "mode"),
        "index_add": ("x indices", "num_rows deterministic mode"),
        "embedding": ("indices weight", "mode"),
    },
    "normalization": {
        "layer_norm": ("x weight? bias?", "eps"),
        "rms_norm": ("x weight?", "eps"),
        "group_norm": ("x weight? bias?", "num_groups eps"),
        "instance_norm": ("x weight? bias?", "eps"),
        "batch_norm": ("x running_mean? running_var? weight? bias?", "training momentum eps"),
    },
    "attention": {
        "attention": (
            "query key value mask? bias? segment_ids? key_segment_ids? query_lengths? key_lengths? sinks? q_offset?",
            "causal window softcap scale layout return_lse precision",
        ),
        "rope": ("x cos sin positions?", "layout seq_axis rotary_dim"),
    },
    "convolution": {
        **{f"conv{n}d": ("x weight bias?", "stride padding dilation groups dtype precision") for n in (1, 2, 3)},
        **{
            f"conv_transpose{n}d": ("x weight bias?", "stride padding output_padding groups dilation dtype precision")
            for n in (1, 2, 3)
        },
    },
    "pooling": {
        **{f"max_pool{n}d": ("x", "kernel_size stride padding dilation ceil_mode") for n in (1, 2, 3)},
        **{f"avg_pool{n}d": ("x", "kernel_size stride padding ceil_mode count_include_pad") for n in (1, 2, 3)},
        **{f"adaptive_{kind}_pool{n}d": ("x", "output_size") for kind in ("avg", "max") for n in (1, 2, 3)},
        "interpolate": ("x", "size scale_factor mode align_corners recompute_scale_factor"),
        "unfold": ("x", "kernel_size dilation padding stride"),
        "fold": ("x", "output_size kernel_size dilation padding stride"),
    },
}

OPERATIONS: dict[str, Operation] = {
    name: Operation(name, tuple(operands.split()), tuple(params.split()), group)
    for group, rows in _GROUPS.items()
    for name, (operands, params) in rows.items()
}
"""Every operation by its name."""

MANAGEMENT: dict[str, tuple[str, ...]] = {
    "from_data": ("array", "device"),
    "to_data": ("x",),
    "device": ("x",),
    "to_device": ("x", "device"),
    "sync": ("device",),
}
"""What the table of a backend holds beside operations, with the parameters; all are given by position."""

PRIMITIVES: frozenset[str] = frozenset(
    """from_data to_data device to_device sync full add mul div exp log sin pow maximum gt_scalar sum_dim max_dim matmul
    reshape permute index_select index_add conv2d""".split()
)
"""The functions that a backend must have, beside its name; every other operation has a default body made of them."""
