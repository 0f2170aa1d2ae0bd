"""Where the picture goes: whole or not at all, and a bad place is known before any work."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from rtx_jax.cli.picture import check_writable, write
from rtx_jax.errors import InvalidArgument

FULL = Path("/dev/full")
linux = pytest.mark.skipif(not FULL.exists(), reason="needs Linux's /dev/full and /sys")


def test_write_replaces_and_leaves_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "demo.png"
    path.write_bytes(b"old")
    write(b"new", path)
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["demo.png"]


def test_check_leaves_nothing(tmp_path: Path) -> None:
    check_writable(tmp_path / "demo.png")
    assert os.listdir(tmp_path) == []


@linux
def test_full_disk() -> None:
    check_writable(FULL)
    with pytest.raises(InvalidArgument, match=r"--output: got /dev/full \(No space left on device\)") as caught:
        write(b"png", FULL)
    assert isinstance(caught.value.__cause__, OSError)
    assert not FULL.is_file()


def test_full_disk_keeps_the_earlier_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "demo.png"
    path.write_bytes(b"old")

    def full(source: object, target: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(InvalidArgument, match="No space left on device"):
        write(b"new", path)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["demo.png"]


@linux
def test_read_only_folder() -> None:
    with pytest.raises(InvalidArgument, match=r"--output: got /sys/demo.png .*Choose another place"):
        check_writable(Path("/sys/demo.png"))
    with pytest.raises(InvalidArgument, match="--output"):
        write(b"png", Path("/sys/demo.png"))


def test_missing_folder_and_folder_as_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="No such file or directory"):
        check_writable(tmp_path / "none" / "demo.png")
    with pytest.raises(InvalidArgument, match="Is a folder"):
        check_writable(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(InvalidArgument, match="Not a directory"):
        check_writable(tmp_path / "file" / "demo.png")
