"""Transforms of functions of Arrays: compilation, differentiation, batching, control flow, checks."""

from __future__ import annotations

from .autodiff import grad, hessian, jacfwd, jacobian, jacrev, jvp, linearize, value_and_grad, vjp
from .batching import vmap
from .checks import CheckedError, checked
from .compiled import Compiled, jit
from .compiles import CompileEvent, CompileReport, explain_compiles
from .control_flow import cond, fori_loop, scan, switch, while_loop
from .custom import CustomJvp, CustomVjp, checkpoint, custom_jvp, custom_vjp
from .fusion import FusionStatistics, fusion
from .inspect import inspect
from .sharding import shard_map

__all__ = [
    "CheckedError",
    "CompileEvent",
    "CompileReport",
    "Compiled",
    "FusionStatistics",
    "CustomJvp",
    "CustomVjp",
    "checked",
    "checkpoint",
    "cond",
    "custom_jvp",
    "custom_vjp",
    "explain_compiles",
    "fori_loop",
    "fusion",
    "grad",
    "hessian",
    "inspect",
    "jacfwd",
    "jacobian",
    "jacrev",
    "jit",
    "jvp",
    "linearize",
    "scan",
    "shard_map",
    "switch",
    "value_and_grad",
    "vjp",
    "vmap",
    "while_loop",
]
