"""A file of the user's is read within bounds, whoever reads it; nothing waits for a writer."""

import os
import socket
from pathlib import Path

import pytest

from agenteval.config import beneath
from agenteval.config.allowlists import load_any
from agenteval.config.files import read_toml
from agenteval.errors import UsageError
from agenteval.host import read_bytes, read_text
from agenteval.logs.counts_csv import load_counts


def bind_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as opened:
        opened.bind(path.name)  # a path of a socket has at most 107 bytes


def lengthen(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 32)  # it takes no room on the disk


KINDS = {
    "a FIFO": (os.mkfifo, "is a FIFO, and only regular files are read: take it away"),
    "a socket": (bind_socket, "is a socket, and only regular files are read: take it away"),
    "a device": (
        lambda path: path.symlink_to("/dev/zero"),
        "is a device, and only regular files are read: take it away",
    ),
    "a folder": (Path.mkdir, "is a folder, and only regular files are read: take it away"),
    "a long file": (lengthen, "which is the most that is read of such a file: make it smaller"),
}
READERS = {
    "text": read_text,
    "toml": read_toml,
    "counts": load_counts,
    **{
        name: lambda path, name=name: load_any(f"{name}:{path}", roots=[])
        for name in ("claude-code", "opencode", "opencode-1.0")
    },
}


@pytest.mark.timeout(30)
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_file_of_a_bearable_size_is_one_line_with_its_cure(
    tmp_path, monkeypatch, kind, reader
) -> None:
    monkeypatch.chdir(tmp_path)
    make, complaint = KINDS[kind]
    path = tmp_path / "given"
    make(path)
    with pytest.raises(UsageError) as caught:
        READERS[reader](path)
    (line,) = str(caught.value).splitlines()
    assert (line.startswith(f"{path}: is "), line.endswith(complaint)) == (True, True)


@pytest.mark.parametrize("kind", KINDS)
def test_within_a_project_a_device_cannot_be_linked_to(tmp_path, monkeypatch, kind) -> None:
    monkeypatch.chdir(tmp_path)
    make, complaint = KINDS[kind]
    make(tmp_path / "given")
    complaint = beneath.LINK if kind == "a device" else complaint
    for read in (beneath.read, read_toml):
        with pytest.raises(UsageError) as caught:
            read(tmp_path / "given", tmp_path)
        assert str(caught.value).endswith(complaint)


def test_a_file_that_is_longer_than_it_says_is_read_to_the_bound_only() -> None:
    with pytest.raises(UsageError, match="is larger than 0 MB"):
        read_bytes(Path("/proc/self/maps"), largest=10)
