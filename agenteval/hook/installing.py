"""The hook in a harness's settings: put in and taken out, which file, with which backup.

Only what is ours is put in and taken out: order, indentation and comments stay, so that a hook put
in and taken out leaves every byte as it was. The first part edits a text and is pure; the second
reads and writes files.
"""

import contextlib
import difflib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from agenteval.config.allowlists import find, load_any
from agenteval.config.trust import roots
from agenteval.errors import UsageError, unwritten
from agenteval.host import locked
from agenteval.shell.gate import quoted

_TOKEN: Final = re.compile(
    r'(?P<text>"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*")'
    r"|(?P<blank>\s+|//[^\n]*|/\*.*?\*/)|(?P<mark>[{}\[\],:])|(?P<word>[^\s{}\[\],:\"]+)",
    re.DOTALL,
)
_INDENT: Final = re.compile(r'\n([ \t]+)"')
WAY: Final = ("hooks", "PreToolUse")


@dataclass(frozen=True, slots=True)
class _Value:
    """The place of a value: from `start` with its key, from `value` without it."""

    start: int
    value: int
    end: int
    key: str
    members: tuple["_Value", ...] = ()


class _Reader:
    """A JSON text with comments, read for the places of its values."""

    def __init__(
        self,
        text: str,
        where: str,
    ) -> None:
        self.where = where
        # Each token's kind, text and place
        self.tokens: list[tuple[str, str, int]] = []
        at = 0
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise UsageError(f"{where}: no JSON from character {at} on: mend it first")
            if match.lastgroup != "blank":
                self.tokens.append((match.lastgroup or "", match[0], at))
            at = match.end()
        # The next token
        self.at = 0

    def value(
        self,
        start: int = -1,
        key: str = "",
    ) -> _Value:
        kind, text, at = self._next()
        start = at if start < 0 else start
        if kind != "mark":
            return _Value(
                start,
                at,
                at + len(text),
                key,
            )
        closing = {"{": "}", "[": "]"}.get(text)
        if closing is None:
            raise self._fault(at)
        members = []
        while self._peek() != closing:
            members.append(self._member(is_table=text == "{"))
            if self._peek() != closing and self._next()[1] != ",":
                raise self._fault(at)
        keys = [member.key for member in members]
        if any(keys.count(key) > 1 for key in WAY):
            raise self._fault(at, f"{' or '.join(WAY)} stands twice in the object")
        _, _, end = self._next()
        return _Value(
            start,
            at,
            end + 1,
            key,
            tuple(members),
        )

    def _member(self, *, is_table: bool) -> _Value:
        if not is_table:
            return self.value()
        kind, key, start = self._next()
        if kind != "text" or self._next()[1] != ":":
            raise self._fault(start)
        return self.value(start, json.loads(key))

    def _next(self) -> tuple[str, str, int]:
        if self.at == len(self.tokens):
            raise self._fault(self.tokens[-1][2] if self.tokens else 0)
        self.at += 1
        return self.tokens[self.at - 1]

    def _peek(self) -> str:
        return self.tokens[self.at][1] if self.at < len(self.tokens) else ""

    def _fault(
        self,
        at: int,
        what: str = "no JSON",
    ) -> UsageError:
        return UsageError(f"{self.where}: {what} at character {at}: mend it first")


def _root(text: str, where: str) -> _Value:
    reader = _Reader(text, where)
    try:
        root = reader.value()
    except RecursionError as error:
        raise UsageError(f"{where}: nests too deeply: mend it first") from error
    if reader.at != len(reader.tokens) or text[root.value] != "{":
        raise UsageError(f"{where}: expected one JSON object: mend it first")
    return root


def _with_hook(
    text: str,
    entry: Mapping[str, Any],
    where: str,
) -> str:
    """Return the settings with this entry, in the place of one that is there. Raises UsageError."""
    text = _without_hook(text, where)
    text = text if text.strip() else "{}\n"
    indent = _INDENT.search(text)
    step = indent[1] if indent else "  "
    inside = _root(text, where)
    # The keys that are still to be put in
    ways = list(WAY)
    while ways and (member := _member(inside, ways[0])):
        if text[member.value] != ("{" if len(ways) > 1 else "["):
            raise UsageError(f"{where}: {ways[0]} has another form than it should: mend it first")
        inside = member
        ways.pop(0)
    lead = f"\n{step * (len(WAY) - len(ways) + 1)}"
    nested: Any = [entry] if ways else entry
    if ways[1:]:
        nested = {ways[1]: nested}
    body = json.dumps(
        nested,
        indent=step,
        ensure_ascii=False,
    ).replace("\n", lead)
    key = f"{json.dumps(ways[0])}: " if ways else ""
    after = "," if inside.members else lead[: -len(step)]
    at = inside.value + 1
    return f"{text[:at]}{lead}{key}{body}{after}{text[at:]}"


def _without_hook(text: str, where: str) -> str:
    """Return the settings without entries that run our client. Raises UsageError.

    What held nothing else goes with them.
    """
    while text.strip():
        root = _root(text, where)
        hooks = _member(root, WAY[0])
        listed = _member(hooks, WAY[1]) if hooks else None
        if hooks is None or listed is None:
            break
        entries = (value for value in listed.members if _runs_client(text, value))
        entry = next(entries, None)
        if entry is None:
            break
        # The outermost value that holds nothing else goes.
        chain = ((root, hooks), (hooks, listed), (listed, entry))
        for depth, (outer, inner) in enumerate(chain, 1):
            if _only(inner, entry):
                text = _cut(text, outer, inner, depth)
                break
    return text


def _only(value: _Value, entry: _Value) -> bool:
    """Return True if nothing but the entry stands in the value."""
    while value is not entry:
        if len(value.members) != 1:
            return False
        value = value.members[0]
    return True


def _cut(
    text: str,
    outer: _Value,
    inner: _Value,
    depth: int,
) -> str:
    """Return the text without the member: it and its comma, or what `_with_hook` put in."""
    place = outer.members.index(inner)
    if place:
        return text[: outer.members[place - 1].end] + text[inner.end :]
    start = outer.value + 1
    end = inner.end
    if len(outer.members) > 1:
        return text[:start] + text[text.index(",", end) + 1 :]
    blanks = inner.start - start - 1
    tail = "\n" + text[start + 1 : start + 1 + blanks * (depth - 1) // depth]
    return text[:start] + text[end:].removeprefix(tail)


def _member(value: _Value, key: str) -> _Value | None:
    members = (member for member in value.members if member.key == key)
    return next(members, None)


def _runs_client(text: str, entry: _Value) -> bool:
    """Return True if an entry of a list runs our client, also where its path is escaped."""
    written = text[entry.value : entry.end]
    try:
        content = json.loads(written)
    except ValueError:
        return _MARK in written
    return _MARK in json.dumps(content, ensure_ascii=False)


# The files of a harness.

BACKUP: Final = ".before-agenteval"
# After which a harness goes on without an answer; our client ends long before
SECONDS: Final = 30
_CLIENT: Final = str(Path(__file__).resolve().with_name("client.py"))
_MARK: Final = "/hook/client.py"
_NOTES: Final = {
    "claude-code": "Sessions that run now have it after /hooks or their next start.",
    "codex": "Codex runs no hook that you have not trusted: start it and open /hooks. For scripts "
    "there is `codex exec --dangerously-bypass-hook-trust`.",
    "opencode": "Sessions that run now have it after their next start.",
}
# What stands in the home folder, and in a project.
_FILES: Final = {
    "claude-code": (".claude/settings.json", ".claude/settings.json"),
    "codex": (".codex/hooks.json", ".codex/hooks.json"),
    "opencode": (".config/opencode/plugin/agenteval.js", ".opencode/plugin/agenteval.js"),
}
# Variables that name another folder than the one in the home folder.
_HOMES: Final = {"claude-code": "CLAUDE_CONFIG_DIR", "codex": "CODEX_HOME"}
NAMES: Final = tuple(_FILES)
# The OpenCode from which on a plug-in may be an object
_TAKES_OBJECTS: Final = (1, 18, 29)


@dataclass(frozen=True, slots=True)
class Change:
    """The text of a file before and after; None where it is not there.

    `note` is shown afterwards.
    """

    file: Path
    before: str | None
    after: str | None
    note: str = ""

    @property
    def diff(self) -> str:
        texts = (self.before, self.after)
        names = [os.devnull if text is None else str(self.file) for text in texts]
        parts = [(text or "").splitlines(keepends=True) for text in texts]
        # The last line of a file may have no end.
        lines = difflib.unified_diff(
            parts[0],
            parts[1],
            names[0],
            names[1],
        )
        whole = (line.removesuffix("\n") for line in lines)
        return "".join(f"{line}\n" for line in whole)

    def make(self) -> None:
        """Write it whole or not at all, and keep the earlier file next to it while they differ.

        Raises UsageError where another process has changed the file since it was read.
        """
        with locked(self.file.parent):
            now = _text(self.file)
            if now not in {self.before, self.after}:
                raise UsageError(f"{self.file} was changed meanwhile: start this command again")
            if now == self.before:
                self._write_locked()
        if self.after is None:
            with contextlib.suppress(OSError):
                # Where it was made for this file
                self.file.parent.rmdir()

    def _write_locked(self) -> None:
        backup = Path(f"{self.file}{BACKUP}")
        if self.after is None:
            self.file.unlink()
            return
        if self.before is not None and not backup.exists():
            _write(backup, self.before, like=self.file)
        _write(
            self.file,
            self.after,
            like=self.file,
        )
        if _text(backup) == self.after:
            backup.unlink()


def _write(
    file: Path,
    text: str,
    *,
    like: Path,
) -> None:
    """Write a file whole or not at all, with the mode of another one. Raises UsageError."""
    mode = like.stat().st_mode & 0o777 if like.exists() else 0o600
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    try:
        with os.fdopen(
            handle,
            "w",
            encoding="utf-8",
            newline="",
        ) as new:
            new.write(text)
        Path(name).chmod(mode)
        Path(name).replace(file)
    except OSError as error:
        Path(name).unlink(missing_ok=True)
        raise unwritten(str(file), error, "it is as it was; make it yours to change it") from error


def file_of(harness: str, *, user: bool) -> Path:
    """Return the file with a harness's hooks. Raises UsageError for a harness that has none."""
    if harness not in _FILES:
        raise UsageError(f"--for {harness}: expected one of {', '.join(_FILES)}")
    at_home, in_project = _FILES[harness]
    if not user:
        return Path(in_project).resolve()
    folder = os.environ.get(_HOMES.get(harness, ""))
    if folder:
        return Path(folder, Path(at_home).name).resolve()
    return Path(Path.home(), at_home).resolve()


def command(
    harness: str, allowlist: str, *, observe: bool, fail: str, log: str = ""
) -> Sequence[str]:
    """Return the words that start our client. Raises UsageError for an unreadable allow list."""
    if fail not in {"closed", "open"}:
        raise UsageError(f"--fail {fail}: expected closed or open")
    words = [
        sys.executable,
        "-I",
        "-S",
        _CLIENT,
        "--for",
        harness,
    ]
    words += ["--allowlist", _whole(allowlist), "--fail", fail]
    if observe:
        words.append("--observe")
    if log:
        words += ["--log", str(Path(log).resolve())]
    return words


def _whole(allowlist: str) -> str:
    """Return the allow list by its whole path, as it is read from wherever the agent stands."""
    load_any(allowlist, roots=roots())
    harness, colon, path = allowlist.partition(":")
    if colon and not Path(allowlist).exists():
        return f"{harness}:{Path(path).resolve()}"
    is_name = "." not in allowlist.rpartition("/")[2]
    file = find(allowlist, roots()) if is_name else Path(allowlist)
    return str(file.resolve())


def installed(
    harness: str,
    words: Sequence[str],
    *,
    user: bool,
    fail: str,
) -> Change:
    """Return the change that puts the hook in, or puts today's in the place of an older one."""
    file = file_of(harness, user=user)
    closed = fail == "closed" and "--observe" not in words
    before = _text(file)
    if harness == "opencode":
        source = Path(__file__).with_name("opencode_plugin.js").read_text(encoding="utf-8")
        after = plugin(
            source,
            words,
            fails_closed=closed,
            is_old=_is_old_opencode(),
        )
    else:
        entry = _entry_of(_command_line(words, fails_closed=closed))
        after = _with_hook(before or "", entry, str(file))
    return Change(file, before, after, _NOTES[harness])


def removed(harness: str, *, user: bool) -> Change:
    """Return the change that takes the hook out: byte by byte, if nothing else changed since."""
    file = file_of(harness, user=user)
    before = _text(file)
    if before is None or harness == "opencode":
        if before is not None and "agenteval hook install" not in before:
            raise UsageError(f"{file}: is not the plug-in that `agenteval hook install` writes")
        return Change(file, before, None)
    after = _without_hook(before, str(file))
    saved = _text(Path(f"{file}{BACKUP}"))
    if saved is None:
        # It was made for the hook
        is_empty = after.split() == ["{}"]
        return Change(file, before, None if is_empty else after)
    if after != before and _equals_backup(
        saved,
        after,
        str(file),
    ):
        after = saved
    return Change(file, before, after)


def there(file: Path) -> str:
    """Return the command of ours in a harness's file; "" where it has none."""
    text = _text(file) or ""
    lines = (line.strip() for line in text.splitlines() if _MARK in line)
    return next(lines, "")


def write_shell(file: Path, words: Sequence[str]) -> None:
    """Write a program that is a guarded shell. Raises UsageError if something is in its place."""
    line = _command_line(words, fails_closed=False)
    try:
        with file.open("x", encoding="utf-8") as new:
            new.write(f'#!/bin/sh\nexec {line} "$@"\n')
    except FileExistsError as error:
        raise UsageError(
            f"--write {file}: is there already: name a new file, or move that one"
        ) from error
    file.chmod(0o755)


def _equals_backup(
    saved: str,
    after: str,
    where: str,
) -> bool:
    """Return True if a backup equals what is left.

    Lists that were empty before the hook came make no difference.
    """
    entry = _entry_of(_MARK)
    first, second = (
        _with_hook(
            text,
            entry,
            where,
        ).split()
        for text in (saved, after)
    )
    return "".join(first) == "".join(second)


def _text(file: Path) -> str | None:
    """Return a file's text, if there is one. Raises UsageError if it cannot be read."""
    try:
        with file.open(encoding="utf-8", newline="") as opened:
            return opened.read()
    except FileNotFoundError:
        return None
    except NotADirectoryError as error:
        raise UsageError(f"{file}: {file.parent} is no folder: move it out of the way") from error
    except OSError as error:
        raise UsageError(f"{file}: cannot be read ({error.strerror}): make it yours") from error
    except ValueError as error:
        raise UsageError(f"{file}: cannot be read as UTF-8 text: mend it first") from error


def _entry_of(command: str) -> Mapping[str, Any]:
    """Return an entry as Claude Code and Codex take it: for all tools, run this."""
    run = {"type": "command", "command": command, "timeout": SECONDS}
    return {"matcher": "*", "hooks": [run]}


def _command_line(words: Sequence[str], *, fails_closed: bool) -> str:
    """Return the command that a harness gives to a shell.

    Whatever keeps it from answering, a Python that is gone too, is exit code 2: a denial.
    """
    line = " ".join(map(quoted, words))
    return f"{line} || exit 2" if fails_closed else line


def plugin(
    text: str,
    words: Sequence[str],
    *,
    fails_closed: bool,
    is_old: bool = False,
) -> str:
    """Return the text of OpenCode's plug-in, with the command that it starts.

    Old ones call whatever a plug-in exports, so there it is a function that OpenCode 2 refuses.
    """
    own = f"const COMMAND = {json.dumps(list(words))}\nconst CLOSED = {json.dumps(fails_closed)}"
    text = text.replace("const COMMAND = []\nconst CLOSED = true", own)
    if is_old:
        text = text.replace("export default {", "const hook = {")
        text += "export const AgentevalHook = hook.server\n"
    return text


def _is_old_opencode() -> bool:
    """Return True if the `opencode` found here is of a version that knows no object as plug-in."""
    words = ["opencode", "--version"]
    try:
        done = subprocess.run(
            words,
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    match = re.match(r"(\d+)\.(\d+)\.(\d+)", done.stdout.strip())
    return match is not None and tuple(map(int, match.groups())) < _TAKES_OBJECTS
