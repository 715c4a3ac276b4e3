"""Asking scripts for their command lines: each is run in a sandbox, as far as its parser."""

import asyncio
import importlib.util
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agenteval.config.allowlist_tables import ArgumentTable, CommandTable, ScriptTable
from agenteval.core.policy.arguments import Kind
from agenteval.core.scenario import Limits
from agenteval.core.trial import Execution
from agenteval.errors import UsageError
from agenteval.formats import reveal
from agenteval.formats.reveal import MARK
from agenteval.protocols import SandboxBackend
from agenteval.sandbox.backends import choose

RUNNER = "uv run"
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_KINDS = {
    **dict.fromkeys(("int", "IntParamType", "IntRange"), Kind.INT),
    **dict.fromkeys(("float", "FloatParamType", "FloatRange"), Kind.FLOAT),
    **dict.fromkeys(("Path", "PosixPath", "FileType", "File", "TyperPath"), Kind.PATH),
    "loads": Kind.JSON,
}
_PLAIN = frozenset(("", "str", "StringParamType", "Choice", "TyperChoice"))
_MANY = 100  # choices: a range of more is better said by its kind


@dataclass(frozen=True, slots=True)
class Derived:
    """What one script told. Without a `table` the `remarks` say why there is none."""

    path: str
    table: ScriptTable | None
    remarks: tuple[str, ...] = ()


def read_told(path: str, runner: str, ran: Execution) -> Derived:
    """What a script told, by what running `reveal` with it printed."""
    _, mark, said = ran.output.rpartition(f"\n{MARK}")
    if not mark:
        how = f"it was stopped ({ran.limit})" if ran.limit else f"it ended ({ran.exit_code})"
        return Derived(path, None, (f"{how} before it reads a command line",))
    told = json.loads(said)
    if "reason" in told:
        return Derived(path, None, (told["reason"],))
    remarks: list[str] = []
    line = _line(told, remarks)
    table = ScriptTable(
        path=path,
        runner=runner,
        options=line.options,
        positionals=line.positionals,
        commands=line.commands,
    )
    return Derived(path, table, tuple(dict.fromkeys(remarks)))


def to_text(scripts: Sequence[Derived]) -> str:
    """An allow list of these scripts, with a comment on each that could not be read whole."""
    lines = ['description = "Scripts, each with its own command line."']
    for script in scripts:
        lines.append("")
        lines += [f"# {script.path}: {' '.join(remark.split())}" for remark in script.remarks]
        if script.table:
            lines.append("[[bash.script]]")
            lines.append(f"path = {_text(script.path)}")
            if script.table.runner != RUNNER:
                lines.append(f"runner = {_text(script.table.runner)}")
            lines += _body("bash.script", script.table)
    if not any(script.table for script in scripts):
        lines += ["", "[bash]"]
    return "\n".join(lines) + "\n"


def _line(told: Mapping[str, Any], remarks: list[str]) -> CommandTable:
    options: dict[str, Kind | ArgumentTable] = {}
    for option in told["options"]:
        name, *aliases = sorted(option["names"], key=lambda each: not each.startswith("--"))
        options[name] = _argument("", option, tuple(aliases), remarks)
    return CommandTable(
        options=options,
        positionals=tuple(
            _argument(each["names"][0], each, (), remarks) for each in told["positionals"]
        ),
        commands={name: _line(each, remarks) for name, each in told["commands"].items()},
    )


def _argument(
    name: str, told: Mapping[str, Any], aliases: tuple[str, ...], remarks: list[str]
) -> ArgumentTable:
    if told["flag"]:
        return ArgumentTable(
            kind=Kind.FLAG,
            aliases=aliases,
            required=told["required"],
            repeatable=told["repeatable"],
        )
    shown = name or told["names"][-1]
    choices = tuple(told["choices"])
    kind = _KINDS.get(told["type"], Kind.STR)
    if len(choices) > _MANY:
        remarks.append(f"{shown}: its {len(choices)} choices are not listed")
        choices = ()
    if kind is Kind.STR and not choices and told["type"] not in _PLAIN:
        remarks.append(f"{shown}: any text fits here, the script takes what {told['type']} takes")
    nargs = told["nargs"]
    if nargs not in {"?", "*", "+"} and not (isinstance(nargs, int) and nargs > 0):
        remarks.append(f"{shown}: it takes all that is left, options too; here it takes words")
        nargs = "*"
    return ArgumentTable(
        kind=Kind.CHOICE if choices else kind,
        name=name,
        choices=choices,
        nargs=nargs,
        aliases=aliases,
        required=told["required"],
        repeatable=told["repeatable"],
    )


def _body(key: str, line: CommandTable) -> Iterator[str]:
    if line.positionals:
        yield f"positionals = [{', '.join(map(_value, line.positionals))}]"
    if line.options:
        yield f"[{key}.options]"
        for name, option in line.options.items():
            yield f"{_text(name)} = {_value(option)}"
    for name, command in line.commands.items():
        below = f"{key}.commands.{name if _BARE.fullmatch(name) else _text(name)}"
        if command.positionals or not command.options:
            yield f"[{below}]"
        yield from _body(below, command)


def _value(argument: ArgumentTable | str) -> str:
    """An option or a positional as a TOML value, as short as it can be said."""
    if isinstance(argument, str):
        return _text(argument)
    said = {
        "name": argument.name,
        "kind": "" if argument.kind is Kind.STR else argument.kind.value,
        "choices": list(argument.choices),
        "nargs": "" if argument.nargs == 1 else argument.nargs,
        "aliases": list(argument.aliases),
        "required": argument.required,
        "repeatable": argument.repeatable,
    }
    pairs = {key: value for key, value in said.items() if value}
    if not pairs:
        return _text(Kind.STR.value)
    if len(pairs) == 1 and pairs.keys() <= {"name", "kind"}:
        return _text(*pairs.values())
    return f"{{ {', '.join(f'{key} = {_text(value)}' for key, value in pairs.items())} }}"


def _text(value: object) -> str:
    """A text, list, number or truth: TOML writes them as JSON does."""
    return json.dumps(value, ensure_ascii=False)


LIBRARIES = ".libraries"  # where click and typer lie beside the scripts
_PACKAGES = ("click", "typer", "annotated_doc", "typing_extensions", "shellingham")
_SOURCE = Path(reveal.__file__).read_text(encoding="utf-8")
_AT_A_TIME = 4
_LIMITS = Limits(call_seconds=10.0)


def derive_text(place: Path, runner: str, sandbox: str | None) -> str:
    """An allow list from what scripts themselves say they take. Raises UsageError."""
    return to_text(derive(place, runner, sandbox))


def derive(place: Path, runner: str, sandbox: str | None) -> list[Derived]:
    """What every script in a folder takes, or one script. Raises UsageError."""
    if not place.is_dir() and not (place.is_file() and place.suffix == ".py"):
        raise _nothing(place)
    folder = place if place.is_dir() else place.parent
    files = {
        f"{folder.resolve().name}/{path.relative_to(folder).as_posix()}": path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }
    wanted = [path for path in files if path.endswith(".py")]
    if not place.is_dir():
        wanted = [path for path in wanted if path.endswith(f"/{place.name}")][:1]
    if not wanted:
        raise _nothing(place)
    if any(word in text for text in files.values() for word in (b"click", b"typer")):
        files |= _libraries()
    return asyncio.run(_told(files, wanted, runner, sandbox))


def _nothing(place: Path) -> UsageError:
    return UsageError(
        f"{place}: no Python scripts there. Name a folder of scripts, such as "
        "fixtures/NAME/files/scripts, or one script"
    )


async def _told(
    files: Mapping[str, bytes], wanted: Iterable[str], runner: str, sandbox: str | None
) -> list[Derived]:
    backend = await choose(sandbox)
    free = asyncio.Semaphore(_AT_A_TIME)
    async with asyncio.TaskGroup() as group:
        asked = [group.create_task(_ask(backend, files, p, runner, free)) for p in wanted]
    return [task.result() for task in asked]


async def _ask(
    backend: SandboxBackend,
    files: Mapping[str, bytes],
    path: str,
    runner: str,
    free: asyncio.Semaphore,
) -> Derived:
    """In a world of its own: no script can change what another one tells."""
    async with free, backend.open(files, _LIMITS) as sandbox:
        done = await sandbox.run(("python3", "-W", "ignore", "-c", _SOURCE, path, LIBRARIES))
    return read_told(path, runner, done)


def _libraries() -> Mapping[str, bytes]:
    """Our own copies of click and typer: the Python of a sandbox has no libraries."""
    found = {}
    for name in _PACKAGES:
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            continue
        origin = Path(spec.origin)
        sources = origin.parent.rglob("*.py") if spec.submodule_search_locations else [origin]
        base = origin.parent.parent if spec.submodule_search_locations else origin.parent
        for path in sources:
            found[f"{LIBRARIES}/{path.relative_to(base).as_posix()}"] = path.read_bytes()
    return found
