"""Allow lists: found by name or path, read, joined with what they extend, and made a policy."""

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from agenteval.config import allowlist_tables as tables
from agenteval.config.project_files import LISTS, note_hidden, shipped
from agenteval.config.toml import known_keys, read_toml
from agenteval.core.call import BASH
from agenteval.core.policy.arguments import READ, WRITE, ToolRule
from agenteval.core.policy.command_line import Kind, Parser
from agenteval.core.policy.policy import Policy
from agenteval.core.shell.leaves import Construct
from agenteval.errors import UsageError

FOLDER = LISTS
_CHAIN = 32  # lists, each extending the next
_T = TypeVar("_T", bound=str)


def load_policy(
    name_or_path: str,
    *,
    roots: Sequence[Path],
    only_bash: bool = False,
    by_user: bool = True,
) -> Policy:
    """The policy of an allow list: a TOML file, or a name under the first root that has it.

    Raises UsageError when there is none, or when the file does not say what an allow list can.
    With `only_bash` the schemas of other tools are left unchecked: that takes 30 ms. Where a
    scenario names the list and not the user (`by_user`), no link is followed to it.
    """
    path = find(name_or_path, roots)
    is_named = by_user and _is_path(name_or_path)
    allow_list = _read(path, roots, (), None if is_named else _base_of(path.absolute(), roots))
    return policy(allow_list, name=path.stem, where=path, only_bash=only_bash)


def find(name_or_path: str, roots: Sequence[Path]) -> Path:
    """The file of an allow list. Raises UsageError with the known names when there is none."""
    if _is_path(name_or_path):
        return Path(name_or_path)
    for root in roots:
        path = root / FOLDER / f"{name_or_path}.toml"
        if os.path.lexists(path):
            note_hidden("allow list", name_or_path, path, shipped() / FOLDER / path.name)
            return path
    known = sorted({path.stem for root in roots for path in (root / FOLDER).glob("*.toml")})
    folders = ", ".join(str(root / FOLDER) for root in roots)
    raise UsageError(
        f"no allow list {name_or_path!r} in {folders}. Known: {', '.join(known) or 'none'}"
    )


def files_of(name_or_path: str, roots: Sequence[Path]) -> Iterator[Path]:
    """The files of which `load_any` makes this policy. Raises UsageError where there is none."""
    harness, colon, path = name_or_path.partition(":")
    if colon and not Path(name_or_path).exists():
        yield Path(path or harness)
        return
    at = (
        find(name_or_path, roots)
        if "." not in name_or_path.rpartition("/")[2]
        else Path(name_or_path)
    )
    above: list[str] = []
    while (real := os.path.realpath(at)) not in above:  # Path.resolve raises for a loop of links
        yield at
        above.append(real)
        extends = read_toml(at).get("extends") if at.suffix == ".toml" else None
        if not isinstance(extends, str) or not extends:
            return
        at = _base(extends, at, roots)


def policy(
    allow_list: tables.AllowList, *, name: str, where: Path | str, only_bash: bool = False
) -> Policy:
    """Return the policy of an allow list.

    Raises UsageError, beginning with `where`, when a rule cannot be.
    """
    try:
        rules = tables.bash_rules(allow_list.bash or tables.BashTable())
        tools = {
            tool: tables.tool_rule(tool, table, check=tool == BASH or not only_bash)
            for tool, table in allow_list.tools.items()
        }
    except ValueError as error:
        raise UsageError(f"{where}: {error}") from error
    for tool, table in (
        (BASH, allow_list.bash),
        (READ, allow_list.read),
        (WRITE, allow_list.write),
    ):
        if table is not None:
            tools.setdefault(tool, ToolRule(tool))
    return Policy(
        name=name,
        digest=_digest(allow_list),
        description=allow_list.description,
        bash=rules,
        read=tables.path_rules(allow_list.read),
        write=tables.path_rules(allow_list.write),
        tools=tools,
        files=frozenset(allow_list.files),
        stated=frozenset(allow_list.stated),
        other_tools=allow_list.other_tools or "deny",
    )


def _is_path(name_or_path: str) -> bool:
    return name_or_path.endswith(".toml") or "/" in name_or_path


def _base_of(path: Path, roots: Sequence[Path]) -> Path:
    """Return the folder beneath which a list without a path is read: its project, or its own."""
    return next((root for root in roots if path.is_relative_to(root)), path.parent)


def _read(
    path: Path, roots: Sequence[Path], above: tuple[str, ...], within: Path | None
) -> tables.AllowList:
    """The list with what it extends; `within` is what its file is read beneath."""
    allow_list = convert(path, read_toml(path, within))
    real = os.path.realpath(path)
    if real in above:
        chain = " extends ".join((*above, real))
        raise UsageError(f"{path}: an allow list may not extend itself ({chain})")
    if len(above) > _CHAIN:
        raise UsageError(f"{path}: more than {_CHAIN} lists extend one another: join some of them")
    if not allow_list.extends:
        return allow_list
    base = _base(allow_list.extends, path, roots)
    below = _base_of(Path(os.path.normpath(base)), roots)
    return _joined(_read(base, roots, (*above, real), below), allow_list)


def _base(extends: str, path: Path, roots: Sequence[Path]) -> Path:
    """The extended list's file: a path is relative to the extending one, a name is looked up."""
    if "\0" in extends:
        raise UsageError(f"{path}: extends: {extends!r}: a path has no NUL in it")
    if extends.endswith(".toml") or "/" in extends:
        _check_extended(extends, path, roots)
        return path.parent / extends
    try:
        return find(extends, (path.parent.parent, *roots))
    except UsageError as error:
        raise UsageError(f"{path}: extends: {error}") from error


def _check_extended(extends: str, path: Path, roots: Sequence[Path]) -> None:
    """Raises UsageError where a list of a project extends what its digest does not cover."""
    folders = [root / FOLDER for root in roots]  # the project's, and those that agenteval ships
    target = Path(os.path.normpath(path.parent.absolute() / extends))
    if any(target.is_relative_to(folder) for folder in folders):
        return
    for folder in folders:
        if path.absolute().is_relative_to(folder):
            raise UsageError(
                f"{path}: extends: {extends!r} leads out of {folder}: put that list there"
            )


def convert(where: Path | str, content: dict[str, Any]) -> tables.AllowList:
    """The tables of an allow list. Raises UsageError: file, key, what was expected."""
    if not content:
        raise UsageError(
            f"{where}: is empty, so no tool exists and nothing is allowed: begin with [bash] "
            f'allow = ["git status"]'
        )
    try:
        return msgspec.convert(content, tables.AllowList)
    except RecursionError as error:
        raise UsageError(f"{where}: nests too deeply: no command line does so") from error
    except msgspec.ValidationError as error:
        message, _, key = str(error).partition(" - at `$")
        at = key.rstrip("`").replace("[...]", ".*").lstrip(".")
        raise UsageError(f"{where}: {at + ': ' if at else ''}{_in_words(message, at)}") from error


def _in_words(message: str, at: str) -> str:
    """Return msgspec's message on the table or value `at` in the words of our other messages."""
    last = re.sub(r"\[\d+\]|\.\*", "", at).rpartition(".")[2]
    named = re.findall("['`]([^'`]*)['`]", message)
    if "unknown field" in message:
        fields = tables.KEYS.get(last, tables.AllowList).__struct_fields__
        return f"unknown key {named[0]}; {known_keys(named[0], fields)}"
    if "missing required field" in message:
        return f"key {named[0]} is missing"
    if "enum value" in message:
        known = ", ".join(_CHOICES.get(last, Kind))
        return f"expected one of {known}, got {named[0]!r}"
    expected, got = (
        " or ".join(_WORDS.get(kind, kind) for kind in kinds.split(" | ") if kind != "null")
        for kinds in named
    )
    return f"expected {expected}, got {got}"


_CHOICES: dict[str, Iterable[str]] = {"constructs": Construct, "parser": Parser}
_WORDS = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
}


def _joined(base: tables.AllowList, own: tables.AllowList) -> tables.AllowList:
    """Both lists' rules; of two rules for the same script or tool the extending list's counts."""
    return tables.AllowList(
        description=own.description or base.description,
        files=_both(base.files, own.files),
        stated=_both(base.stated, own.stated),
        bash=_joined_bash(base.bash, own.bash),
        read=_joined_paths(base.read, own.read),
        write=_joined_paths(base.write, own.write),
        tools={**base.tools, **own.tools},
        other_tools=own.other_tools or base.other_tools,
    )


def _both(base: tuple[_T, ...], own: tuple[_T, ...]) -> tuple[_T, ...]:
    return tuple(dict.fromkeys((*base, *own)))


def _joined_bash(
    base: tables.BashTable | None, own: tables.BashTable | None
) -> tables.BashTable | None:
    if base is None or own is None:
        return own or base
    scripts = {(script.runner, script.path): script for script in (*base.script, *own.script)}
    return tables.BashTable(
        allow=tuple(dict.fromkeys((*base.allow, *own.allow))),
        deny=_both(base.deny, own.deny),
        through=_both(base.through, own.through),
        constructs=_both(base.constructs, own.constructs),
        env=_both(base.env, own.env),
        script=tuple(scripts.values()),
    )


def _joined_paths(
    base: tables.PathTable | None, own: tables.PathTable | None
) -> tables.PathTable | None:
    if base is None or own is None:
        return own or base
    return tables.PathTable(allow=_both(base.allow, own.allow), deny=_both(base.deny, own.deny))


def _digest(allow_list: tables.AllowList) -> str:
    """Names the rules, not the file: neither layout nor description changes it."""
    bash = allow_list.bash
    scripts = [tables.spelled_out(script) for script in bash.script] if bash else []
    rules = {
        **msgspec.to_builtins(allow_list),
        "description": "",
        "extends": "",
        "scripts": scripts,
        "bash": bash and (bash.allow, sorted(bash.constructs), sorted(bash.env)),
        **({"deny": bash.deny, "through": sorted(bash.through)} if bash else {}),
        "files": sorted(allow_list.files),
        "stated": sorted(allow_list.stated),
    }
    if allow_list.other_tools in {None, "deny"}:  # what a list says that does not name it
        del rules["other_tools"]
    canonical = msgspec.json.encode(rules, order="deterministic")
    return hashlib.sha256(canonical).hexdigest()[:12]


def policy_warnings(given: str, policy: Policy) -> Iterator[str]:
    """A line for each key of another harness's settings that the verdicts do not follow."""
    return (f"{given}: {unheeded.line}" for unheeded in policy.unheeded)


def load_any(name_or_path: str, *, roots: Sequence[Path], only_bash: bool = False) -> Policy:
    """The policy behind a name or a path; `HARNESS:PATH` says whose config it is.

    Without that, a .rules file is Codex's, a .md an OpenCode agent's, and a JSON file is of the
    harness whose name or keys it has. `only_bash` is as in `load_policy`. Raises UsageError when
    it is none of these.
    """
    harness, colon, path = name_or_path.partition(":")
    file = name_or_path.rpartition("/")[2]
    if not colon and ("." not in file or file.endswith(".toml")):
        return load_policy(name_or_path, roots=roots, only_bash=only_bash)
    from agenteval.dialects import registry  # noqa: PLC0415 -- start-up: ours needs none of them
    from agenteval.dialects.config_files import naming  # noqa: PLC0415 -- as above

    if colon and (reader := registry.reader(harness)):
        if not path:
            raise UsageError(f"{name_or_path}: names no file: expected one behind the colon")
        with naming(Path(path)):
            return reader(Path(path))
    if not registry.is_foreign(name_or_path):
        return load_policy(name_or_path, roots=roots, only_bash=only_bash)
    with naming(Path(name_or_path)):
        return registry.reader_of(Path(name_or_path))(Path(name_or_path))
