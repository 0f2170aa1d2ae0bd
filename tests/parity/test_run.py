"""Runs of the table: right results pass, planted faults are caught and named, crashes and hangs are survived."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import rtx_jax as xp
from rtx_jax import errors, parity
from rtx_jax.backend import CpuBackend, NumpyBackend
from rtx_jax.parity.faults import FAULTS, parse, spoil
from rtx_jax.parity.results import Outcome, outcome_from, plain
from rtx_jax.parity.tables import namespace_operations
from rtx_jax.parity.tables.backend import backend_operations

SOME = ("sin", "linalg.outer", "argmax", "backend.relu", "backend.sum_dim")


@pytest.fixture(scope="module")
def report() -> parity.Report:
    return parity.run(operations=SOME, dtypes=["float32"])


def test_right_results_pass(report):
    wrong = [(o.operation, o.dtype, o.mode, o.failure.what) for o in report.failures]
    assert not wrong
    assert report.passed
    assert set(report.operations) == set(SOME)
    assert {o.mode for o in report.outcomes} == set(parity.MODES)
    sine = next(o for o in report.outcomes if (o.operation, o.mode) == ("sin", "eager"))
    assert sine.status == "passed"
    assert 0 < sine.median_ulp < sine.max_ulp <= sine.limit
    assert sum(sine.counts) == sine.elements > 128
    assert set(sine.edges) == set(parity.EDGES)


@pytest.mark.parametrize("fault", ["sign", "ulp", "axis", "nonsense", "raise"])
def test_planted_faults_are_caught_and_named(report, fault):
    found = parity.run(operations=SOME, dtypes=["float32"], modes=["eager"], faults=dict.fromkeys(SOME, fault))
    assert {o.operation for o in found.failures} == set(SOME)
    assert not found.passed
    assert all(o.status == ("error" if fault == "raise" else "failed") for o in found.failures)
    for outcome in found.failures:
        assert outcome.operation.rpartition(".")[2] in outcome.failure.code
        assert len(outcome.failure.code) < 3000


@pytest.mark.parametrize("mode", ["jit", "vmap", "grad"])
def test_a_fault_is_caught_in_every_mode(mode):
    found = parity.run(operations=["sin"], dtypes=["float32"], modes=[mode], faults={"sin": "sign"})
    assert [o.mode for o in found.failures] == [mode]


def test_the_failing_input_is_small_and_shows_the_fault():
    found = parity.run(operations=["sin"], dtypes=["float32"], modes=["eager"], faults={"sin": "ulp"})
    (outcome,) = found.failures
    assert 15 < outcome.max_ulp < 17
    assert "ULP away, the bound is" in outcome.failure.what
    names: dict[str, object] = {}
    exec(outcome.failure.code, names)
    assert names["x0"].shape == ()  # one number


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["sign", "ulp", "axis"])
def test_a_fault_in_any_operation_is_caught(fault):
    every = (*namespace_operations(), *backend_operations(CpuBackend()))
    values = {operation.name for operation in every}
    found = parity.run(
        modes=["eager"], dtypes=["float32", "complex64", "int32", "bool"], faults=dict.fromkeys(values, fault)
    )
    caught = {o.operation for o in found.failures}
    assert values - caught == _HIDDEN[fault]


# What a fault cannot change: values of which nothing is promised, names, and the axes of one number.
_NO_VALUES = {"empty", "empty_like", "result_type"}
_NUMBERS = {f"backend.{name}" for name in ("max", "mean", "min", "sum", "var")} | {"allclose", "linalg.matrix_rank"}
_FACTS = {"broadcast_shapes", "can_cast", "finfo", "iinfo", "isdtype", "result_type"}
_HIDDEN = {"sign": _NO_VALUES, "ulp": _NO_VALUES, "axis": _NUMBERS | _FACTS}


def test_a_crash_and_a_hang_are_survived():
    names = ["sin", "cos", "argmax"]
    found = parity.run(
        operations=names, dtypes=["float32"], modes=["eager", "jit"], isolate=True, timeout_s=8,
        faults={"sin": "crash", "cos": "hang"},
    )  # fmt: skip
    status = {(o.operation, o.mode): o.status for o in found.outcomes}
    assert status == {
        ("sin", "eager"): "crashed", ("sin", "jit"): "crashed", ("cos", "eager"): "hung", ("cos", "jit"): "hung",
        ("argmax", "eager"): "passed", ("argmax", "jit"): "passed",
    }  # fmt: skip
    first = {o.operation: o.failure.what for o in reversed(found.failures)}
    assert "SIGABRT" in first["sin"]
    assert "gave no result for 8 s" in first["cos"]


@pytest.mark.parametrize("options", [{"isolate": True}, {"jobs": 2}])
def test_isolated_results_are_the_same(report, options):
    found = parity.run(operations=["argmax"], dtypes=["float32"], **options)
    here = [o for o in report.outcomes if o.operation == "argmax" and o.dtype == "float32"]
    kept = ("mode", "status", "cases", "elements", "max_ulp", "counts", "edges")
    assert [[getattr(o, k) for k in kept] for o in found.outcomes] == [[getattr(o, k) for k in kept] for o in here]


def test_several_processes_keep_the_order_and_survive_a_crash():
    names = ["sin", "cos", "argmax"]
    at = []
    found = parity.run(
        operations=names, dtypes=["float32"], modes=["eager"], jobs=2, faults={"cos": "crash"},
        progress=lambda done, total, name: at.append((done, total)),
    )  # fmt: skip
    table = [o.operation for o in parity.run(operations=names, dtypes=["float32"], modes=["eager"]).outcomes]
    assert [o.operation for o in found.outcomes] == table
    assert {o.operation: o.status for o in found.outcomes} == {"sin": "passed", "cos": "crashed", "argmax": "passed"}
    assert at == [(0, 3), (1, 3), (2, 3), (3, 3)]


def test_a_backend_is_compared_alone():
    found = parity.run(backend=NumpyBackend(), operations=["backend.relu", "backend.matmul"], dtypes=["float16"])
    assert found.stack == "numpy"
    assert found.passed
    assert {o.mode for o in found.outcomes} == {"eager"}


def test_the_quick_run_takes_few_cells():
    found = parity.run(operations=["sin", "argmax"], quick=True, dtypes=["float32", "float16"])
    assert found.passed, [o.failure for o in found.failures]
    assert found.quick
    assert len(found.outcomes) <= 8


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"operations": ["sine"]}, "got 'sine'.*Did you mean"),
        ({"operations": ["softmax"]}, "backend.softmax"),
        ({"dtypes": ["float3"]}, "argument dtype: got 'float3'"),
        ({"modes": ["pmap"]}, "argument mode: got 'pmap'"),
        ({"operations": ["sin"], "faults": {"sin": "crash"}}, "wanted isolate=True"),
        ({"jobs": 0}, "wanted an integer of at least 1"),
        ({"operations": ["sin"], "faults": {"sin": "bend"}}, "the fault one of sign"),
        ({"operations": ["sin"], "faults": {"cos": "sign"}}, "argument faults: got 'cos'"),
    ],
)
def test_bad_options(options, words):
    with pytest.raises(errors.InvalidArgument, match=words):
        parity.run(**options)


def test_an_unknown_device():
    with pytest.raises(errors.RtxError, match="abacus"):
        parity.run(device="abacus")


def test_json_holds_the_whole_report(report):
    data = json.loads(json.dumps(report.as_dict(), allow_nan=False))
    assert data["passed"] is True
    assert len(data["outcomes"]) == len(report.outcomes)
    again = outcome_from(data["outcomes"][0])
    assert (again.operation, again.mode, again.counts) == (
        report.outcomes[0].operation, report.outcomes[0].mode, report.outcomes[0].counts,
    )  # fmt: skip
    worst = Outcome("sin", "float32", "eager", "failed", max_ulp=float("inf"))
    assert outcome_from(json.loads(json.dumps(plain(worst)))).max_ulp == float("inf")


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.outside: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.outside += [value for name, value in attrs if name in ("src", "href")]


def test_the_page_stands_alone(tmp_path: Path):
    found = parity.run(operations=["sin", "backend.relu"], dtypes=["float32"], modes=["eager"], faults={"sin": "sign"})
    path = tmp_path / "page.html"
    parity.write_html(found, path)
    page = _Page()
    text = path.read_text(encoding="utf-8")
    page.feed(text)
    assert not page.outside
    assert "script" not in page.tags
    assert page.tags.count("svg") >= 4
    assert "1 outcomes are not right" in text
    assert "xp.sin(x0)" in text
    assert "backend.relu" in text


def test_faults_by_name():
    assert parse("linalg.det=hang") == ("linalg.det", "hang")
    for text in ("sin", "=sign", "sin=bend"):
        with pytest.raises(errors.InvalidArgument):
            parse(text)
    x = np.array([[1.0, -4.0, np.nan]], np.float32)
    assert spoil([x], "ulp")[0].tolist()[0][1] == -4.0 + 16 * 2.0**-22
    assert spoil([x], "axis")[0].shape == (3, 1)
    assert spoil([np.array([True])], "sign")[0].tolist() == [False]
    assert spoil([np.array([3], np.uint8)], "sign")[0].tolist() == [253]
    assert "crash" in FAULTS


# a function of one's own


def _attention(q, k):
    weights = xp.exp(q @ k.T)
    return weights / xp.sum(weights, axis=-1, keepdims=True)


def test_check_of_a_function():
    rng = np.random.default_rng(0)
    q, k = rng.normal(size=(2, 3, 4)).astype(np.float32)
    found = parity.check(_attention, q, k)
    assert found.passed, [o.failure for o in found.failures]
    assert [o.mode for o in found.outcomes] == list(parity.MODES)
    assert found.stack == "_attention"


def test_check_against_a_formula():
    x = np.linspace(-2, 2, 9, dtype=np.float32)

    def right(x):
        return np.tanh(x) + 1e-3

    found = parity.check(xp.tanh, x, reference=right, modes=["eager"])
    assert not found.passed
    failure = found.failures[0].failure
    assert "ULP away, the bound is 16" in failure.what
    assert "print(tanh(x0))" in failure.code  # the function is the user's, whatever its name
    assert str(found).splitlines()[1] == f"  tanh float32 eager: failed: {failure.what}"
    assert parity.check(xp.tanh, x, reference=np.tanh).passed


def test_check_sees_values_that_depend_on_the_mode():
    def careless(x):
        return x * 2.0 if isinstance(x.jax, __import__("jax").core.Tracer) else x * 3.0

    found = parity.check(careless, np.ones(3, np.float32), reference=lambda x: 3.0 * x, modes=["eager", "jit"])
    assert [o.status for o in found.outcomes] == ["passed", "failed"]


def test_check_wants_numbers():
    with pytest.raises(errors.InvalidArgument):
        parity.check(xp.sin)
    with pytest.raises(errors.UnsupportedDType):
        parity.check(xp.abs, np.arange(3))
