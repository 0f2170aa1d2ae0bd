"""Every operation of the Backend, compared with the NumPy reference in float64."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable

import numpy as np

from ...backend import Backend, NumpyBackend
from ...backend.core import Tensor
from ..case import MODES, TESTED, Case, Edge, Mode, Operand, Operation, Scale
from ..operands import dtype_named
from .build import FLOATS, NO_GRAD, SMALL_FLOATS, case, edges, shapes

__all__ = ["backend_operations"]

_VALUES: tuple[Edge, ...] = ("nan", "inf", "extreme")
_NAN: tuple[Edge, ...] = ("nan", "inf")
_NUMBERS = (*FLOATS, "int32")
_MOVED = (*FLOATS, "int32", "bool")
_INDEX = "int32"
_SHAPES: tuple[tuple[Edge, tuple[int, ...]], ...] = (
    ("normal", (3, 4)), ("empty", (0, 3)), ("0-d", ()), ("size 1", (1, 1)))  # fmt: skip
_KEY = np.array([3, 4000000001], np.uint32)


class _Method:
    """A method of a backend, given operands by position and parameters by keyword, as the tables do."""

    def __init__(self, backend: Backend[Tensor], name: str) -> None:
        self._method: Callable[..., object] = getattr(backend, name)
        self._parameters = tuple(inspect.signature(self._method).parameters.values())

    def __call__(self, *operands: object, **params: object) -> object:
        waiting = iter(operands)
        by_position: list[object] = []
        by_name = dict(params)
        for parameter in self._parameters:
            name = parameter.name
            if name in params:
                value = by_name.pop(name) if parameter.kind is parameter.POSITIONAL_ONLY else params[name]
            else:
                try:
                    value = next(waiting)
                except StopIteration:
                    continue
                if parameter.kind is not parameter.POSITIONAL_ONLY:
                    by_name[name] = value
            if parameter.kind is parameter.POSITIONAL_ONLY:
                by_position.append(value)
        return self._method(*by_position, **by_name)


def _pointwise(values: str = "normal", **params: object) -> tuple[Case, ...]:
    return (
        case("normal", Operand((8, 16), "points"), **params),
        case("normal", Operand((2, 3), values), **params),
        case("empty", Operand((0, 3), values), **params),
        case("0-d", Operand((), values), **params),
        case("size 1", Operand((1, 1), values), **params),
        *edges(_VALUES, Operand((2, 3), values), **params),
    )


def _pairs(second: str = "normal") -> tuple[Case, ...]:
    return (
        case("normal", Operand((16, 16), "left"), Operand((16, 16), "right")),
        case("normal", Operand((3, 1)), Operand((1, 4), second)),
        case("empty", (0, 3), Operand((1, 3), second)),
        case("0-d", (), Operand((), second)),
        case("size 1", (1, 1), Operand((1,), second)),
        *edges(_VALUES, (2, 3), Operand((3,), second)),
    )


def _rows(edged: tuple[Edge, ...] = _VALUES, values: str = "normal", **params: object) -> tuple[Case, ...]:
    """Cases along an axis, which is the last unless a case has another."""
    return (
        *shapes((3, 5), (1, 1), values=values, dim=1, **params),
        *shapes((2, 3, 4), values=values, dim=1, **params),
        case("normal", Operand((2, 48), "unit"), dim=1, **params),
        *edges(edged, Operand((3, 4), values), dim=0, **params),
    )


def _whole(edged: tuple[Edge, ...] = _VALUES, values: str = "normal", **params: object) -> tuple[Case, ...]:
    return (
        *shapes((3, 5), (), (1, 1), values=values, **params),
        case("normal", Operand((2, 48), "unit"), **params),
        *edges(edged, Operand((3, 4), values), **params),
    )


def _normalized(**params: object) -> tuple[Case, ...]:
    weight, bias = Operand((6,), "positive!"), Operand((6,), "normal!")
    return (
        case("normal", (3, 6), weight, bias, **params),
        case("normal", Operand((2, 3, 6), "offset:30"), weight, **params),
        case("normal", (3, 6), **params),
        case("empty", (0, 6), weight, bias, **params),
        case("size 1", (1, 1), Operand((1,), "positive"), Operand((1,)), **params),
        *edges(_NAN, (3, 6), weight, bias, **params),
    )


def _attention() -> tuple[Case, ...]:
    q, k, v = Operand((1, 2, 3, 4)), Operand((1, 2, 5, 4)), Operand((1, 2, 5, 4))
    scale = 0.5
    return (
        case("normal", q, k, v, scale=scale),
        case("normal", q, k, v, scale=scale, causal=True),
        case("normal", Operand((2, 4, 3, 4)), Operand((2, 2, 3, 4)), Operand((2, 2, 3, 6)), scale=scale, causal=True),
        case("normal", q, k, v, Operand((3, 5), "normal", "bool"), scale=scale),
        case("normal", q, k, v, scale=scale, window=(1, 1), softcap=5.0),
        case("empty", q, Operand((1, 2, 0, 4)), Operand((1, 2, 0, 4)), scale=scale),
        case("size 1", *(Operand((1, 1, 1, 1)),) * 3, scale=1.0),
        *edges(_NAN, q, k, v, scale=scale, causal=True),
    )


_SPATIAL = {1: (7,), 2: (6, 5), 3: (4, 3, 4)}


def _convolutions(n: int, *, transposed: bool) -> tuple[Case, ...]:
    sizes = _SPATIAL[n]
    kernel = (3, 2, 2)[:n]
    x = Operand((2, 4, *sizes))
    # Channels: (O, I/groups) for a convolution, (I, O/groups) for its transpose.
    plain = Operand((4, 3, *kernel) if transposed else (3, 4, *kernel), "normal!")
    grouped = Operand((4, 2, *kernel), "normal!")
    bias = Operand((3,), "normal!")
    extra = {"output_padding": (1,) * n} if transposed else {}
    return (
        case("normal", x, plain, bias),
        case("normal", x, grouped, stride=(2,) * n, padding=(1,) * n, groups=2, **extra),
        case("normal", x, plain, dilation=(1, 2, 1)[:n], padding=(1,) * n),
        case("empty", Operand((0, 4, *sizes)), plain, bias),
        case("size 1", Operand((1, 1, *(1,) * n)), Operand((1, 1, *(1,) * n))),
        *edges(_NAN, x, plain, bias),
    )


def _pools(n: int, **params: object) -> tuple[Case, ...]:
    sizes = _SPATIAL[n]
    x = Operand((1, 2, *sizes), "distinct")
    return (
        case("normal", x, kernel_size=2, **params),
        case("normal", x, kernel_size=(3, 2, 2)[:n], stride=(1, 2, 1)[:n], padding=(1,) * n, **params),
        case("normal", x, kernel_size=2, stride=2, padding=0, ceil_mode=True, **params),
        case("empty", Operand((0, 2, *sizes)), kernel_size=2, **params),
        case("size 1", Operand((1, 1, *(1,) * n)), kernel_size=1, **params),
        *edges(_NAN, x, kernel_size=2, **params),
    )


def _adaptive(n: int) -> tuple[Case, ...]:
    sizes = _SPATIAL[n]
    return (
        case("normal", Operand((1, 2, *sizes), "distinct"), output_size=(3, 2, 2)[:n]),
        case("normal", Operand((2, *sizes), "distinct"), output_size=1),
        case("size 1", Operand((1, 1, *(1,) * n)), output_size=1),
        *edges(_NAN, Operand((1, 2, *sizes), "distinct"), output_size=2),
    )


def _rotations() -> tuple[Case, ...]:
    table = Operand((3, 2), "unit!")
    return (
        case("normal", Operand((1, 2, 3, 4)), table, table, layout="half"),
        case("normal", Operand((2, 3, 4)), table, table, layout="interleaved"),
        case("normal", Operand((3, 6)), table, table, rotary_dim=4),
        case("empty", Operand((0, 3, 4)), table, table),
        case("size 1", Operand((1, 2)), Operand((1, 1), "unit"), Operand((1, 1), "unit")),
        *edges(_NAN, Operand((2, 3, 4)), table, table),
    )


def _interpolations() -> tuple[Case, ...]:
    x = Operand((1, 2, 4, 3))
    return (
        case("normal", x, size=(6, 5), mode="nearest"),
        case("normal", x, size=(6, 5), mode="bilinear", align_corners=False),
        case("normal", x, scale_factor=2.0, mode="bilinear", align_corners=True),
        case("normal", x, size=(2, 2), mode="area"),
        case("normal", x, size=(5, 6), mode="bicubic", align_corners=False),
        case("normal", Operand((1, 2, 4)), size=7, mode="linear", align_corners=False),
        case("size 1", Operand((1, 1, 1, 1)), size=(2, 2), mode="nearest"),
        *edges(_NAN, x, size=(6, 5), mode="nearest"),
    )


class _Table:
    """The rows for one backend."""

    def __init__(self, backend: Backend[Tensor]) -> None:
        self._backend = backend
        self._reference: Backend[Tensor] = NumpyBackend()  # type: ignore[assignment]

    def row(
        self,
        name: str,
        cases: Iterable[Case],
        dtypes: tuple[str, ...] = FLOATS,
        *,
        scale: Scale = "value",
        modes: tuple[Mode, ...] = MODES,
        elementwise: bool = False,
        signed_zeros: bool = False,
        native: bool = False,
        typed: bool = False,
        floor: float = 0.0,
        call: Callable[..., object] | None = None,
        expected: Callable[..., object] | None = None,
    ) -> Operation:
        """Return one operation; `call` and `expected` are the methods of that name."""
        return Operation(
            f"backend.{name}", tuple(cases), dtypes, call or _Method(self._backend, name),
            expected or _Method(self._reference, name), scale, modes, elementwise, native, signed_zeros, None, typed,
            floor,
        )  # fmt: skip

    def made(self, name: str, backend: Backend[Tensor], argument: object = None) -> Callable[..., object]:
        """Return a creating method as the tables call it."""

        def make(*, shape: tuple[int, ...], dtype: np.dtype) -> object:
            more = () if argument is None else (argument,)
            return getattr(backend, name)(shape, *more, dtype=dtype)

        return make

    def drawn(self, name: str, backend: Backend[Tensor]) -> Callable[..., object]:
        """Return a random method with one key."""

        def make(*, shape: tuple[int, ...], dtype: np.dtype) -> object:
            return getattr(backend, name)(shape, dtype=dtype, key=_KEY)

        return make


def _cast(backend: Backend[Tensor]) -> Callable[..., object]:
    return lambda x, *, to: backend.cast(x, dtype_named(to))


def _batch_norm(backend: Backend[Tensor], training: bool) -> Callable[..., object]:
    def call(x: Tensor, mean: Tensor, variance: Tensor, weight: Tensor, bias: Tensor) -> object:
        return backend.batch_norm(x, mean, variance, weight, bias, training)  # type: ignore[call-overload]

    return call


def backend_operations(backend: Backend[Tensor], /) -> tuple[Operation, ...]:
    """Return the operations of the Backend, called on `backend` and compared with `NumpyBackend`."""
    t = _Table(backend)
    reference = t._reference
    made = tuple(
        case("empty" if 0 in s else "0-d" if s == () else "size 1" if s == (1, 1) else "normal", shape=s, dtype=TESTED)
        for s in ((3, 4), (0, 3), (), (1, 1))
    )
    indices = Operand((5,), "index:3", _INDEX)
    batch = (
        Operand((3,), "normal!", None, True),
        Operand((3,), "positive!", None, True),
        Operand((3,), "positive!"),
        Operand((3,), "normal!"),
    )
    channels = (
        case("normal", Operand((2, 4, 3)), Operand((4,), "positive!"), Operand((4,), "normal!"), num_groups=2),
        case("normal", Operand((2, 4, 3)), num_groups=4),
        case("size 1", Operand((1, 1)), Operand((1,), "positive"), Operand((1,)), num_groups=1),
        *edges(_NAN, Operand((2, 4, 3)), Operand((4,), "positive!"), Operand((4,), "normal!"), num_groups=2),
    )
    instances = (
        case("normal", Operand((2, 3, 4)), Operand((3,), "positive!"), Operand((3,), "normal!")),
        case("normal", Operand((2, 3, 2, 2))),
        *edges(_NAN, Operand((2, 3, 4)), Operand((3,), "positive!"), Operand((3,), "normal!")),
    )
    return (
        *(t.row(n, made, (*_MOVED, *SMALL_FLOATS), modes=("eager", "jit"), typed=True, call=t.made(n, backend),
                expected=t.made(n, reference)) for n in ("zeros", "ones")),
        t.row("full", made, _NUMBERS, modes=("eager", "jit"), typed=True, call=t.made("full", backend, 3),
              expected=t.made("full", reference, 3)),
        t.row("rand", made, FLOATS, modes=("eager", "jit"), typed=True, call=t.drawn("rand", backend),
              expected=t.drawn("rand", reference)),
        t.row("randn", made, FLOATS, modes=("eager", "jit"), typed=True, call=t.drawn("randn", backend),
              expected=t.drawn("randn", reference)),
        *(t.row(n, _pairs(), (*_NUMBERS, *SMALL_FLOATS), elementwise=True, signed_zeros=True)
          for n in ("add", "sub", "mul")),
        t.row("div", _pairs(), FLOATS, elementwise=True, signed_zeros=True),
        *(t.row(n, _pairs(), _NUMBERS, elementwise=True) for n in ("maximum", "minimum")),
        *(t.row(n, _pointwise(), (*_NUMBERS, *SMALL_FLOATS), elementwise=True, signed_zeros=True)
          for n in ("neg", "abs")),
        *(t.row(n, _pointwise("positive"), FLOATS, elementwise=True, signed_zeros=True) for n in ("log", "sqrt")),
        *(t.row(n, _pointwise(), FLOATS, elementwise=True, signed_zeros=True) for n in ("exp", "sin", "cos")),
        # Of no subnormal numbers, whose logarithm XLA does not have.
        t.row("pow", tuple(c for p in (-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0, 1 / 3) for c in
                           (case("normal", Operand((16, 16), "left"), exp=p),
                            *(_pointwise("positive", exp=p)[1:] if p in (2.0, 1 / 3) else ()))),
              FLOATS, elementwise=True),
        t.row("clamp", (*_pointwise(min=-1.0, max=2.0), *_pointwise(min=1.0, max=-1.0)[:1]), _NUMBERS,
              elementwise=True),
        t.row("gt_scalar", _pointwise(v=0.5), _NUMBERS, elementwise=True, modes=NO_GRAD),
        t.row("cast", tuple(case("normal", Operand((8, 16), "points"), to=to) for to in
                            ("float16", "bfloat16", "float32", "int32", "uint8", "bool"))
              + tuple(Case(c.edge, c.operands, {"to": "float32"}) for c in _pointwise()[2:]), _MOVED, native=True,
              typed=True, call=_cast(backend), expected=_cast(reference), modes=NO_GRAD),
        *(t.row(n, _pointwise(), FLOATS, elementwise=True)
          for n in ("relu", "sigmoid", "tanh", "silu", "mish", "selu", "hard_sigmoid")),
        # Far to the left the rounding of x**2 is magnified.
        t.row("gelu", (*_pointwise(approximate="none"), *_pointwise(approximate="tanh")), FLOATS, elementwise=True,
              floor=2.0**-13),
        t.row("leaky_relu", (*_pointwise(negative_slope=0.01), *_pointwise(negative_slope=2.0)[:1]), FLOATS,
              elementwise=True),
        *(t.row(n, (*_pointwise(alpha=1.0), *_pointwise(alpha=0.5)[:1]), FLOATS, elementwise=True)
          for n in ("elu", "celu")),
        t.row("softplus", (*_pointwise(beta=1.0, threshold=20.0), *_pointwise(beta=2.0, threshold=5.0)[:1]), FLOATS,
              elementwise=True),
        t.row("prelu", (
            case("normal", (2, 3, 4), Operand((3,), "positive")), case("normal", (2, 3), Operand((1,), "positive")),
            case("empty", (0, 3), Operand((3,), "positive")), case("size 1", (1, 1), Operand((1,), "positive")),
            *edges(_VALUES, (2, 3), Operand((3,), "positive")))),
        # Not beside infinities: the silu of the smallest normal number is subnormal.
        t.row("silu_mul", (*(case(e, s, s) for e, s in _SHAPES), *edges(_NAN, (2, 3), Operand((2, 3), "normal!")))),
        *(t.row(n, (*shapes((3, 4), (2, 4, 2), (0, 4), dim=1), *shapes((2, 6), dim=-1), *edges(_NAN, (2, 4), dim=1)))
          for n in ("glu", "swiglu")),
        *(t.row(n, (*_rows(), *shapes((0, 3), dim=1)), FLOATS, scale="largest") for n in ("softmax", "log_softmax")),
        t.row("matmul", (
            case("normal", (3, 4), (4, 5)), case("normal", Operand((2, 48), "unit"), Operand((48, 2), "unit")),
            case("empty", (3, 0), (0, 2)), case("size 1", (1, 1), (1, 1)), *edges(_NAN, (2, 3), (3, 2))),
            (*_NUMBERS, *SMALL_FLOATS), scale="absolute"),
        t.row("bmm", (
            case("normal", (2, 3, 4), (2, 4, 5)), case("empty", (0, 3, 2), (0, 2, 2)),
            case("size 1", (1, 1, 1), (1, 1, 1)), *edges(_NAN, (2, 2, 3), (2, 3, 2))), _NUMBERS, scale="absolute"),
        t.row("linear", (
            case("normal", (3, 4), (5, 4), (5,)), case("normal", (2, 3, 4), (2, 4)),
            case("empty", (0, 4), (2, 4), (2,)),
            case("size 1", (1,), (1, 1), (1,)), *edges(_NAN, (2, 3), (2, 3), (2,))), scale="absolute"),
        t.row("sum", (*_whole(), *shapes((0, 3))), (*_NUMBERS, *SMALL_FLOATS), scale="absolute"),
        t.row("sum_dim", (*_rows(), *shapes((3, 0), dim=1)), _NUMBERS, scale="absolute"),
        t.row("mean", (*_whole(), *shapes((0, 3))), scale="absolute"),
        t.row("mean_dim", (*_rows(), *shapes((3, 0), dim=1)), scale="absolute"),
        *(t.row(n, _whole(values="distinct"), _NUMBERS) for n in ("max", "min")),
        *(t.row(f"{n}_dim", (*_rows(values="distinct"), *shapes((0, 3), dim=1)), _NUMBERS) for n in ("max", "min")),
        t.row("var", (*_whole(_NAN, correction=0.0), *_whole(_NAN, correction=1.0)[:3],
                      case("normal", Operand((16,), "offset:100"), correction=0.0)), scale="largest"),
        t.row("var_dim", (*_rows(_NAN, correction=0.0), *_rows(_NAN, correction=1.0)[:2],
                          case("normal", Operand((2, 16), "offset:100"), dim=1, correction=0.0)), scale="largest"),
        t.row("reshape", (case("normal", (2, 6), shape=(3, -1)), case("empty", (0, 3), shape=(3, 0)),
                          case("0-d", (), shape=(1, 1)), case("size 1", (1, 1), shape=()),
                          *edges(_VALUES, (2, 3), shape=(3, 2))), _MOVED, signed_zeros=True),
        t.row("permute", (case("normal", (2, 3, 4), dims=(2, 0, 1)), case("empty", (0, 3), dims=(1, 0)),
                          case("0-d", (), dims=()), *edges(_VALUES, (2, 3), dims=(1, 0))), _MOVED, signed_zeros=True),
        t.row("transpose", (*shapes((2, 3), (2, 3, 4), (0, 3), (1, 1)), *edges(_VALUES, (2, 3))), _MOVED,
              signed_zeros=True),
        t.row("swap_dims", (*shapes((2, 3, 4), (0, 3, 2), (1, 1, 1), dim1=0, dim2=2),
                            *edges(_VALUES, (2, 3), dim1=0, dim2=1)), _MOVED, signed_zeros=True),
        t.row("index_select", (
            case("normal", (3, 4), indices), case("normal", (3,), indices),
            case("empty", (3, 2), Operand((0,), "index:3", _INDEX)),
            case("size 1", (1, 1), Operand((1,), "index:1", _INDEX)),
            *edges(_VALUES, (3, 4), indices)), _MOVED),
        t.row("index_add", (
            case("normal", (5, 4), indices, num_rows=4), case("normal", (5,), indices, num_rows=3, deterministic=True),
            case("normal", Operand((48, 2), "unit"), Operand((48,), "index:2", _INDEX), num_rows=2),
            case("empty", (0, 4), Operand((0,), "index:3", _INDEX), num_rows=3),
            case("size 1", (1, 1), Operand((1,), "index:1", _INDEX), num_rows=1),
            *edges(_NAN, (5, 4), indices, num_rows=3)), _NUMBERS, scale="absolute"),
        t.row("embedding", (
            case("normal", Operand((2, 3), "index:3", _INDEX), (3, 4)),
            case("empty", Operand((0,), "index:3", _INDEX), (3, 2)),
            case("0-d", Operand((), "index:3", _INDEX), (3, 2)),
            *edges(_VALUES, Operand((2, 3), "index:3", _INDEX), (3, 4)))),
        t.row("layer_norm", _normalized(eps=1e-5), scale="largest"),
        t.row("rms_norm", tuple(Case(c.edge, c.operands[:2], c.params) for c in _normalized(eps=1e-6)),
              scale="largest"),
        t.row("group_norm", channels, scale="largest"),
        t.row("instance_norm", instances, scale="largest"),
        t.row("batch_norm", (case("normal", (4, 3), *batch), case("normal", (2, 3, 4), *batch),
                             *edges(_NAN, (4, 3), *batch)), scale="largest",
              call=_batch_norm(backend, False), expected=_batch_norm(reference, False)),
        t.row("batch_norm_training", (case("normal", (4, 3), *batch), case("normal", (2, 3, 4), *batch)),
              scale="largest", call=_batch_norm(backend, True), expected=_batch_norm(reference, True), modes=NO_GRAD),
        # No gradient goes through the running statistics, which differences of the reference would see.
        t.row("batch_norm_training", (case("normal", (4, 3), *batch), case("normal", (2, 3, 4), *batch)),
              modes=("grad",), call=lambda *x: _batch_norm(backend, True)(*x)[0],  # type: ignore[index]
              expected=lambda *x: _batch_norm(reference, True)(*x)[0]),  # type: ignore[index]
        t.row("flash_attention", _attention(), scale="largest"),
        t.row("rope", _rotations(), scale="largest"),
        *(t.row(f"conv{n}d", _convolutions(n, transposed=False), scale="absolute") for n in (1, 2, 3)),
        *(t.row(f"conv_transpose{n}d", _convolutions(n, transposed=True), scale="absolute") for n in (1, 2, 3)),
        *(t.row(f"max_pool{n}d", _pools(n)) for n in (1, 2, 3)),
        *(t.row(f"avg_pool{n}d", (*_pools(n), *_pools(n, count_include_pad=False)[1:2]), scale="absolute")
          for n in (1, 2, 3)),
        *(t.row(f"adaptive_avg_pool{n}d", _adaptive(n), scale="absolute") for n in (1, 2, 3)),
        *(t.row(f"adaptive_max_pool{n}d", _adaptive(n)) for n in (1, 2, 3)),
        t.row("interpolate", _interpolations(), scale="largest"),
        t.row("unfold", (
            case("normal", (1, 2, 4, 5), kernel_size=(2, 3)),
            case("normal", (2, 1, 5, 5), kernel_size=2, dilation=2, padding=1, stride=2),
            case("size 1", (1, 1, 1, 1), kernel_size=1), *edges(_NAN, (1, 2, 4, 5), kernel_size=2))),
        t.row("fold", (
            case("normal", (1, 8, 12), output_size=(4, 5), kernel_size=2),
            case("normal", (2, 4, 9), output_size=(5, 5), kernel_size=2, stride=2, padding=1, dilation=2),
            case("size 1", (1, 1, 1), output_size=1, kernel_size=1),
            *edges(_NAN, (1, 8, 12), output_size=(4, 5), kernel_size=2)), scale="absolute"),
    )  # fmt: skip
