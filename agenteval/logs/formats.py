"""The formats of logs: what each program's files are called, and where they lie.

A new format is a reader's module, and its tables in formats.toml and keys.toml.
"""

import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path

import msgspec

from agenteval.errors import UsageError
from agenteval.trial.session import Fact, Session, Skipped

Read = Callable[[Path], Iterator[Session | Skipped]]


class LogFormat(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One program's logs; formats.toml explains the fields."""

    name: str
    title: str
    reader: str
    files: tuple[str, ...]
    homes: tuple[tuple[str, str, str], ...] = ()
    hidden: tuple[Fact, ...] = ()

    @property
    def read(self) -> Read:
        return _READERS[self.name]

    def find_files(
        self,
        path: Path,
        *,
        by_ending: bool = False,
    ) -> Iterator[Path]:
        """Yield the files of this format in a folder, or the file itself. Raises UsageError.

        If none has such a name, all with that ending are yielded, if that is wanted: the files may
        have been collected by hand. What is no regular file comes too: its opener reports it.
        """
        try:
            is_folder = stat.S_ISDIR(path.stat().st_mode)
        except (OSError, ValueError) as error:
            is_gone = isinstance(error, FileNotFoundError)
            why = "no such file or folder of logs" if is_gone else error
            raise UsageError(f"{path}: {why}. Name one that is there") from error
        if not is_folder:
            yield path
            return
        files = _files(path, self.files)
        if not files and by_ending:
            endings = sorted({Path(pattern).suffix for pattern in self.files})
            files = _files(path, [f"**/*{ending}" for ending in endings])
        yield from files

    def places(self) -> Iterator[Path]:
        """Yield the folders on this machine in which the program keeps its logs."""
        for variable, usual, below in self.homes:
            place = Path(os.environ.get(variable) or usual).expanduser() / below
            if place.exists():
                yield place


def _files(folder: Path, patterns: Sequence[str]) -> list[Path]:
    """Return the files that fit a pattern, each once, in the order of the patterns."""
    files: dict[Path, None] = {}
    for pattern in patterns:
        files |= dict.fromkeys(sorted(folder.glob(pattern)))
    return [file for file in files if not file.is_dir()]


_DATA = msgspec.toml.decode(
    Path(__file__).with_name("formats.toml").read_bytes(),
    type=dict[str, list[LogFormat]],
)
FORMATS: Mapping[str, LogFormat] = {log.name: log for log in _DATA["format"]}


def _reader(name: str) -> Read:
    """Return the function that a table of formats.toml names: module and function."""
    module, _, function = name.partition(".")
    read: Read = getattr(import_module(f"agenteval.logs.{module}"), function)
    return read


_READERS = {log.name: _reader(log.reader) for log in FORMATS.values()}


def format_named(name: str) -> LogFormat:
    """Raises UsageError for a format that is not known."""
    if name not in FORMATS:
        raise UsageError(f"{name!r}: no format of logs. Known: auto, {', '.join(FORMATS)}")
    return FORMATS[name]
