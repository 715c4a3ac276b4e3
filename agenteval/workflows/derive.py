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

from agenteval.config.allowlists import REST, BashTable, bash_rules, convert
from agenteval.errors import UsageError
from agenteval.policy.command_lines import Kind, Parser, helps_of
from agenteval.protocols import SandboxBackend
from agenteval.sandbox.backends import choose
from agenteval.shell.programs import is_script_name
from agenteval.trial.trial import Execution, Limits
from agenteval.workflows import reveal
from agenteval.workflows.reveal import MARK

RUNNER = "uv run"
Table = dict[str, Any]  # of an allow list, as TOML has it; a key with the usual value is left out
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_TABLES = ("options", "commands")  # have headers of their own


@dataclass(frozen=True, slots=True)
class _Derived:
    """The command line of one script. Without a `table`, the `remarks` say why there is none."""

    path: str
    table: Table | None
    remarks: tuple[str, ...] = ()


def _to_text(scripts: Sequence[_Derived]) -> str:
    """An allow list of these scripts, with a comment on each that could not be read whole."""
    lines = ['description = "Scripts, each with its own command line."']
    for script in scripts:
        lines.append("")
        lines += [_comment(f"{script.path}: {remark}") for remark in script.remarks]
        lines += _block_of(script.table)
    if not any(script.table for script in scripts):
        lines += ["", "[bash]"]
    return "\n".join(lines) + "\n"


def _comment(text: str) -> str:
    """Return a comment of one line, without control characters, which TOML forbids."""
    return "# " + "".join(c if c.isprintable() else "?" for c in " ".join(text.split()))


def _block_of(script: Table | None) -> list[str]:
    """The lines of one script's table."""
    return ["[[bash.script]]", *_body("bash.script", script)] if script else []


def _body(key: str, line: Table) -> Iterator[str]:
    for name, value in line.items():
        if name not in _TABLES:
            yield f"{name} = {_text(value)}"
    if options := line.get("options"):
        yield f"[{key}.options]"
        for name, option in options.items():
            yield f"{_text(name)} = {_text(option)}"
    for name, command in line.get("commands", {}).items():
        below = f"{key}.commands.{name if _BARE.fullmatch(name) else _text(name)}"
        if "options" not in command or command.keys() - _TABLES:
            yield f"[{below}]"
        yield from _body(below, command)


def _text(value: object) -> str:
    """The value in one line: TOML writes all but tables as JSON does."""
    if isinstance(value, dict):
        pairs = [f"{key} = {_text(item)}" for key, item in value.items()]
        return f"{{ {', '.join(pairs)} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_text, value))}]"
    return json.dumps(value, ensure_ascii=False)


def _filled(table: Table) -> Table:
    return {key: value for key, value in table.items() if value}


# What `reveal` prints, read.

_KINDS = {
    **dict.fromkeys(("int", "IntParamType", "IntRange"), Kind.INT),
    **dict.fromkeys(("float", "FloatParamType", "FloatRange"), Kind.FLOAT),
    **dict.fromkeys(("Path", "PosixPath", "FileType", "File", "TyperPath"), Kind.PATH),
    "loads": Kind.JSON,
}
_PLAIN = frozenset(("", "str", "StringParamType", "Choice", "TyperChoice"))
_MANY = 100  # choices: a range of more is better said by its kind


def _read_revealed(
    path: str,
    runner: str,
    ran: Execution,
) -> _Derived:
    """Return the command line that a script declares, read from the output of `reveal`."""
    # The script may have printed before: only what follows the last mark is ours.
    _, mark, printed = ran.output.rpartition(f"\n{MARK}")
    if not mark:
        how = f"it was stopped ({ran.limit})" if ran.limit else f"it ended ({ran.exit_code})"
        return _Derived(path, None, (f"{how} before it reads a command line",))
    revealed = json.loads(printed)
    if "reason" in revealed:
        return _Derived(path, None, (revealed["reason"],))
    remarks: list[str] = []
    table: Table = {"path": path}
    if runner != RUNNER:
        table["runner"] = runner
    if revealed["parser"] != Parser.ARGPARSE.value:
        table["parser"] = revealed["parser"]
    table |= _line(revealed, remarks)
    try:
        block = tomllib.loads("\n".join(_block_of(table)))
        bash_rules(convert("derived", block).bash or BashTable())
    except (UsageError, ValueError) as error:
        return _Derived(path, None, (f"no allow list can say what it takes: {error}",))
    return _Derived(path, table, tuple(dict.fromkeys(remarks)))


def _line(
    revealed: Mapping[str, Any],
    remarks: list[str],
    name: str = "",
) -> Table:
    before = f"{name}: " if name else ""
    remarks += (f"{before}{note}" for note in revealed["notes"])
    options = {}
    for option in revealed["options"]:
        name, *aliases = _shown_first(option["names"])
        options[name] = _argument("", option, aliases, remarks)
    positionals = [
        _argument(positional["names"][0], positional, [], remarks)
        for positional in revealed["positionals"]
    ]
    commands = {}
    for name, command in revealed["commands"].items():
        commands[name] = _line(command, remarks, name)
    parts = {
        "exclusive": _groups(revealed, required=False),
        "one_of": _groups(revealed, required=True),
        "positionals": positionals,
        "options": options,
        "commands": commands,
    }
    return _settings(revealed) | _filled(parts)


def _settings(revealed: Mapping[str, Any]) -> Table:
    """Return the settings in which a command line differs from the usual one."""
    settings: Table = {}
    if not revealed.get("abbreviations", True):
        settings["abbreviations"] = False
    if revealed["prefix"] != "-":
        settings["prefix"] = revealed["prefix"]
    parser = Parser.CLICK if "abbreviations" not in revealed else Parser.ARGPARSE
    if set(revealed["help"]) != set(helps_of(parser, revealed["prefix"])):
        settings["help"] = revealed["help"]
    if revealed["commands"] and revealed.get("command_optional", False):
        settings["command_optional"] = True
    return settings


def _groups(revealed: Mapping[str, Any], *, required: bool) -> list[list[str]]:
    return [
        [_shown_first(names)[0] for names in group["names"]]
        for group in revealed.get("groups", ())
        if group["required"] is required
    ]


def _shown_first(names: Sequence[str]) -> list[str]:
    return sorted(names, key=lambda name: not name.startswith("--"))


def _argument(
    name: str,
    argument: Mapping[str, Any],
    aliases: list[str],
    remarks: list[str],
) -> Table | str:
    """Return an option or a positional in the shortest form that describes it."""
    table = {
        "name": name,
        "kind": Kind.FLAG.value,
        "aliases": aliases,
        "required": argument["required"],
        "repeatable": argument["repeatable"],
        "ends": argument["ends"],
    }
    if not argument["flag"]:
        table = _with_values(table, argument, remarks)
    filled = _filled(table)
    if not filled:
        return Kind.STR.value
    if len(filled) == 1 and filled.keys() <= {"name", "kind"}:
        (value,) = filled.values()
        return str(value)
    return filled


def _with_values(
    table: Table,
    argument: Mapping[str, Any],
    remarks: list[str],
) -> Table:
    """Return the table of an argument that is no flag, and remark on what it cannot say."""
    name = table["name"]
    label = name or argument["names"][-1]
    choices, nargs = argument["choices"], argument["nargs"]
    kind = _KINDS.get(argument["type"], Kind.STR)
    if len(choices) > _MANY:
        remarks.append(f"{label}: its {len(choices)} choices are not listed")
        choices = []
    if kind is Kind.STR and not choices and argument["type"] not in _PLAIN:
        remarks.append(
            f"{label}: any text fits here, the script takes what {argument['type']} takes"
        )
    shown_kind = "" if kind is Kind.STR else kind.value
    if nargs == REST and name:
        return {"name": name, "kind": shown_kind, "nargs": nargs}
    if nargs not in {"?", "*", "+"} and not (isinstance(nargs, int) and nargs > 0):
        remarks.append(f"{label}: it takes all that is left, options too; here it takes words")
        nargs = "*"
    return {
        "name": name,
        "kind": Kind.CHOICE.value if choices else shown_kind,
        "choices": choices,
        "nargs": "" if nargs == 1 else nargs,
        "aliases": table["aliases"],
        "required": argument["required"],
        "repeatable": argument["repeatable"],
    }


# The scripts run.

LIBRARIES = ".libraries"  # where click and typer lie beside the scripts
_PACKAGES = ("click", "typer", "annotated_doc", "typing_extensions", "shellingham")
_SOURCE = Path(reveal.__file__).read_text(encoding="utf-8")
_AT_A_TIME = 4
_LIMITS = Limits(call_seconds=10.0)


def derive_text(
    place: Path,
    runner: str,
    sandbox: str | None,
) -> str:
    """An allow list from what scripts themselves say they take. Raises UsageError."""
    return _to_text(derive(place, runner, sandbox))


def derive(
    place: Path,
    runner: str,
    sandbox: str | None,
) -> list[_Derived]:
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
    # The libraries are a hundred files: they are laid beside scripts that need them only.
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
