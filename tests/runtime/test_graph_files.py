"""Captured graphs in files: saved, exported, loaded, in other processes and when damaged."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rtx_jax as xp
from rtx_jax import errors
from rtx_jax.backend import NumpyBackend
from rtx_jax.runtime import BufferView, CapturedGraph, JaxRuntime, NumpyRuntime, Output, Runtime, capture

N = 4


def views(runtime: Runtime, count: int) -> list[BufferView]:
    return [runtime.allocate(4 * N).view("float32", (N,)) for _ in range(count)]


def scaled(runtime: Runtime) -> CapturedGraph:
    """A graph of ``a * [0, 1, 2, 3] + b`` whose weights the function reads without receiving them."""
    a, b, c = views(runtime, 3)
    weight = np.arange(N, dtype=np.float32)
    if runtime.name() != "numpy":
        weight = xp.asarray(weight)  # type: ignore[assignment]

    def step(a: object, b: object, out: Output) -> None:
        out.write(a * weight + b)  # type: ignore[operator]

    return runtime.capture(step, inputs=[a, b], outputs=[c])


def run(graph: CapturedGraph, *values: list[float]) -> list[float]:
    for view, value in zip(graph.inputs, values, strict=True):
        assert isinstance(view, BufferView)
        view.write(value)
    graph.launch()
    (out,) = graph.outputs
    assert isinstance(out, BufferView)
    return out.read().tolist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("is_trusted", [False, True])
def test_a_saved_graph_runs_again(runtime: Runtime, tmp_path: Path, is_trusted: bool) -> None:
    graph = scaled(runtime)
    path = tmp_path / "graph"
    graph.save(path)
    loaded = CapturedGraph.load(path, runtime.default_client(), is_trusted=is_trusted)
    assert loaded.name == "step"
    assert loaded.memory.outputs == graph.memory.outputs
    assert loaded.result == loaded.outputs
    assert loaded.launch_count == 0
    assert {x.buffer for x in (*loaded.inputs, *loaded.outputs)}.isdisjoint(x.buffer for x in graph.inputs)
    assert run(loaded, [1, 1, 1, 1], [10, 20, 30, 40]) == [10, 21, 32, 43]
    place = loaded.outputs[0].ptr
    assert run(loaded, [2, 2, 2, 2], [0, 0, 0, 0]) == [0, 2, 4, 6]
    assert loaded.outputs[0].ptr == place
    assert run(graph, [1, 1, 1, 1], [0, 0, 0, 0]) == [0, 1, 2, 3], "the saved one is as it was"


def test_what_was_loaded_can_be_saved(runtime: Runtime, tmp_path: Path) -> None:
    scaled(runtime).save(tmp_path / "one")
    once = CapturedGraph.load(tmp_path / "one", runtime.default_client())
    once.save(tmp_path / "two")
    twice = CapturedGraph.load(tmp_path / "two", runtime.default_client(), is_trusted=True)
    assert run(twice, [1, 1, 1, 1], [1, 1, 1, 1]) == [1, 2, 3, 4]


SCRIPT = """
import sys
import numpy as np
import rtx_jax
from rtx_jax.runtime import CapturedGraph
graph = CapturedGraph.load(sys.argv[1], is_trusted=sys.argv[2] == "trusted")
graph.inputs[0].write([1, 2, 3, 4])
graph.launch()
graph.launch()
print(graph.outputs[0].read().tolist(), graph.launch_count)
"""


@pytest.mark.parametrize("kind", ["saved", "trusted", "exported", "numpy"])
def test_in_another_process(tmp_path: Path, kind: str) -> None:
    graph = scaled(NumpyRuntime() if kind == "numpy" else JaxRuntime("cpu"))
    if kind == "exported":
        graph.export(tmp_path / "graph")
    else:
        graph.save(tmp_path / "graph")
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "graph"), kind], capture_output=True, text=True, timeout=120
    )
    assert done.stdout.split("\n")[0] == "[0.0, 2.0, 6.0, 12.0] 2", done.stderr


def test_an_export_for_several_platforms(tmp_path: Path) -> None:
    graph = scaled(JaxRuntime("cpu"))
    graph.export(tmp_path / "graph")
    with zipfile.ZipFile(tmp_path / "graph") as archive:
        facts = json.loads(archive.read("graph.json"))
        assert sorted(archive.namelist()) == ["graph.json", "program", "values/0"], "no machine code"
    assert facts["program"]["platforms"] == ["cpu", "cuda", "rocm", "tpu"]
    loaded = CapturedGraph.load(tmp_path / "graph")
    assert run(loaded, [1, 1, 1, 1], [0, 0, 0, 0]) == [0, 1, 2, 3]


def test_an_export_for_another_platform(tmp_path: Path) -> None:
    graph = scaled(JaxRuntime("cpu"))
    graph.export(tmp_path / "graph", platforms=["tpu"])
    with pytest.raises(errors.BackendLimitation, match="tpu"):
        CapturedGraph.load(tmp_path / "graph")
    for wrong in ("gpu", "quantum"):
        with pytest.raises(errors.InvalidArgument, match="platforms"):
            graph.export(tmp_path / "wrong", platforms=[wrong])
    with pytest.raises(errors.InvalidArgument, match="platforms"):
        graph.export(tmp_path / "wrong", platforms=[])
    assert not (tmp_path / "wrong").exists()


def test_state_and_draws_in_files(tmp_path: Path) -> None:
    total = xp.asarray([1.0, 2.0])

    def step(x: xp.Array) -> xp.Array:
        total[...] += x
        return total + 0 * xp.random.uniform(size=(2,)), xp.random.uniform(size=(2,))

    graph = capture(step, xp.ones(2))
    graph.launch()
    for way in ("save", "export"):
        getattr(graph, way)(tmp_path / way)
        loaded = CapturedGraph.load(tmp_path / way, is_trusted=True)
        (x,) = loaded.inputs
        assert x.tolist() == [0, 0], "inputs are not saved"
        x[...] = 10.0
        by_dtype = {len(loaded.outputs)}
        assert by_dtype == {3}
        loaded.launch()
        seen = [y.tolist() for y in loaded.outputs]
        assert [12, 13] in seen
        loaded.launch()
        assert [22, 23] in [y.tolist() for y in loaded.outputs]
        assert not [y for y in seen if y in [z.tolist() for z in loaded.outputs]], "another draw"
    assert total.tolist() == [2, 3]


def test_64_bit_values_in_files(tmp_path: Path) -> None:
    x = xp.asarray([1.0, 2**-40])
    table = xp.asarray([2**40, 1])
    graph = capture(lambda x: (x + 1, table * 2), x)
    graph.export(tmp_path / "graph")
    loaded = CapturedGraph.load(tmp_path / "graph")
    loaded.inputs[0][...] = x
    loaded.launch()
    assert [y.dtype for y in loaded.outputs] == ["float64", "int64"]
    assert loaded.outputs[0][1] == 1 + 2**-40
    assert loaded.outputs[1].tolist() == [2**41, 2]


def test_dtypes_that_numpy_has_not(tmp_path: Path) -> None:
    weight = xp.asarray([1.5, 2.5], dtype=xp.bfloat16)
    graph = capture(lambda x: x * weight, xp.ones(2, dtype=xp.bfloat16))
    graph.save(tmp_path / "graph")
    loaded = CapturedGraph.load(tmp_path / "graph")
    loaded.inputs[0][...] = 2.0
    loaded.launch()
    assert loaded.outputs[0].dtype == xp.bfloat16
    assert loaded.outputs[0].tolist() == [3, 5]


def test_on_another_device(tmp_path: Path) -> None:
    scaled(JaxRuntime("cpu")).save(tmp_path / "graph")
    client = JaxRuntime("cpu").client("cpu:5")
    loaded = CapturedGraph.load(tmp_path / "graph", client, is_trusted=True)
    assert run(loaded, [1, 1, 1, 1], [0, 0, 0, 0]) == [0, 1, 2, 3]
    assert all(x.buffer.client is client for x in loaded.inputs)


def test_views_of_one_buffer_in_files(runtime: Runtime, tmp_path: Path) -> None:
    buffer = runtime.allocate(32)
    first, second = buffer.view("float32", (2,)), buffer.view("float32", (2,), offset=16)
    graph = runtime.capture(lambda a, out: out.write(a + 1), inputs=[first], outputs=[second])
    graph.save(tmp_path / "graph")
    loaded = CapturedGraph.load(tmp_path / "graph", runtime.default_client())
    assert loaded.inputs[0].buffer is loaded.outputs[0].buffer
    loaded.inputs[0].write([1, 2])
    loaded.launch()
    assert loaded.inputs[0].buffer.view("float32").read().tolist() == [1, 2, 0, 0, 2, 3, 0, 0]


def test_steps_of_numpy_in_files(tmp_path: Path) -> None:
    B = NumpyBackend()
    x, out = np.ones((2, 3)), np.zeros((2, 3))

    def step(x: object, out: Output) -> None:
        y = np.concatenate([x[:, ::-1], np.sort(x, axis=1)], axis=1)  # type: ignore[index, type-var]
        y[0, 1:3] = -np.inf
        y += np.float64(1)
        z = np.add.reduce(np.stack(np.split(y, 2, axis=1)), axis=0) + np.linalg.svd(x, full_matrices=False)[1][0]
        z = z.astype("float64") * (1 + 0j).real + B.rand((2, 3), dtype="float64") * 0
        out.write(np.where(z > -1e300, B.clamp(z, -3.0, 3.0), np.full_like(z, 5)))

    graph = NumpyRuntime().capture(step, inputs=[x], outputs=[out])
    graph.save(tmp_path / "graph")
    loaded = CapturedGraph.load(tmp_path / "graph")
    assert repr(loaded.memory) == repr(graph.memory)
    x[...] = np.arange(6).reshape(2, 3) / 4
    loaded.inputs[0][...] = x
    graph.launch()
    loaded.launch()
    assert (out == 5).sum() == 2
    np.testing.assert_array_equal(loaded.outputs[0], out)


def test_what_has_no_form_in_a_file(tmp_path: Path) -> None:
    def host(x: jax.Array) -> jax.Array:
        return jax.pure_callback(np.sin, jax.ShapeDtypeStruct(x.shape, x.dtype), x)

    graph = capture(host, jnp.ones(2))
    graph.launch()
    for write in (graph.save, graph.export):
        with pytest.raises(errors.BackendLimitation):
            write(tmp_path / "graph")
    x = np.ones(3)
    for fn in (lambda x: np.apply_along_axis(np.cumsum, 0, x), lambda x: np.piecewise(x, [x > 0], [np.sin])):
        graph = NumpyRuntime().capture(lambda x, out, fn=fn: out.write(fn(x)), inputs=[x], outputs=[x.copy()])
        graph.launch()
        with pytest.raises(errors.BackendLimitation):
            graph.save(tmp_path / "graph")
    with pytest.raises(errors.BackendLimitation, match="NumPy"):
        scaled(NumpyRuntime()).export(tmp_path / "graph")
    assert list(tmp_path.iterdir()) == []


def test_on_several_devices(tmp_path: Path) -> None:
    mesh = jax.make_mesh((8,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
    x = xp.asarray(np.arange(8.0), device=jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("d")))
    graph = capture(lambda x: x * 2, x)
    with pytest.raises(errors.BackendLimitation, match="several devices"):
        graph.save(tmp_path / "graph")


def test_a_client_of_another_kind(tmp_path: Path) -> None:
    scaled(NumpyRuntime()).save(tmp_path / "numpy")
    scaled(JaxRuntime("cpu")).save(tmp_path / "cpu")
    with pytest.raises(errors.BackendLimitation):
        CapturedGraph.load(tmp_path / "numpy", JaxRuntime("cpu").default_client())
    with pytest.raises(errors.BackendLimitation):
        CapturedGraph.load(tmp_path / "cpu", NumpyRuntime().default_client())


def rewritten(path: Path, change: object) -> None:
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    facts = json.loads(parts["graph.json"])
    change(facts, parts)  # type: ignore[operator]
    parts["graph.json"] = json.dumps(facts).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in parts.items():
            archive.writestr(name, data)


DAMAGE = {
    "another format": lambda facts, parts: facts.update(format="something"),
    "a later version": lambda facts, parts: facts.update(version=99),
    "no operands": lambda facts, parts: (facts.pop("sources", 0), facts.pop("operands", 0)),
    "a missing value": lambda facts, parts: parts.pop("values/0"),
    "a short value": lambda facts, parts: parts.update({"values/0": b"abc"}),
    "a wrong input": lambda facts, parts: facts["inputs"][0].update(source=40),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damaged_files(runtime: Runtime, tmp_path: Path, name: str) -> None:
    scaled(runtime).save(tmp_path / "graph")
    rewritten(tmp_path / "graph", DAMAGE[name])
    with pytest.raises(errors.FormatError):
        CapturedGraph.load(tmp_path / "graph", runtime.default_client())


def test_files_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "graph"
    for content in (b"", b"text", b"PK\x03\x04broken"):
        path.write_bytes(content)
        with pytest.raises(errors.FormatError):
            CapturedGraph.load(path)
    with pytest.raises(FileNotFoundError):
        CapturedGraph.load(tmp_path / "missing")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("other", b"")
    with pytest.raises(errors.FormatError):
        CapturedGraph.load(path)


def test_damaged_programs(tmp_path: Path) -> None:
    scaled(JaxRuntime("cpu")).save(tmp_path / "graph")
    rewritten(tmp_path / "graph", lambda facts, parts: parts.update(executable=b"\x80\x04garbage"))
    assert run(CapturedGraph.load(tmp_path / "graph"), [1, 1, 1, 1], [0, 0, 0, 0]) == [0, 1, 2, 3]
    with pytest.raises(errors.FormatError):
        CapturedGraph.load(tmp_path / "graph", is_trusted=True)
    rewritten(tmp_path / "graph", lambda facts, parts: parts.update(program=b"garbage"))
    with pytest.raises(errors.FormatError):
        CapturedGraph.load(tmp_path / "graph")


def test_a_program_of_another_version(tmp_path: Path) -> None:
    scaled(JaxRuntime("cpu")).save(tmp_path / "graph")
    rewritten(tmp_path / "graph", lambda facts, parts: facts["made_on"].update(jax="0.0.1"))
    loaded = CapturedGraph.load(tmp_path / "graph", is_trusted=True)
    assert run(loaded, [1, 1, 1, 1], [0, 0, 0, 0]) == [0, 1, 2, 3], "compiled here"
    rewritten(tmp_path / "graph", lambda facts, parts: parts.pop("program"))
    with pytest.raises(errors.BackendLimitation, match="jax"):
        CapturedGraph.load(tmp_path / "graph", is_trusted=True)


@pytest.mark.parametrize(
    "function", ["os.system", "numpy.save", "numpy.load", "numpy.fromfile", "numpy.add.at", "numpy.nowhere"]
)
def test_a_file_cannot_call_anything_else(tmp_path: Path, function: str) -> None:
    x = np.ones(3)
    graph = NumpyRuntime().capture(lambda x, out: out.write(np.cumsum(x)), inputs=[x], outputs=[x.copy()])
    graph.save(tmp_path / "graph")
    rewritten(tmp_path / "graph", lambda facts, parts: facts["steps"][0].update(function=function))
    with pytest.raises(errors.FormatError, match=function.split(".")[-1]):
        CapturedGraph.load(tmp_path / "graph")


def test_a_failed_save_leaves_the_file_that_was_there(tmp_path: Path) -> None:
    path = tmp_path / "graph"
    scaled(NumpyRuntime()).save(path)
    before = path.read_bytes()
    x = np.ones(3)
    graph = NumpyRuntime().capture(
        lambda x, out: out.write(np.piecewise(x, [x > 0], [np.sin])), inputs=[x], outputs=[x.copy()]
    )
    with pytest.raises(errors.BackendLimitation):
        graph.save(path)
    assert path.read_bytes() == before


def test_kernels_are_exported_for_all_platforms(tmp_path: Path) -> None:
    q = xp.asarray(np.random.default_rng(0).normal(size=(1, 4, 2, 8)).astype(np.float32))
    graph = capture(lambda q: xp.nn.rms_norm(xp.nn.attention(q, q, q), xp.ones(8, dtype=xp.float32)), q)
    graph.export(tmp_path / "graph")
    loaded = CapturedGraph.load(tmp_path / "graph")
    loaded.inputs[0][...] = q
    loaded.launch()
    graph.launch()
    np.testing.assert_allclose(loaded.outputs[0], graph.result, rtol=1e-6)
    with pytest.raises(errors.BackendLimitation, match="rocm"):
        # What is chosen for one platform asks for its device.
        graph.export(tmp_path / "rocm", platforms=["rocm"])
