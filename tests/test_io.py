"""save and load: every dtype, other programs' readers, shardings, damage, and files that cannot be written."""

import errno
import json
import os
import zipfile

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import rtx_jax as xp
from rtx_jax.errors import (
    BackendUnavailable,
    ConcretizationError,
    FormatError,
    InvalidArgument,
    UnsupportedDType,
)
from rtx_jax.io import files

CPUS = jax.devices("cpu")
STANDARD = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
STANDARD += ["float16", "float32", "float64", "complex64", "complex128"]
EXTENDED = ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3", "float8_e3m4", "float8_e4m3b11fnuz"]
EXTENDED += ["float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"]
NOT_SAFETENSORS = {"complex128", "float8_e4m3", "float8_e3m4", "float8_e4m3b11fnuz", "float8_e4m3fnuz"}
NOT_SAFETENSORS |= {"float8_e5m2fnuz"}


def _values(name, shape=(2, 3)):
    dtype = np.dtype(getattr(ml_dtypes, name, None) or name)
    return np.arange(1, 1 + int(np.prod(shape))).reshape(shape).astype(dtype)


def _same(array, host):
    assert isinstance(array, xp.Array)
    assert array.dtype == host.dtype and array.shape == host.shape
    assert np.asarray(array).tobytes() == host.tobytes()


@pytest.mark.parametrize("name", STANDARD + EXTENDED)
@pytest.mark.parametrize("shape", [(2, 3), (), (0, 4)])
def test_every_dtype_comes_back(tmp_path, name, shape):
    host = _values(name, shape)
    array = xp.asarray(host)
    xp.save(tmp_path / "one.npy", array)
    _same(xp.load(tmp_path / "one.npy"), host)
    for compressed in (False, True):
        xp.save(tmp_path / "many.npz", {"a": array, "b c/d": host}, compressed=compressed)
        found = xp.load(str(tmp_path / "many.npz"))
        assert list(found) == ["a", "b c/d"]
        _same(found["a"], host)
        _same(found["b c/d"], host)
    if name not in NOT_SAFETENSORS:
        xp.save(tmp_path / "many.safetensors", {"a": array, "b": host})
        found = xp.load(tmp_path / "many.safetensors")
        assert sorted(found) == ["a", "b"]
        _same(found["a"], host)


@pytest.mark.parametrize("name", sorted(NOT_SAFETENSORS))
def test_dtypes_that_safetensors_has_no_name_for(tmp_path, name):
    with pytest.raises(UnsupportedDType, match=r"weight: got dtype .*\.npz"):
        xp.save(tmp_path / "x.safetensors", {"weight": _values(name)})
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", STANDARD)
def test_numpy_reads_what_we_write_and_we_read_what_numpy_writes(tmp_path, name):
    host = _values(name)
    xp.save(tmp_path / "ours.npy", xp.asarray(host))
    assert np.load(tmp_path / "ours.npy").tobytes() == host.tobytes()
    xp.save(tmp_path / "ours.npz", {"x": xp.asarray(host)})
    with np.load(tmp_path / "ours.npz") as found:
        assert found.files == ["x"] and found["x"].dtype == host.dtype and found["x"].tobytes() == host.tobytes()
    np.save(tmp_path / "numpy.npy", np.asfortranarray(host))
    _same(xp.load(tmp_path / "numpy.npy"), host)
    np.savez_compressed(tmp_path / "numpy.npz", x=host[:, ::2])
    _same(xp.load(tmp_path / "numpy.npz")["x"], np.ascontiguousarray(host[:, ::2]))


@pytest.mark.parametrize("name", EXTENDED)
def test_numpy_finds_the_bits_of_extended_dtypes_under_their_name(tmp_path, name):
    host = _values(name)
    xp.save(tmp_path / "x.npy", xp.asarray(host))
    raw = np.load(tmp_path / "x.npy")
    assert raw.shape == host.shape and raw.dtype.names == (name,)
    assert raw[name].dtype == np.dtype(f"u{host.itemsize}")
    assert np.array_equal(raw[name], host.view(f"u{host.itemsize}"))


def test_bfloat16_as_numpy_and_jax_write_it(tmp_path):
    host = _values("bfloat16")
    np.save(tmp_path / "x.npy", host)
    _same(xp.load(tmp_path / "x.npy"), host)


def test_big_endian(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(3, dtype=">i4"))
    _same(xp.load(tmp_path / "x.npy"), np.arange(3, dtype=np.int32))


@pytest.mark.parametrize("name", ["bool", "int64", "float16", "float32", "float64", "uint8"])
def test_the_safetensors_library_reads_what_we_write_and_the_reverse(tmp_path, name):
    arrays = {"a": _values(name), "long name": _values("float32", (5,)), "empty": _values(name, (0, 2))}
    xp.save(tmp_path / "ours.safetensors", {key: xp.asarray(value) for key, value in arrays.items()})
    found = safetensors.numpy.load_file(tmp_path / "ours.safetensors")
    assert sorted(found) == sorted(arrays)
    for key, value in arrays.items():
        assert found[key].dtype == value.dtype and np.array_equal(found[key], value)
    safetensors.numpy.save_file(arrays, tmp_path / "theirs.safetensors", metadata={"format": "pt"})
    back = xp.load(tmp_path / "theirs.safetensors")
    for key, value in arrays.items():
        _same(back[key], value)


def test_plain_arrays_and_scalars(tmp_path):
    for array in (jnp.arange(3), np.arange(3), np.float32(2.5), xp.asarray(3)):
        xp.save(tmp_path / "x.npy", array)
        _same(xp.load(tmp_path / "x.npy"), np.asarray(array))
    for wrong in ([1, 2], 3.0, "text", None, np.array(["a"]), np.array([object()])):
        with pytest.raises(UnsupportedDType, match="save"):
            xp.save(tmp_path / "y.npy", wrong)
    assert not (tmp_path / "y.npy").exists()


def test_a_loaded_array_is_our_own(tmp_path):
    xp.save(tmp_path / "x.npy", xp.zeros(4))
    x = xp.load(tmp_path / "x.npy")
    x[0] = 5.0
    assert x.tolist() == [5.0, 0.0, 0.0, 0.0]
    assert xp.load(tmp_path / "x.npy").tolist() == [0.0] * 4


def test_equal_contents_are_equal_files(tmp_path):
    for name in ("a.npz", "b.npz"):
        xp.save(tmp_path / name, {"x": xp.arange(5)})
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


# --- devices and shardings ----------------------------------------------------------------------------------------


def _sharding(*spec, count=8):
    mesh = jax.make_mesh((count // 2, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2, devices=CPUS[:count])
    return NamedSharding(mesh, PartitionSpec(*spec))


def _save(path, array):
    xp.save(path, array if path.suffix == ".npy" else {"w": array})


def _load(path, **options):
    found = xp.load(path, **options)
    return found if path.suffix == ".npy" else found["w"]


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".safetensors"])
@pytest.mark.parametrize("spec", [("x",), (("x", "y"), None), (None, "y"), ()])
def test_a_sharding_comes_back(tmp_path, suffix, spec):
    path = tmp_path / f"x{suffix}"
    host = _values("bfloat16", (8, 4))
    _save(path, xp.asarray(host, device=_sharding(*spec)))
    found = _load(path)
    _same(found, host)
    assert found.sharding.is_equivalent_to(_sharding(*spec), 2)
    assert found.sharding.mesh.axis_types == (AxisType.Auto,) * 2
    assert _load(path, sharding="drop").device == CPUS[0]
    assert _load(path, device="cpu:3").device == CPUS[3]
    assert _load(path, device=_sharding("y")).sharding.is_equivalent_to(_sharding("y"), 2)


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".safetensors"])
def test_other_readers_do_not_see_the_record(tmp_path, suffix):
    path = tmp_path / f"x{suffix}"
    host = np.arange(8.0)
    _save(path, xp.asarray(host, device=_sharding("x")))
    if suffix == ".npy":
        assert np.array_equal(np.load(path), host)
    elif suffix == ".npz":
        with np.load(path) as found:
            assert found.files == ["w"] and np.array_equal(found["w"], host)
    else:
        assert np.array_equal(safetensors.numpy.load_file(path)["w"], host)


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".safetensors"])
def test_devices_that_are_not_here(tmp_path, suffix, monkeypatch):
    path = tmp_path / f"x{suffix}"
    _save(path, xp.asarray(np.arange(8.0), device=_sharding("x")))
    monkeypatch.setattr(jax, "local_devices", lambda **_: CPUS[:4])
    with pytest.raises(BackendUnavailable, match=r"cpu:4, cpu:5, cpu:6, cpu:7 are not here.*sharding=\"drop\""):
        xp.load(path)
    monkeypatch.undo()
    assert _load(path, sharding="drop").tolist() == list(range(8))


def test_one_device_is_not_recorded(tmp_path):
    xp.save(tmp_path / "x.npy", xp.zeros(3, device="cpu:5"))
    assert xp.load(tmp_path / "x.npy").device == CPUS[0]


def test_a_damaged_record(tmp_path):
    path = tmp_path / "x.npy"
    xp.save(path, xp.asarray(np.arange(8.0), device=_sharding("x")))
    data = path.read_bytes()
    path.write_bytes(data.replace(b'"platform"', b'"plutform"'))
    with pytest.raises(FormatError, match="record of a sharding"):
        xp.load(path)
    assert xp.load(path, sharding="drop").tolist() == list(range(8))
    path.write_bytes(data[:-5])
    with pytest.raises(FormatError, match="ends within the record"):
        xp.load(path)


# --- what is refused ----------------------------------------------------------------------------------------------


def test_arguments_that_do_not_fit(tmp_path):
    x = xp.zeros(3)
    with pytest.raises(InvalidArgument, match=r"\.npy, \.npz or \.safetensors"):
        xp.save(tmp_path / "x.txt", x)
    with pytest.raises(InvalidArgument, match=r"\.npy, \.npz or \.safetensors"):
        xp.load(tmp_path / "x")
    with pytest.raises(InvalidArgument, match="a mapping of names"):
        xp.save(tmp_path / "x.npz", x)
    with pytest.raises(InvalidArgument, match="one array"):
        xp.save(tmp_path / "x.npy", {"x": x})
    with pytest.raises(InvalidArgument, match="compressed"):
        xp.save(tmp_path / "x.npy", x, compressed=True)
    with pytest.raises(InvalidArgument, match="name"):
        xp.save(tmp_path / "x.npz", {1: x})
    with pytest.raises(InvalidArgument, match="restore or drop"):
        xp.load(tmp_path / "x.npy", sharding="other")
    with pytest.raises(BackendUnavailable, match="load"):
        xp.load(tmp_path / "x.npy", device="cpu:99")
    assert os.listdir(tmp_path) == []


def test_tracers_cannot_be_saved(tmp_path):
    with pytest.raises(ConcretizationError, match="save"):
        xp.jit(lambda x: xp.save(tmp_path / "x.npy", x))(xp.zeros(3))
    assert os.listdir(tmp_path) == []


def _damage(data):
    yield b""
    yield data[:5]
    yield data[: len(data) // 2]
    yield data[:-1]
    yield b"\x00" * len(data)
    yield b"not an array at all, but a text of some length that no reader should take for one"


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".safetensors"])
def test_damaged_files(tmp_path, suffix):
    path = tmp_path / f"x{suffix}"
    _save(path, xp.asarray(np.arange(100.0)))
    for data in _damage(path.read_bytes()):
        path.write_bytes(data)
        with pytest.raises(FormatError, match="load: argument path") as caught:
            xp.load(path)
        assert str(path) in str(caught.value)
        assert caught.value.path == str(path)


def test_a_flipped_bit_in_an_archive(tmp_path):
    path = tmp_path / "x.npz"
    xp.save(path, {"x": xp.arange(1000)})
    data = bytearray(path.read_bytes())
    data[2000] ^= 1
    path.write_bytes(data)
    with pytest.raises(FormatError, match="CRC"):
        xp.load(path)


def test_files_of_other_contents(tmp_path):
    np.save(tmp_path / "text.npy", np.array(["a", "b"]))
    np.save(tmp_path / "objects.npy", np.array([object()], dtype=object), allow_pickle=True)
    np.save(tmp_path / "record.npy", np.zeros(2, [("a", "i4"), ("b", "f4")]))
    np.save(tmp_path / "dates.npy", np.array(["2020-01-01"], "M8[D]"))
    with zipfile.ZipFile(tmp_path / "other.npz", "w") as archive:
        archive.writestr("readme.txt", "no array")
    for path in sorted(tmp_path.iterdir()):
        with pytest.raises(FormatError, match="load"):
            xp.load(path)


def _header(**entries):
    text = json.dumps(entries).encode()
    return len(text).to_bytes(8, "little") + text


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (_header(a={"dtype": "F99", "shape": [1], "data_offsets": [0, 4]}) + b"\0" * 4, "'F99'"),
        (_header(a={"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}) + b"\0" * 4, "shape"),
        (_header(a={"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}) + b"\0" * 8, "after 0"),
        (_header(a={"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}) + b"\0" * 8, "bytes after"),
        (_header(a={"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}) + b"\0" * 3, "ends within"),
        (_header(a={"dtype": "F32"}), "data_offsets"),
        ((2**60).to_bytes(8, "little") + b"{}", "header of"),
        ((3).to_bytes(8, "little") + b"[1]", "no mapping"),
    ],
    ids=["dtype", "size", "gap", "tail", "short", "fields", "huge", "list"],
)
def test_damaged_safetensors(tmp_path, data, words):
    path = tmp_path / "x.safetensors"
    path.write_bytes(data)
    with pytest.raises(FormatError, match=words):
        xp.load(path)


# --- the file system ----------------------------------------------------------------------------------------------


def test_files_and_folders_that_are_not_there(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        xp.load(tmp_path / "x.npy")
    assert caught.value.filename == str(tmp_path / "x.npy")
    with pytest.raises(FileNotFoundError) as caught:
        xp.save(tmp_path / "no" / "x.npy", xp.zeros(3))
    assert caught.value.filename == str(tmp_path / "no" / "x.npy")
    (tmp_path / "folder.npy").mkdir()
    with pytest.raises(IsADirectoryError):
        xp.load(tmp_path / "folder.npy")
    with pytest.raises(OSError, match="folder.npy"):
        xp.save(tmp_path / "folder.npy", xp.zeros(3))
    assert os.listdir(tmp_path) == ["folder.npy"]


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".safetensors"])
def test_a_full_disk_leaves_the_file_as_it_was(tmp_path, suffix, monkeypatch):
    path = tmp_path / f"x{suffix}"
    _save(path, xp.zeros(3))
    before = path.read_bytes()

    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(OSError, match="No space left") as caught:
        _save(path, xp.ones(100))
    assert caught.value.errno == errno.ENOSPC and caught.value.filename == str(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == [path.name]


def test_a_folder_that_cannot_be_written(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), "/some/temporary/name")

    monkeypatch.setattr(files.os, "open", refuse)
    with pytest.raises(PermissionError) as caught:
        xp.save(tmp_path / "x.npy", xp.zeros(3))
    assert caught.value.filename == str(tmp_path / "x.npy")


def test_a_file_has_the_permissions_of_any_other(tmp_path):
    (tmp_path / "other").touch()
    xp.save(tmp_path / "x.npy", xp.zeros(3))
    assert (tmp_path / "x.npy").stat().st_mode == (tmp_path / "other").stat().st_mode
