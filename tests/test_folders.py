"""What a killed process leaves in the temporary folder goes when the next of its kind starts."""

import os
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

from agenteval import host

SOCKET_OF_A_TRIAL = """
import asyncio, sys
from agenteval.harness.play import opened

async def main():
    async with opened() as way:
        print(way.path, flush=True)
        await asyncio.to_thread(sys.stdin.read)

asyncio.run(main())
"""


@contextmanager
def holding(place: Path):
    """A process with the socket of a trial, and the folder of that."""
    with subprocess.Popen(
        [sys.executable, "-c", SOCKET_OF_A_TRIAL],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"TMPDIR": str(place)},
    ) as process:
        try:
            yield process, Path(process.stdout.readline().strip()).parent
        finally:
            process.stdin.close()


def test_the_folder_of_a_killed_run_with_a_harness_goes_at_the_next_and_no_other(tmp_path) -> None:
    place = tmp_path / ("a long name" * 10)  # longer than the path of a socket may be
    (foreign := place / "agenteval-of-somebody").mkdir(parents=True)
    with holding(place) as (_, living):
        with holding(place) as (process, left):
            process.kill()
        assert {*place.iterdir()} == {foreign, living, left}
        with holding(place) as (_, young):
            assert {*place.iterdir()} == {foreign, living, young}
    assert [*place.iterdir()] == [foreign]


def test_a_link_of_another_is_not_followed(tmp_path, monkeypatch) -> None:
    (kept := tmp_path / "kept").mkdir()
    (place := tmp_path / "place").mkdir()
    (place / f"{host.PREFIX}x").symlink_to(kept)
    monkeypatch.setattr("tempfile.tempdir", str(place))
    with host.temporary_folder() as folder:
        assert folder.is_dir()
    assert kept.is_dir()


def test_a_folder_that_was_swept_before_it_was_opened_is_made_again(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    made, make = [], tempfile.mkdtemp

    def swept(prefix: str) -> str:
        made.append(make(prefix=prefix))
        if len(made) == 1:
            Path(made[0]).rmdir()
        return made[-1]

    monkeypatch.setattr(tempfile, "mkdtemp", swept)
    with host.temporary_folder() as folder:
        assert (len(made), made[-1]) == (2, str(folder))


def test_a_folder_that_was_swept_before_it_was_locked_is_made_again(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    made, lock = [], host.fcntl.flock

    def swept(held: int, how: int) -> None:
        lock(held, how)
        made.append(Path(f"/proc/self/fd/{held}").readlink())
        if len(made) == 1:
            made[0].rmdir()

    monkeypatch.setattr(host.fcntl, "flock", swept)
    with host.temporary_folder() as folder:
        assert (len(made), made[-1]) == (2, folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="a folder of another user is made by root")
def test_a_folder_of_another_user_stays(tmp_path, monkeypatch) -> None:
    (other := tmp_path / f"{host.PREFIX}other").mkdir()
    os.chown(other, 12345, 12345)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with host.temporary_folder():
        assert other.is_dir()


ADDS = """
import sys, time
from pathlib import Path
from agenteval.host import locked
folder = Path(sys.argv[1])
for _ in range(20):
    with locked(folder):
        number = int((folder / "n").read_text()) if (folder / "n").exists() else 0
        time.sleep(0.001)
        (folder / "n").write_text(str(number + 1))
"""


def test_a_locked_folder_is_changed_by_one_process_at_a_time(tmp_path) -> None:
    place = tmp_path / "made"
    adding = [subprocess.Popen([sys.executable, "-c", ADDS, str(place)]) for _ in range(4)]
    codes = [one.wait(60) for one in adding]
    assert (codes, (place / "n").read_text()) == ([0] * 4, "80")
