"""Allow lists out of scripts: each is run in a sandbox as far as its parser, and written down.

The sections are, in order: a command line as TOML, as short as the format allows; what `reveal`
prints, read; and the scripts run.
"""

import asyncio
import importlib.util
import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agenteval.config.allowlists import (
    REST,
    ArgumentTable,
    BashTable,
    CommandTable,
    ScriptTable,
    bash_rules,
    convert,
)
from agenteval.errors import UsageError
from agenteval.policy.command_lines import Kind, Parser, helps_of
from agenteval.protocols import SandboxBackend
from agenteval.sandbox.backends import choose
from agenteval.shell.programs import is_script_name
from agenteval.trial.trial import Execution, Limits
from agenteval.workflows import reveal
from agenteval.workflows.reveal import MARK

RUNNER = "uv run"
_BARE = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class _Derived:
    """The command line of one script. Without a `table`, the `remarks` say why there is none."""

    path: str
    table: ScriptTable | None
    remarks: tuple[str, ...] = ()


def _to_text(scripts: Sequence[_Derived]) -> str:
    """An allow list of these scripts, with a comment on each that could not be read whole."""
    lines = ['description = "Scripts, each with its own command line."']
    for script in scripts:
        lines.append("")
        lines += [_comment(f"{script.path}: {remark}") for remark in script.remarks]
        lines += _block_of(script)
    if not any(script.table for script in scripts):
        lines += ["", "[bash]"]
    return "\n".join(lines) + "\n"


def _comment(text: str) -> str:
    """One line: TOML takes no control characters in a comment."""
    return "# " + "".join(c if c.isprintable() else "?" for c in " ".join(text.split()))


def _block_of(script: _Derived) -> Iterator[str]:
    """The lines of one script's table."""
    table = script.table
    if table is None:
        return
    yield "[[bash.script]]"
    yield f"path = {_text(script.path)}"
    if table.runner != RUNNER:
        yield f"runner = {_text(table.runner)}"
    if table.parser is not Parser.ARGPARSE:
        yield f"parser = {_text(table.parser.value)}"
    yield from _body("bash.script", table)


def _body(key: str, line: CommandTable) -> Iterator[str]:
    yield from _own_keys(line)
    if line.positionals:
        yield f"positionals = [{', '.join(map(_value, line.positionals))}]"
    if line.options:
        yield f"[{key}.options]"
        for name, option in line.options.items():
            yield f"{_text(name)} = {_value(option)}"
    for name, command in line.commands.items():
        below = f"{key}.commands.{name if _BARE.fullmatch(name) else _text(name)}"
        if command.positionals or not command.options or any(_own_keys(command)):
            yield f"[{below}]"
        yield from _body(below, command)


def _own_keys(line: CommandTable) -> Iterator[str]:
    """Yield the keys in which a command line differs from the usual one, as TOML."""
    for name in _SIDES:
        value = getattr(line, name)
        if value != getattr(_USUAL, name):
            yield f"{name} = {_text(value)}"


_USUAL = CommandTable()
_SIDES = ("abbreviations", "prefix", "help", "command_optional", "exclusive", "one_of")


def _value(argument: ArgumentTable | str) -> str:
    """Return an option or a positional as the shortest TOML value that describes it."""
    if isinstance(argument, str):
        return _text(argument)
    table = {
        "name": argument.name,
        "kind": "" if argument.kind is Kind.STR else argument.kind.value,
        "choices": list(argument.choices),
        "nargs": "" if argument.nargs == 1 else argument.nargs,
        "aliases": list(argument.aliases),
        "required": argument.required,
        "repeatable": argument.repeatable,
        "ends": argument.ends,
    }
    pairs = {key: value for key, value in table.items() if value}
    if not pairs:
        return _text(Kind.STR.value)
    if len(pairs) == 1 and pairs.keys() <= {"name", "kind"}:
        return _text(*pairs.values())
    return f"{{ {', '.join(f'{key} = {_text(value)}' for key, value in pairs.items())} }}"


def _text(value: object) -> str:
    """A text, list, number or truth: TOML writes them as JSON does."""
    return json.dumps(value, ensure_ascii=False)


# What `reveal` prints, read.

_KINDS = {
    **dict.fromkeys(("int", "IntParamType", "IntRange"), Kind.INT),
    **dict.fromkeys(("float", "FloatParamType", "FloatRange"), Kind.FLOAT),
    **dict.fromkeys(("Path", "PosixPath", "FileType", "File", "TyperPath"), Kind.PATH),
    "loads": Kind.JSON,
}
_PLAIN = frozenset(("", "str", "StringParamType", "Choice", "TyperChoice"))
_MANY = 100  # choices: a range of more is better said by its kind


def _read_revealed(path: str, runner: str, ran: Execution) -> _Derived:
    """Return the command line that a script declares, read from the output of `reveal`."""
    _, mark, printed = ran.output.rpartition(f"\n{MARK}")
    if not mark:
        how = f"it was stopped ({ran.limit})" if ran.limit else f"it ended ({ran.exit_code})"
        return _Derived(path, None, (f"{how} before it reads a command line",))
    revealed = json.loads(printed)
    if "reason" in revealed:
        return _Derived(path, None, (revealed["reason"],))
    remarks: list[str] = []
    line = _line(revealed, remarks)
    table = ScriptTable(
        path=path,
        runner=runner,
        parser=Parser(revealed["parser"]),
        **{name: getattr(line, name) for name in CommandTable.__struct_fields__},
    )
    return _readable(_Derived(path, table, tuple(dict.fromkeys(remarks))))


def _readable(script: _Derived) -> _Derived:
    """The same, without a table that an allow list cannot hold."""
    try:
        block = tomllib.loads("\n".join(_block_of(script)))
        bash_rules(convert("derived", block).bash or BashTable())
    except (UsageError, ValueError) as error:
        return _Derived(script.path, None, (f"no allow list can say what it takes: {error}",))
    return script


def _line(revealed: Mapping[str, Any], remarks: list[str], name: str = "") -> CommandTable:
    before = f"{name}: " if name else ""
    remarks += (f"{before}{note}" for note in revealed["notes"])
    options: dict[str, Kind | ArgumentTable] = {}
    for option in revealed["options"]:
        name, *aliases = _shown_first(option["names"])
        options[name] = _argument("", option, tuple(aliases), remarks)
    return CommandTable(
        options=options,
        positionals=tuple(
            _argument(each["names"][0], each, (), remarks) for each in revealed["positionals"]
        ),
        commands={name: _line(each, remarks, name) for name, each in revealed["commands"].items()},
        exclusive=_groups(revealed, required=False),
        one_of=_groups(revealed, required=True),
        abbreviations=revealed.get("abbreviations", True),
        prefix=revealed["prefix"],
        help=_helps(revealed),
        command_optional=bool(revealed["commands"]) and revealed.get("command_optional", False),
    )


def _groups(told: Mapping[str, Any], *, required: bool) -> tuple[tuple[str, ...], ...]:
    groups = told.get("groups", ())
    return tuple(
        tuple(_shown_first(names)[0] for names in each["names"])
        for each in groups
        if each["required"] is required
    )


def _shown_first(names: Sequence[str]) -> list[str]:
    return sorted(names, key=lambda each: not each.startswith("--"))


def _helps(revealed: Mapping[str, Any]) -> tuple[str, ...] | None:
    """The options for help, where they are not those that every such parser has."""
    parser = Parser.CLICK if "abbreviations" not in revealed else Parser.ARGPARSE
    own = set(revealed["help"])
    return None if own == set(helps_of(parser, revealed["prefix"])) else tuple(revealed["help"])


def _argument(
    name: str,
    argument: Mapping[str, Any],
    aliases: tuple[str, ...],
    remarks: list[str],
) -> ArgumentTable:
    if argument["flag"]:
        return ArgumentTable(
            kind=Kind.FLAG,
            aliases=aliases,
            required=argument["required"],
            repeatable=argument["repeatable"] or None,
            ends=argument["ends"],
        )
    label = name or argument["names"][-1]
    choices = tuple(argument["choices"])
    kind = _KINDS.get(argument["type"], Kind.STR)
    if len(choices) > _MANY:
        remarks.append(f"{label}: its {len(choices)} choices are not listed")
        choices = ()
    if kind is Kind.STR and not choices and argument["type"] not in _PLAIN:
        remarks.append(
            f"{label}: any text fits here, the script takes what {argument['type']} takes"
        )
    nargs = argument["nargs"]
    if nargs == REST and name:
        return ArgumentTable(kind=kind, name=name, nargs=nargs)
    if nargs not in {"?", "*", "+"} and not (isinstance(nargs, int) and nargs > 0):
        remarks.append(f"{label}: it takes all that is left, options too; here it takes words")
        nargs = "*"
    return ArgumentTable(
        kind=Kind.CHOICE if choices else kind,
        name=name,
        choices=choices,
        nargs=nargs,
        aliases=aliases,
        required=argument["required"],
        repeatable=argument["repeatable"] or None,
    )


# The scripts run.

LIBRARIES = ".libraries"  # where click and typer lie beside the scripts
_PACKAGES = ("click", "typer", "annotated_doc", "typing_extensions", "shellingham")
_SOURCE = Path(reveal.__file__).read_text(encoding="utf-8")
_AT_A_TIME = 4
_LIMITS = Limits(call_seconds=10.0)


def derive_text(place: Path, runner: str, sandbox: str | None) -> str:
    """An allow list from what scripts themselves say they take. Raises UsageError."""
    return _to_text(derive(place, runner, sandbox))


def derive(place: Path, runner: str, sandbox: str | None) -> list[_Derived]:
    """Return the command line of every script in a folder, or of one script.

    Raises UsageError if there is no script.
    """
    if not place.is_dir() and not (place.is_file() and place.suffix == ".py"):
        raise _nothing(place)
    folder = place if place.is_dir() else place.parent
    folder_name = folder.resolve().name
    files = {
        f"{folder_name}/{path.relative_to(folder).as_posix()}": path.read_bytes()
        for path in sorted(folder.rglob("*") if place.is_dir() else _siblings(place))
        if path.is_file() and "__pycache__" not in path.parts
    }
    own = [path for path in files if path.endswith(".py")]
    scripts = own if place.is_dir() else [f"{folder_name}/{place.name}"]
    if not scripts:
        raise _nothing(place)
    if any(word in text for text in files.values() for word in (b"click", b"typer")):
        files |= _libraries()
    derived = asyncio.run(_derive_all(files, scripts, runner, sandbox))
    return derived + [
        _Derived(path, None, ("not read, no Python",)) for path in _others(place, files)
    ]


def _siblings(script: Path) -> Iterator[Path]:
    """Yield the files next to a script, and those below the sibling folders that siblings name."""
    siblings = sorted(script.parent.iterdir())
    words = {
        word
        for path in siblings
        if path.suffix == ".py" and path.is_file()
        for word in re.findall(r"[\w-]+", path.read_text("utf-8", "replace"))
    }
    for path in siblings:
        yield path
        if path.is_dir() and path.name in words:
            yield from path.rglob("*")


def _others(place: Path, files: Mapping[str, bytes]) -> list[str]:
    """The scripts of a folder that are in other languages."""
    return [
        path
        for path, text in files.items()
        if place.is_dir() and not path.endswith(".py")
        if is_script_name(path) or text.startswith(b"#!")
    ]


def _nothing(place: Path) -> UsageError:
    return UsageError(
        f"{place}: no Python scripts there. Name a folder of scripts, such as "
        "fixtures/NAME/files/scripts, or one script"
    )


async def _derive_all(
    files: Mapping[str, bytes],
    scripts: Iterable[str],
    runner: str,
    sandbox: str | None,
) -> list[_Derived]:
    backend = await choose(sandbox)
    free = asyncio.Semaphore(_AT_A_TIME)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_ask(backend, files, p, runner, free)) for p in scripts]
    return [task.result() for task in tasks]


async def _ask(
    backend: SandboxBackend,
    files: Mapping[str, bytes],
    path: str,
    runner: str,
    free: asyncio.Semaphore,
) -> _Derived:
    """Run one script in a sandbox of its own: no script can change the result of another."""
    async with free, backend.open(files, _LIMITS) as sandbox:
        done = await sandbox.run(("python3", "-W", "ignore", "-c", _SOURCE, path, LIBRARIES))
    return _read_revealed(path, runner, done)


def _libraries() -> Mapping[str, bytes]:
    """Our own copies of click and typer: the Python of a sandbox has no libraries."""
    contents = {}
    for name in _PACKAGES:
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            continue
        origin = Path(spec.origin)
        sources = origin.parent.rglob("*.py") if spec.submodule_search_locations else [origin]
        base = origin.parent.parent if spec.submodule_search_locations else origin.parent
        for path in sources:
            contents[f"{LIBRARIES}/{path.relative_to(base).as_posix()}"] = path.read_bytes()
    return contents
