"""The files of a project: their names, what ships with agenteval, whose they are; TOML, checked.

All faults of a TOML file are reported, a line each. A key that is dropped or renamed goes into a
table here: a file of a year ago is then read, or refused with its cure. `tests/config/history` has
such files.
"""

import grp
import os
import pwd
import re
import stat
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast, get_args

from agenteval.config.beneath import read
from agenteval.errors import UsageError
from agenteval.host import read_bytes
from agenteval.trial.redaction import shown_url
from agenteval.trial.text import as_name

if TYPE_CHECKING:
    from pydantic import BaseModel
# The folders to look in, as `config.trust.roots` gives them.
Roots = Sequence[Path]
PROJECT_FILE = "agenteval.toml"
GATE_FILE = "gate.toml"
DEFAULT_STORE = "reports/agenteval.db"
DEFAULT_ARM = "taught/tools"
LISTS, ARMS, SCENARIOS, FIXTURES = "allowlists", "arms", "scenarios", "fixtures"
PARTS = (PROJECT_FILE, GATE_FILE, LISTS, ARMS, SCENARIOS, FIXTURES)


def shipped() -> Path:
    """Return the folder with the shipped scenarios/, allowlists/, fixtures/ and agenteval.toml.

    `agenteval/shipped` of an installed wheel; in a checkout that holds links, and this is where
    they lead: the checkout itself.
    """
    return (Path(__file__).parent.parent / "shipped" / PROJECT_FILE).resolve().parent


def home() -> Path | None:
    """Return the user's home folder; None where the environment names none by an absolute path."""
    place = Path(os.path.expanduser("~"))  # noqa: PTH111 -- Path.home raises where there is none
    return Path(os.path.realpath(place)) if place.is_absolute() else None


def is_folder(path: Path) -> bool:
    """Return `path.is_dir()`. Raises OSError, with every Python, where nobody can tell.

    From Python 3.14 on `is_dir` is False there, and a shipped folder would stand in silently.
    """
    try:
        return stat.S_ISDIR(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError, ValueError):  # or no path at all
        return False


def stranger(path: Path) -> str:
    """Return who else owns or can write a file; empty if nobody does. Raises OSError."""
    status = path.stat()
    if status.st_uid not in _users():
        return f"belongs to another user ({_user_name(status.st_uid)})"
    if status.st_mode & stat.S_IWOTH:
        return "may be written by any user"
    if status.st_mode & stat.S_IWGRP and not _is_private_group(status.st_uid, status.st_gid):
        return "may be written by a group"
    return "may be written by others (ACL)" if _has_acl(path, status) else ""


def _has_acl(path: Path, status: os.stat_result) -> bool:
    """Return True if an access list stands behind the group's bits, which are its mask then."""
    if not status.st_mode & stat.S_IWGRP or not hasattr(os, "getxattr"):
        return False
    try:
        return bool(os.getxattr(path, "system.posix_acl_access"))
    except OSError:
        return False


def _users() -> frozenset[int]:
    """Return the ids of the user; under sudo the one who called it too, as git has it."""
    user, caller = os.geteuid(), os.environ.get("SUDO_UID", "")
    is_called = user == 0 and re.fullmatch("[0-9]{1,10}", caller)
    return frozenset({user, int(caller)} if is_called else {user})


def _user_name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)


def _is_private_group(user: int, group: int) -> bool:
    """Return True if a group is the user's alone: many distributions give each user such a one."""
    try:
        entry = grp.getgrgid(group)
    except KeyError:
        return False
    name = _user_name(user)
    if entry.gr_name != name or {*entry.gr_mem} - {name}:
        return False
    users = [entry.pw_uid for entry in pwd.getpwall() if entry.pw_gid == group]
    return all(other == user for other in users)


@cache
def announce(line: str) -> None:
    """Report on standard error, once a process, what a command does with a project."""
    sys.stderr.write(f"agenteval: {as_name(line)}\n")


def note_hidden(
    kind: str,
    name: str,
    path: Path,
    shipped_path: Path,
) -> None:
    """Say once that a project's file or folder stands in place of a shipped one that differs."""
    if is_hiding(path, shipped_path):
        announce(f"{kind} {name} is {path}, which hides the shipped one of that name")


@cache
def is_hiding(path: Path, shipped_path: Path) -> bool:
    """Return True if a file or folder stands in place of a shipped one, and differs from it."""
    is_there = os.path.lexists(shipped_path)
    # Also of a loop of links.
    is_other = os.path.realpath(path) != os.path.realpath(shipped_path)
    return is_there and is_other and not _same(path, shipped_path)


def _same(path: Path, other: Path) -> bool:
    """Return True if both hold the same bytes; anything but a file or folder is like nothing."""
    try:
        first, second = path.lstat(), other.stat()
        if stat.S_ISDIR(first.st_mode) and stat.S_ISDIR(second.st_mode):
            names = _names(path)
            if names != _names(other):
                return False
            return all(_same(path / name, other / name) for name in names)
        is_file = stat.S_ISREG(first.st_mode) and stat.S_ISREG(second.st_mode)
        if not is_file or first.st_size != second.st_size:
            return False
        return path.read_bytes() == other.read_bytes()
    except OSError:
        return False


def _names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - {"__pycache__"}


Tables = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _DroppedKey:
    """A key, dots between its tables, and the `successor` at the top of the file.

    `values` gives each value that keeps its meaning, and how it is written today; of any other the
    `reason` says why it has none.
    """

    file: str  # by its usual name
    key: str
    dropped: str  # the day
    successor: str
    values: Mapping[str, str]
    reason: str


DROPPED_KEYS = (
    _DroppedKey(
        *("gate.toml", "plan.over", "2026-11-22", "about"),
        values={"trials": "these", "scenarios": "like-these"},
        reason="nothing chooses any more by itself what figures are about",
    ),
)


def renew(file: str, path: Path, tables: Tables) -> tuple[Tables, list[str]]:
    """Return the tables of a file of this kind by today's keys, and a warning for each older one.

    Raises UsageError for a key that has no meaning any more.
    """
    warnings = []
    for dropped in DROPPED_KEYS:
        above, _, name = dropped.key.rpartition(".")
        table = tables.get(above)
        if dropped.file != file or not isinstance(table, dict) or name not in table:
            continue
        value = dropped.values.get(str(table[name]))
        if value is None and dropped.successor not in tables:
            raise UsageError(_refusal(dropped, path, table[name]))
        rest = {key: kept for key, kept in table.items() if key != name}
        tables = {dropped.successor: value, **tables, above: rest}
        warnings.append(_warning(dropped, path, tables[dropped.successor]))
    return tables, warnings


def _warning(dropped: _DroppedKey, path: Path, value: object) -> str:
    return (
        f"{path}: {dropped.key} was dropped on {dropped.dropped}, and is read as "
        f'{dropped.successor} = "{value}"; write that at the top of the file instead'
    )


def _refusal(dropped: _DroppedKey, path: Path, value: object) -> str:
    ways = " or ".join(f'{dropped.successor} = "{today}"' for today in dropped.values.values())
    return (
        f"{path}: {dropped.key} = {value!r:.60} was dropped on {dropped.dropped}: "
        f"{dropped.reason}; write {ways} at the top of the file instead"
    )


# Pydantic costs 100 ms of start-up, and an allow list is read without it.
if TYPE_CHECKING:
    from pydantic import BaseModel

    Schema = TypeVar("Schema", bound=BaseModel)

_PARTS = 64
# tomllib takes minutes for a key of 20,000 parts.
_KEY = r"""(?:[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*\.[ \t]*"""
_LONG_KEY = re.compile(rf"(?:^|[\[{{,])[ \t]*(?:{_KEY}){{{_PARTS}}}", re.MULTILINE)


def read_toml(path: Path, base: Path | None = None) -> dict[str, Any]:
    """Return the tables of a file, which is read beneath `base`: no link leads out of it.

    Raises UsageError when it cannot be read or is not TOML.
    """
    return parse(path, read_content(path, base))


def read_content(path: Path, base: Path | None = None) -> bytes:
    """Return the bytes of a file, as `read_toml` reads it. Raises UsageError."""
    try:
        return read(path, base) if base else read_bytes(path)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"{str(path)!r}: no file can be named so ({error})") from error


def parse(path: Path, content: bytes) -> dict[str, Any]:
    """Return the tables in the content of the file `path`. Raises UsageError if it is not TOML."""
    try:
        text = content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{path}: not UTF-8 text (byte {error.start}): save it as UTF-8"
        ) from error
    if _LONG_KEY.search(text):
        raise UsageError(f"{path}: not valid TOML: a key of more than {_PARTS} parts")
    try:
        return tomllib.loads(text)
    # More than tomllib's own, as for a number of 5000 digits.
    except ValueError as error:
        raise UsageError(f"{path}: not valid TOML: {error}") from error
    except RecursionError as error:
        raise UsageError(f"{path}: not valid TOML: it nests too deeply") from error


def load_toml(path: Path, schema: "type[Schema]", base: Path | None = None) -> "Schema":
    """Return the file as a `schema`; it is read beneath `base`, where no link leads out.

    Raises UsageError: file, key, what was expected there.
    """
    return check(path, read_toml(path, base), schema)


def check(where: Path | str, tables: Tables, schema: "type[Schema]") -> "Schema":
    """Return `tables` as a `schema`. Raises UsageError, whose lines begin with `where`."""
    from pydantic import ValidationError  # noqa: PLC0415 -- see above

    try:
        return schema.model_validate(tables)
    except ValidationError as error:
        faults = error.errors(include_url=False)
        # A misspelt key is the cause of the one that is then missing.
        faults.sort(key=lambda fault: fault["type"] != "extra_forbidden")
        first: dict[tuple[object, ...], str] = {}
        for fault in faults:
            place = _place(fault, tables)
            complaint = _complaint({**fault, "loc": place}, schema)
            first.setdefault(place, f"{where}: {complaint}")
        raise UsageError(*first.values()) from error


def _place(error: Mapping[str, Any], tables: Mapping[str, Any]) -> tuple[object, ...]:
    """Return the place in the file, without the names of the types that a value may have."""
    place: tuple[object, ...] = error["loc"]
    if error["type"] == "missing":
        return place
    inner: Any = tables
    for depth, part in enumerate(place):
        try:
            inner = inner[part]
        except (LookupError, TypeError):
            return place[:depth]
    return place


def _complaint(error: Mapping[str, Any], schema: "type[BaseModel]") -> str:
    *above, last = error["loc"] or ("",)
    key = ".".join(str(part) for part in error["loc"]) or "(top level)"
    match error["type"]:
        case "extra_forbidden":
            return f"unknown key {key}; {known_keys(str(last), sorted(_keys(schema, above)))}"
        case "model_type" | "model_attributes_type":
            return f"{key}: expected a table, got {_short(error['input'])}"
        case "missing":
            return f"{key} is missing" if above else f"key {last} is missing"
    complaint, value = f"{key}: {_lower(error['msg'])}", error["input"]
    if last == "base_url" and isinstance(value, str):
        value = shown_url(value)
    return complaint if last == "api_key_env" else f"{complaint}, got {_short(value)}"


def known_keys(wrong: str, known_names: Sequence[str]) -> str:
    """Return the known keys as a sentence, with the one that a wrong key may have meant."""
    from difflib import get_close_matches  # noqa: PLC0415 -- start-up: few files are wrong

    known = f"known keys: {', '.join(known_names)}"
    for near in get_close_matches(wrong, known_names, n=1):
        return f"{known}; did you mean {near}?"
    return known


def _keys(schema: "type[BaseModel]", above: Sequence[object]) -> Iterable[str]:
    """Return the keys of the table below `above`, where what is no field is a name or a place."""
    for part in above:
        field = schema.model_fields.get(str(part))
        schema = (_schema_in(field.annotation) if field else None) or schema
    return schema.model_fields


def _schema_in(annotation: Any) -> "type[BaseModel] | None":
    if hasattr(annotation, "model_fields"):
        return cast("type[BaseModel]", annotation)
    return next(filter(None, map(_schema_in, get_args(annotation))), None)


def _lower(message: str) -> str:
    """Return pydantic's sentence as the middle of ours, without its note of a value error."""
    message = message.removeprefix("Value error, ")
    return message[:1].lower() + message[1:]


def _short(value: object) -> str:
    from agenteval.trial.redaction import KEYS, Redactor  # noqa: PLC0415 -- as above

    try:
        # Before it is cut: a key may be in a wrong place.
        text = Redactor(KEYS).text(repr(value))
    except RecursionError:
        text = "a value that nests too deeply"
    return text if len(text) <= 60 else f"{text[:57]}..."
