"""Measured block sizes are found again, and a damaged file is told and harmless."""

from __future__ import annotations

import json
import os
import warnings
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from rtx_jax.errors import FallbackWarning, InvalidArgument
from rtx_jax.kernels import tuning


@dataclass(frozen=True)
class Blocks:
    query: int = 128
    key: int = 64
    pipelined: bool = True
    name: str = "plain"


ENTRY = tuning.Entry("toy.forward", "Abacus 3000", "float32 queries=128", {"query": 32}, 10.0, 20.0)


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("RTX_JAX_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def look_up(default: Blocks = Blocks()) -> Blocks:
    return tuning.tuned(ENTRY.kernel, ENTRY.kind, ENTRY.shapes, default)


def test_without_a_file_the_defaults_hold(folder: Path) -> None:
    assert look_up() == Blocks()
    assert tuning.entries() == []
    assert not folder.exists()


def test_what_was_stored_is_found() -> None:
    tuning.store(ENTRY)
    assert look_up() == Blocks(query=32)
    assert look_up(Blocks(key=16)) == Blocks(query=32, key=16)
    assert tuning.entries() == [ENTRY]


@pytest.mark.parametrize(
    "other",
    [
        {"kernel": "toy.backward"},
        {"kind": "Abacus 4000"},
        {"shapes": "float32 queries=256"},
    ],
)
def test_other_calls_keep_their_defaults(other: dict[str, str]) -> None:
    tuning.store(replace(ENTRY, **other))
    assert look_up() == Blocks()


def test_a_later_entry_takes_the_place_of_an_earlier_one() -> None:
    tuning.store(ENTRY)
    tuning.store(replace(ENTRY, kind="Abacus 4000"))
    assert look_up() == Blocks(query=32)
    tuning.store(replace(ENTRY, blocks={"query": 64, "key": 128}))
    assert look_up() == Blocks(query=64, key=128)
    assert len(tuning.entries()) == 2


def test_forgetting() -> None:
    tuning.store(ENTRY)
    tuning.forget()
    tuning.forget()
    assert look_up() == Blocks()


def test_the_file_is_replaced_as_a_whole(folder: Path) -> None:
    tuning.store(ENTRY)
    tuning.store(replace(ENTRY, blocks={"key": 16}))
    assert [path.name for path in folder.iterdir()] == ["tuning.json"]
    content = json.loads((folder / "tuning.json").read_text())
    assert content["version"] == 1
    assert content["kernels"]["toy.forward"]["Abacus 3000"]["float32 queries=128"]["blocks"] == {"key": 16}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "not readable as JSON"),
        ('{"version": 1, "kernels": {', "not readable as JSON"),
        ("\xff\xfe", "not readable as JSON"),
        ("[]", "not a file of version 1"),
        ('{"version": 2, "kernels": {}}', "not a file of version 1"),
        ('{"version": 1}', "no table at kernels"),
        ('{"version": 1, "kernels": {"toy.forward": 3}}', "no table at toy.forward"),
        ('{"version": 1, "kernels": {"toy.forward": {"Abacus 3000": []}}}', "no table at toy.forward, Abacus 3000"),
    ],
)
def test_a_damaged_file_is_told_once(folder: Path, text: str, told: str) -> None:
    folder.mkdir()
    (folder / "tuning.json").write_bytes(text.encode("latin-1"))
    with pytest.warns(FallbackWarning, match=told):
        assert look_up() == Blocks()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert look_up() == Blocks()


@pytest.mark.parametrize(
    "wrong",
    [
        {"blocks": {"query": 0}},
        {"blocks": {"query": -8}},
        {"blocks": {"query": True}},
        {"blocks": {"query": 1.5}},
        {"blocks": {"query": "64"}},
        {"blocks": {"query": 1 << 40}},
        {"blocks": {}},
        {"blocks": None},
        {"microseconds": "fast"},
        {"microseconds": float("inf")},
        {"default_microseconds": -1.0},
    ],
)
def test_a_wrong_entry_is_told_and_the_others_hold(folder: Path, wrong: dict[str, object]) -> None:
    tuning.store(replace(ENTRY, shapes="whole"))
    path = folder / "tuning.json"
    content = json.loads(path.read_text())
    kinds = content["kernels"]["toy.forward"]["Abacus 3000"]
    kinds[ENTRY.shapes] = kinds["whole"] | wrong
    path.write_text(json.dumps(content))
    with pytest.warns(FallbackWarning, match="no block sizes and times at toy.forward, Abacus 3000, float32"):
        assert look_up() == Blocks()
    assert tuning.tuned(ENTRY.kernel, ENTRY.kind, "whole", Blocks()) == Blocks(query=32)


def test_a_block_of_another_version_of_the_kernel() -> None:
    tuning.store(replace(ENTRY, blocks={"query": 32, "depth": 2}))
    with pytest.warns(FallbackWarning, match=r"names depth, which is no block of it.*key, query"):
        assert look_up() == Blocks()


def test_storing_keeps_a_damaged_file_beside(folder: Path) -> None:
    folder.mkdir()
    (folder / "tuning.json").write_text("{")
    tuning.store(ENTRY)
    assert look_up() == Blocks(query=32)
    assert (folder / "tuning.json.damaged").read_text() == "{"


@pytest.mark.parametrize("blocks", [{}, {"query": 0}, {"query": 1.0}])
def test_no_sizes_cannot_be_stored(blocks: dict[str, int]) -> None:
    with pytest.raises(InvalidArgument, match="wanted a positive size for each block"):
        tuning.store(replace(ENTRY, blocks=blocks))


def test_a_folder_that_cannot_be_made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    monkeypatch.setenv("RTX_JAX_CACHE_DIR", str(tmp_path / "taken" / "cache"))
    with pytest.raises(InvalidArgument, match="RTX_JAX_CACHE_DIR"):
        tuning.store(ENTRY)
    assert look_up() == Blocks()


def test_a_file_that_changes_is_read_again(folder: Path) -> None:
    tuning.store(ENTRY)
    assert look_up() == Blocks(query=32)
    path = folder / "tuning.json"
    path.write_text(path.read_text().replace('"query": 32', '"query": 96'))
    os.utime(path, ns=(0, 0))
    assert look_up() == Blocks(query=96)


def test_the_class_rounds_lengths_up() -> None:
    assert tuning.shape_class("float32", "", queries=1, keys=7, size=129) == "float32 queries=1 keys=8 size=256"
    assert tuning.shape_class(queries=1024) == tuning.shape_class(queries=513) != tuning.shape_class(queries=512)


def test_sizes_of_blocks_are_whole_numbers_alone() -> None:
    assert tuning.block_sizes(Blocks()) == {"query": 128, "key": 64}
