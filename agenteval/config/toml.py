"""A TOML file of the user's, read and checked; all its faults are reported, a line each."""

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast, get_args

from agenteval.config.beneath import read
from agenteval.core.known_keys import shown_url
from agenteval.errors import UsageError

if TYPE_CHECKING:  # pydantic costs 100 ms of start-up, and an allow list is read without it
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
        return read(path, base)
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
    except ValueError as error:  # more than tomllib's own, as for a number of 5000 digits
        raise UsageError(f"{path}: not valid TOML: {error}") from error
    except RecursionError as error:
        raise UsageError(f"{path}: not valid TOML: it nests too deeply") from error


def load_toml(path: Path, schema: "type[Schema]", base: Path | None = None) -> "Schema":
    """The file as a `schema`; it is read beneath `base`, where no link leads out.

    Raises UsageError: file, key, what was expected there.
    """
    return check(path, read_toml(path, base), schema)


def check(where: Path | str, tables: Mapping[str, Any], schema: "type[Schema]") -> "Schema":
    """`tables` as a `schema`; `where` opens the line of the UsageError when they do not fit."""
    from pydantic import ValidationError  # noqa: PLC0415 -- see above

    try:
        return schema.model_validate(tables)
    except ValidationError as error:
        # A misspelt key is the cause of the one that is then missing.
        errors = sorted(
            error.errors(include_url=False), key=lambda one: one["type"] != "extra_forbidden"
        )
        first: dict[tuple[object, ...], str] = {}
        for one in errors:
            place = _place(one, tables)
            first.setdefault(place, f"{where}: {_complaint({**one, 'loc': place}, schema)}")
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

    near = get_close_matches(wrong, known_names, n=1)
    return f"known keys: {', '.join(known_names)}" + (f"; did you mean {near[0]}?" if near else "")


def _keys(schema: "type[BaseModel]", above: Sequence[object]) -> Iterable[str]:
    """The keys of the table below `above`, where what is no field is a name or a place."""
    for part in above:
        field = schema.model_fields.get(str(part))
        schema = (_schema_in(field.annotation) if field else None) or schema
    return schema.model_fields


def _schema_in(annotation: Any) -> "type[BaseModel] | None":
    if hasattr(annotation, "model_fields"):
        return cast("type[BaseModel]", annotation)
    return next(filter(None, map(_schema_in, get_args(annotation))), None)


def _lower(message: str) -> str:
    """Pydantic's sentence as the middle of ours, without its note that it is a value error."""
    message = message.removeprefix("Value error, ")
    return message[:1].lower() + message[1:]


def _short(value: object) -> str:
    from agenteval.core.redaction import KEYS, Redactor  # noqa: PLC0415 -- as above

    try:
        text = Redactor(KEYS).text(repr(value))  # before it is cut: a key may be in a wrong place
    except RecursionError:
        text = "a value that nests too deeply"
    return text if len(text) <= 60 else f"{text[:57]}..."
