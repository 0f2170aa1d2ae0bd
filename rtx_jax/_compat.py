"""The only file that knows JAX versions and private modules of JAX.

Supported: JAX 0.10.2 to the newest release. Everything here exists in both unless a line says otherwise.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

import jax
import numpy as np
from jax._src import config as _jax_config
from jax._src import core as _jax_core
from jax._src import mesh as _jax_mesh
from jax._src.array import ArrayImpl
from jax._src.lib import xla_client as _xla_client  # type: ignore[attr-defined]

__all__ = [
    "EAGER_TRACE",
    "JAX_VERSION",
    "SLICES_BFLOAT16",
    "X64_UNSET",
    "ArrayImpl",
    "ClosedJaxpr",
    "Primitive",
    "Split",
    "abstract_device",
    "apply_jaxpr",
    "CudnnCall",
    "cudnn_attention",
    "cudnn_attention_gradients",
    "current_trace",
    "Exported",
    "explicit_axes",
    "exported_of",
    "guard_dot",
    "has_gil",
    "hidden_operand",
    "in_trace",
    "is_partitioned",
    "is_x64",
    "lowering_target",
    "place_default",
    "place_like",
    "restore_x64",
    "result_avals",
    "split_hidden",
    "running_trace",
    "swap_x64",
    "trace_parent",
    "trace_context",
    "trace_is_clean",
    "unwritten_cache",
    "triton_parameters",
    "vary_alike",
    "x64",
]

if TYPE_CHECKING:
    from jax.extend.core import ClosedJaxpr
else:
    # Newer releases have one class for both.
    ClosedJaxpr = getattr(_jax_core, "ClosedJaxpr", _jax_core.Jaxpr)
JAX_VERSION: tuple[int, ...] = tuple(int(part) for part in jax.__version__.split(".")[:3] if part.isdigit())

SLICES_BFLOAT16 = JAX_VERSION >= (0, 11)
"""Whether XLA on CPU slices bfloat16 as it is; before, it widened the whole array first, in front of a loop."""

# `jax.enable_x64(True)` costs 0.4 to 0.65 us a call, a swap of its thread-local value 0.07 us. The hot path uses
# `previous = X64_UNSET; try: previous = swap_x64(True); ... finally: restore_x64(previous)`. The swap is inside of
# the try because Ctrl-C raises KeyboardInterrupt when a call returns, before its result has a name: x64 would then
# stay on in the thread for good. The process's own setting is what the outermost swap returns nearly always.
X64_UNSET: object = _jax_config.config_ext.unset
swap_x64 = _jax_config.enable_x64.swap_local
restore_x64 = _jax_config.enable_x64.set_local

# `jax.extend.core` has these names too, but importing `jax.extend` takes as long as all of this package.
# JAX 0.12 made one class of the two.
_ClosedJaxpr: Any = getattr(_jax_core, "ClosedJaxpr", _jax_core.Jaxpr)

trace_is_clean = _jax_core.trace_state_clean
# The same for a hot path: nothing is traced in this thread while `running_trace.value` is `EAGER_TRACE` or None.
running_trace = _jax_core.trace_state_strong_ref
EAGER_TRACE = _jax_core.eval_trace
# All of JAX's settings that a trace depends on, x64 and named axes among them; hashable.
trace_context = _jax_config.trace_context


def unwritten_cache() -> contextlib.AbstractContextManager[object]:
    """Keep what the body compiles in this thread out of JAX's compilation cache on disk."""
    context: contextlib.AbstractContextManager[object] = _jax_config.persistent_cache_min_compile_time_secs(1e9)
    return context


@contextlib.contextmanager
def x64(enabled: bool = True) -> Iterator[None]:
    """Run the body with 64-bit types on (or off) in this thread; safe to nest, unlike one reused JAX object."""
    previous = X64_UNSET
    try:
        previous = swap_x64(enabled)
        yield
    finally:
        restore_x64(previous)


def place_like(host: np.ndarray, like: jax.Array) -> jax.Array:
    """Put private host memory on the one device of `like`, committed as it is. Nobody may touch `host` afterwards.

    `jax.device_put` takes ten times as long.
    """
    sharding = like.sharding
    aval = jax.core.ShapedArray(host.shape, host.dtype)
    # Without enable_x64 the buffer is narrowed under a 64-bit type, and the next call fails on its size.
    placed: jax.Array = _xla_client.batched_device_put(
        aval, sharding, [host], list(sharding.device_set), like.committed, enable_x64=True
    )
    return placed


def place_default(host: np.ndarray) -> jax.Array:
    """Put private host memory on the default device, uncommitted. Nobody may touch `host` afterwards.

    Needs no compiled call, and takes half the time of one.
    """
    device = jax.config.jax_default_device  # type: ignore[attr-defined]
    if device is not None:
        placed: jax.Array = jax.device_put(host)
        return placed
    sharding, devices = _default_placement()
    placed = _xla_client.batched_device_put(
        jax.core.ShapedArray(host.shape, host.dtype), sharding, [host], devices, False, enable_x64=True
    )
    return placed


@functools.cache
def _default_placement() -> tuple[jax.sharding.Sharding, list[jax.Device]]:
    device = jax.local_devices()[0]
    return jax.sharding.SingleDeviceSharding(device), [device]


def is_x64() -> bool:
    """Whether 64-bit types are on in this thread."""
    enabled: bool = _jax_config.enable_x64.value
    return enabled


def current_trace() -> object | None:
    """Return JAX's innermost active trace of this thread, or None when nothing is being traced."""
    if _jax_core.trace_state_clean():
        return None
    trace: object | None = _jax_core.trace_ctx.trace
    return trace


def abstract_device(kind: str, cores: int | None, platform: str) -> object:
    """Return the stand-in for a device that is not here, for the abstract mesh around a trace or a lowering.

    Parameters
    ----------
    kind
        The device kind, as ``"NVIDIA H200"``.
    cores
        Multiprocessors of a GPU, tensor cores of a TPU.
    platform
        ``"gpu"`` or ``"tpu"``.
    """
    return _jax_mesh.AbstractDevice(kind, cores, platform)


def has_gil() -> bool:
    """Say whether this interpreter runs one thread at a time (reference counts are exact only then)."""
    probe = getattr(sys, "_is_gil_enabled", None)
    return True if probe is None else bool(probe())


# --- transforms -----------------------------------------------------------------------------------------------------
#
# A traced function may need an operand that its caller did not pass: an Array that it reads from its surroundings, or
# a random key. A primitive without operands stands for it in the trace; afterwards its equations become inputs.

_hidden_p = _jax_core.Primitive("rtx_jax_hidden")


@_hidden_p.def_abstract_eval  # type: ignore[untyped-decorator]
def _hidden_aval(*, aval: object, index: int) -> object:
    del index
    return aval


def trace_parent(trace: object) -> object | None:
    """Return the trace around `trace`, or None."""
    return getattr(trace, "parent_trace", None)


def in_trace(trace: object | None) -> contextlib.AbstractContextManager[object]:
    """Run the body as part of `trace`, an active one, whichever trace is innermost; of no trace when None."""
    context: contextlib.AbstractContextManager[object] = (
        jax.ensure_compile_time_eval() if trace is None else _jax_core.set_current_trace(trace)
    )
    return context


def hidden_operand(trace: object, aval: object, index: int) -> jax.Array:
    """Return a new tracer of `trace`, whichever trace is innermost now; see `split_hidden`."""
    with in_trace(trace):
        tracer: jax.Array = _hidden_p.bind(aval=aval, index=index)
    return tracer


@dataclasses.dataclass(frozen=True, slots=True)
class Split:
    """A traced function whose hidden operands became trailing inputs.

    Attributes
    ----------
    closed, function
        The jaxpr, and the same as a function of the inputs and then the hidden operands; it returns a sequence.
    indices
        The index of each hidden operand, in the order in which the function takes them.
    pure
        False when the function holds tracers of an outer trace, so that it must not be kept.
    wide
        Whether 64-bit types occur anywhere in it. It must be compiled with x64 on then: rules that lower an operation
        trace JAX functions, which would truncate.
    """

    closed: ClosedJaxpr
    function: Callable[..., Sequence[jax.Array]]
    indices: list[int]
    pure: bool
    wide: bool


def split_hidden(closed: ClosedJaxpr) -> Split:
    """Turn the hidden operands of a traced function into trailing inputs."""
    jaxpr = closed.jaxpr
    hidden = [eqn for eqn in jaxpr.eqns if eqn.primitive is _hidden_p]
    if hidden:
        jaxpr = jaxpr.replace(
            invars=[*jaxpr.invars, *(eqn.outvars[0] for eqn in hidden)],
            eqns=[eqn for eqn in jaxpr.eqns if eqn.primitive is not _hidden_p],
            debug_info=jaxpr.debug_info.with_unknown_names(),
        )
        closed = ClosedJaxpr(jaxpr, closed.consts)
    return Split(
        closed=closed,
        function=_jax_core.jaxpr_as_fun(closed),
        indices=[eqn.params["index"] for eqn in hidden],
        pure=not any(isinstance(const, jax.core.Tracer) for const in closed.consts),
        wide=_is_wide(jaxpr),
    )


def apply_jaxpr(closed: ClosedJaxpr, consts: Sequence[object], operands: Sequence[object]) -> Sequence[jax.Array]:
    """Run a traced function on operands, with other values for its constants."""
    results: Sequence[jax.Array] = _jax_core.eval_jaxpr(closed.jaxpr, consts, *operands)
    return results


if TYPE_CHECKING:
    from jax.export import Exported
else:
    Exported = object


def exported_of(
    name: str,
    module: bytes,
    operands: Sequence[jax.core.ShapedArray],
    results: Sequence[jax.core.ShapedArray],
    *,
    platforms: Sequence[str],
    calling_convention: int,
    kept: Sequence[int],
    uses_global_constants: bool,
) -> Exported:
    """Return what ``jax.export.deserialize`` would, for a pure function of arrays on one device.

    That needs the package flatbuffers, for facts that any format of files can hold.
    """
    import jax.export

    fields: dict[str, Any] = {
        "fun_name": name,
        "in_tree": jax.tree.structure((tuple(operands), {})),
        "in_avals": tuple(operands),
        "out_tree": jax.tree.structure(list(results)),
        "out_avals": tuple(results),
        "_has_named_shardings": False,  # until JAX 0.11
        "_in_named_shardings": (None,) * len(operands),
        "_out_named_shardings": (None,) * len(results),
        "in_shardings_hlo": (None,) * len(operands),
        "out_shardings_hlo": (None,) * len(results),
        "nr_devices": 1,
        "platforms": tuple(platforms),
        "ordered_effects": (),
        "unordered_effects": (),
        "disabled_safety_checks": (),
        "mlir_module_serialized": module,
        "calling_convention_version": calling_convention,
        "module_kept_var_idx": tuple(kept),
        "uses_global_constants": uses_global_constants,
        "_get_vjp": None,
    }
    names = {field.name for field in dataclasses.fields(jax.export.Exported)}
    return jax.export.Exported(**{key: value for key, value in fields.items() if key in names})


def _is_wide(jaxpr: _jax_core.Jaxpr) -> bool:
    def any_of(variables: Sequence[_jax_core.Var]) -> bool:
        return any(getattr(getattr(var.aval, "dtype", None), "itemsize", 0) >= 8 for var in variables)

    return any_of([*jaxpr.invars, *jaxpr.constvars]) or any(
        any_of(eqn.outvars) or any(_is_wide(inner) for inner in _jax_core.jaxprs_in_params(eqn.params))
        for eqn in jaxpr.eqns
    )


# JAX 0.10.2 on CPU: a reduction fused into a matrix product with more than 128 KiB of float32 or float64 along one
# axis reads past its block (`sum((eye(3) @ x.T) ** 2, axis=0)` for 32,769 rows; found under vmap as well). Any
# operation between the two that XLA cannot see through prevents it. Whether the product is that large is known only
# when it is lowered, as vmap adds axes later, so the guard is a primitive; small products lower to nothing.
_GUARDED_BYTES = 128 * 1024


def _make_guard() -> Callable[[jax.Array], jax.Array]:
    from jax.interpreters import ad, batching, mlir

    primitive = _jax_core.Primitive("guard_dot")
    primitive.def_impl(lambda x: x)
    primitive.def_abstract_eval(lambda x: x)
    ad.deflinear2(primitive, lambda cotangent, _: [cotangent])
    batching.defvectorized(primitive)

    def unguarded(x: jax.Array) -> jax.Array:
        return x

    def guarded(x: jax.Array) -> jax.Array:
        if max(x.shape, default=0) * x.dtype.itemsize <= _GUARDED_BYTES:
            return x
        exponent, mantissa = (8, 23) if x.dtype == "float32" else (11, 52)
        return jax.lax.reduce_precision(x, exponent, mantissa)

    mlir.register_lowering(primitive, mlir.lower_fun(unguarded, multiple_results=False))
    mlir.register_lowering(primitive, mlir.lower_fun(guarded, multiple_results=False), platform="cpu")

    def guard_dot(x: jax.Array) -> jax.Array:
        if x.ndim and x.dtype in ("float32", "float64"):
            guard: jax.Array = primitive.bind(x)
            return guard
        return x

    return guard_dot


def _no_guard(x: jax.Array) -> jax.Array:
    return x


guard_dot: Callable[[jax.Array], jax.Array] = _make_guard() if JAX_VERSION == (0, 10, 2) else _no_guard
"""Return the result of a matrix product, protected from a wrong fusion where this version of JAX has it."""


# --- primitives -----------------------------------------------------------------------------------------------------

Primitive = _jax_core.Primitive


def vary_alike(*arrays: jax.Array) -> Sequence[jax.Array]:
    """Return operands of one primitive inside of shard_map as varying over the same mesh axes, as its check demands.

    The derivative of what is done to one that did not vary sums over these axes.
    """
    varying: Sequence[jax.Array] = _jax_core.auto_insert_reshard(*arrays)
    return varying


def result_avals(
    fn: Callable[..., Sequence[jax.Array]], avals: Sequence[jax.core.ShapedArray]
) -> list[jax.core.ShapedArray]:
    """Return the abstract results of a function, with what they say of meshes."""
    found: list[jax.core.ShapedArray] = jax.make_jaxpr(fn)(*avals).out_avals
    return found


def lowering_target(ctx: Any) -> tuple[str, str, tuple[int, int] | None]:
    """Return the platform, the device kind and CUDA's compute capability that a rule of lowering lowers for.

    The kind is that of the abstract device where a mesh names one, else that of the devices of the platform that this
    process has; "" where there are none, or where a program is lowered for several platforms.
    """
    platforms: Sequence[str] = ctx.module_context.platforms
    if len(platforms) != 1:  # `ctx.platforms` is then the one that a rule is registered for
        return "", "", None
    platform = platforms[0]
    abstract = jax.sharding.get_abstract_mesh().abstract_device
    if abstract is not None:
        return platform, abstract.device_kind, None
    try:
        device = jax.local_devices(backend=platform)[0]
    except RuntimeError:
        return platform, "", None
    text = str(getattr(device, "compute_capability", ""))
    major, dot, minor = text.partition(".")
    return platform, device.device_kind, (int(major), int(minor)) if dot and platform == "cuda" else None


def is_partitioned(ctx: Any) -> bool:
    """Whether XLA will divide what a rule lowers among devices: several, and not all axes under shard_map."""
    context = ctx.module_context.axis_context
    manual = getattr(context, "manual_axes", None)
    if manual is None:
        return getattr(context, "num_devices", 1) not in (1, None)
    everywhere = frozenset(manual) | frozenset(getattr(context.mesh, "manual_axes", ()))
    return context.mesh.size > 1 and everywhere != frozenset(context.mesh.axis_names)


# --- Pallas ---------------------------------------------------------------------------------------------------------


@functools.cache
def triton_parameters() -> Callable[..., Any]:
    """Return the class of the compiler's parameters of Pallas on Triton, with the fields that JAX documents.

    JAX warns of the deprecation of this backend at each lowering, far from the call that could prevent it. Kernels
    with these parameters are lowered in silence.
    """
    import warnings

    from jax._src.pallas import core as pallas_core
    from jax._src.pallas.triton import core as triton_core
    from jax._src.pallas.triton import pallas_call_registration as registration

    @dataclasses.dataclass(frozen=True)
    class TritonParameters(triton_core.CompilerParams):
        pass

    def lower(ctx: Any, *operands: Any, **params: Any) -> Any:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The Pallas Triton backend is deprecated", DeprecationWarning)
            return registration.pallas_call_lowering(ctx, *operands, **params)

    pallas_core.register_lowering_rule(TritonParameters, lower, "gpu")
    return TritonParameters


def is_zero(x: object) -> bool:
    """Tell whether a tangent or cotangent is a symbolic zero, or that of an integer."""
    from jax.interpreters import ad

    return type(x) is ad.Zero or getattr(x, "dtype", None) == jax.dtypes.float0


def result_aval(
    shape: tuple[int, ...],
    dtype: np.dtype,
    operands: Sequence[jax.core.ShapedArray],
    axes: tuple[object, ...] | None = None,
) -> jax.core.ShapedArray:
    """Return what a primitive gives for such operands: it varies over the mesh axes that any of them varies over.

    `axes` are those of a mesh with explicit axes that it is divided along, by default none.
    """
    varying = frozenset().union(*(_varying(x) for x in operands))
    spec = jax.sharding.PartitionSpec(*(axes or [None] * len(shape)))
    aval: jax.core.ShapedArray = operands[0].update(
        shape=shape,
        dtype=dtype,
        weak_type=False,
        sharding=operands[0].sharding.update(spec=spec),
        manual_axis_type=_jax_core.ManualAxisType(varying=varying),
    )
    return aval


def explicit_axes(aval: Any) -> tuple[object, ...]:
    """Return for each axis of an array the axes of a mesh with explicit axes that it is divided along."""
    return tuple(aval.sharding.spec)


def _varying(aval: Any) -> frozenset[str]:
    varying: frozenset[str] = aval.mat.varying
    return varying


def register_lowering(primitive: Any, fn: Callable[..., Sequence[jax.Array]]) -> None:
    """Have a primitive lowered as ``fn(*operands, target=, partitioned=, **params)``, once for each platform.

    `target` is what `lowering_target` returns, and `partitioned` what `is_partitioned` does.
    """
    from jax._src.interpreters.mlir import lower_with_sharding_in_types
    from jax.interpreters import mlir

    def rule(ctx: Any, *operands: Any, **params: object) -> Any:
        # Inside of a `shard_map` an operand is one device's, and what `fn` makes of it is nobody else's business.
        avals = [jax.core.ShapedArray(aval.shape, aval.dtype) for aval in ctx.avals_in]
        facts = functools.partial(fn, target=lowering_target(ctx), partitioned=is_partitioned(ctx))
        wide = x64() if any(aval.dtype.itemsize == 8 for aval in avals) else contextlib.nullcontext()
        # A call of Pallas would be asked over which mesh axes its results vary.
        with wide, _jax_config._check_vma(False):
            found = mlir.lower_fun(facts, multiple_results=True)(ctx.replace(avals_in=avals), *operands, **params)
        return [
            lower_with_sharding_in_types(ctx, x, aval)  # where a mesh has explicit axes
            for x, aval in zip(found, ctx.avals_out, strict=True)
        ]

    for platform in (None, "cpu", "cuda", "rocm", "tpu"):
        mlir.register_lowering(primitive, rule, platform=platform)


# --- cuDNN ----------------------------------------------------------------------------------------------------------
#
# `jax.nn.dot_product_attention` reaches cuDNN forward alone, and its derivative would run forward again.


@dataclasses.dataclass(frozen=True, slots=True)
class CudnnCall:
    """The static part of a call of cuDNN's attention.

    Attributes
    ----------
    scale
        Factor of the products.
    causal
        Whether query t sees keys up to t alone.
    window
        How many keys a query of a causal call sees, its own among them; None for all.
    layout
        ``"BTNH"`` or ``"BNTH"``.
    """

    scale: float
    causal: bool
    window: int | None
    layout: str


def cudnn_attention(
    query: jax.Array,
    key: jax.Array,
    value: jax.Array,
    bias: jax.Array | None,
    lengths: tuple[jax.Array, jax.Array] | None,
    call: CudnnCall,
) -> tuple[jax.Array, jax.Array]:
    """Return cuDNN's attention and its log-sum-exp ``(B, N, T)``; `lengths` are of queries and keys, int32 ``(B,)``.

    XLA cannot divide the call among devices. JAX's own primitives for that can only be lowered where JAX has seen them
    before the lowering began, and here the implementation is chosen in it.
    """
    from jax._src.cudnn import fused_attention_stablehlo as cudnn

    params = _cudnn_params(bias is not None, False, lengths is not None, call)
    out, lse = cast(Any, cudnn._dot_product_attention_fwd_impl)(
        query, key, value, *_cudnn_rest(query, bias, lengths), is_training=True, **params
    )
    return out, lse


def cudnn_attention_gradients(
    query: jax.Array,
    key: jax.Array,
    value: jax.Array,
    bias: jax.Array | None,
    lengths: tuple[jax.Array, jax.Array] | None,
    out: jax.Array,
    lse: jax.Array,
    d_out: jax.Array,
    call: CudnnCall,
    *,
    bias_gradient: bool,
) -> list[jax.Array]:
    """Return the gradients by query, key and value, and by the bias if asked for, as `cudnn_attention` says."""
    from jax._src.cudnn import fused_attention_stablehlo as cudnn

    params = _cudnn_params(bias is not None, bias_gradient, lengths is not None, call)
    found: list[jax.Array] = cast(Any, cudnn._dot_product_attention_bwd_impl)(
        query, key, value, *_cudnn_rest(query, bias, lengths), lse, out, d_out, **params
    )
    return found


def _cudnn_rest(
    query: jax.Array, bias: jax.Array | None, lengths: tuple[jax.Array, jax.Array] | None
) -> list[jax.Array]:
    """Return the operands after the values: bias, lengths, offsets of segments and tables of pages."""
    none = jax.numpy.zeros(0, query.dtype)
    return [none if bias is None else bias, *(lengths or (none, none)), none, none, none, none]


def _cudnn_params(bias: bool, bias_gradient: bool, lengths: bool, call: CudnnCall) -> dict[str, object]:
    from jax._src.cudnn import fused_attention_stablehlo as cudnn

    masks = cudnn.MaskType
    if lengths:
        mask = masks.PADDING_CAUSAL if call.causal else masks.PADDING
    else:
        mask = masks.CAUSAL if call.causal else masks.NO_MASK
    params: dict[str, object] = {
        "scale": call.scale,
        "seed": 42,
        "dropout_rate": 0.0,
        "variadic_args": (bias, bias_gradient),
        "mask_type": mask,
        "layout": cudnn.AttentionLayout[call.layout].value,
        "sliding_window_length": call.window,
    }
    # New in JAX 0.12.
    return {**params, "score_mod_args": (), "score_mod": None} if JAX_VERSION >= (0, 12) else params
