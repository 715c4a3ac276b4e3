"""The client of Codex's app server: one thread, one turn, and answers to its requests. Pure.

Only there does Codex request approval of whatever no rule allows; without a client it runs that.
The answer is the allow list's, which says more than rules about first words can. Codex reads and
changes files by commands alone: one that shows a file is let through if the list lets that file be
read.
"""

import json
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from agenteval.core.call import BASH, ToolCall
from agenteval.core.shell.simple_command import Simple, read_simple

Json = Mapping[str, Any]
Allows = Callable[[ToolCall], bool]  # what the allow list says
_CLIENT: Final = {"name": "agenteval", "version": "1"}
_ACCESS: Final = {"approvalPolicy": "untrusted", "sandbox": "danger-full-access"}
_UNKNOWN: Final = {"code": -32601, "message": "no such method"}


@dataclass(slots=True)
class AppServer:
    """Our side of one conversation, one JSON object a line.

    `over` once the turn has ended; `failure` is the error that the server reported.
    """

    prompt: str
    allows: Allows
    over: bool = False
    failure: str = ""
    _changes: dict[str, list[str]] = field(default_factory=dict)  # by item: the paths

    def begins(self) -> str:
        return _line(id="initialize", method="initialize", params={"clientInfo": _CLIENT})

    def answer(self, line: str) -> str:
        """Return the lines that answer this one; "" for none."""
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            return ""
        return "".join(self._answers(message)) if isinstance(message, dict) else ""

    def _answers(self, message: Json) -> Iterator[str]:
        method, params = message.get("method"), message.get("params") or {}
        match method:
            case None:
                yield from self._goes_on(message)
            case "turn/completed":
                turn = params.get("turn") or {}
                self.over = True
                self._failed(turn.get("error"))
            case "item/started" if (item := params.get("item") or {}).get("type") == "fileChange":
                paths = [str(one.get("path")) for one in item.get("changes") or ()]
                self._changes[str(item.get("id"))] = paths
            case "error" if not params.get("willRetry"):
                self._failed(params.get("error"))
        if method and "id" in message:
            yield _line(id=message["id"], **self._decided(method, params))

    def _goes_on(self, message: Json) -> Iterator[str]:
        """After each of our three requests comes the next."""
        if "error" in message:
            self.over = True
            self._failed(message["error"])
        elif message.get("id") == "initialize":
            yield _line(method="initialized")
            yield _line(id="thread", method="thread/start", params=_ACCESS)
        elif message.get("id") == "thread":
            asked = [{"type": "text", "text": self.prompt}]
            thread = message["result"]["thread"]["id"]
            yield _line(id="turn", method="turn/start", params={"threadId": thread, "input": asked})

    def _decided(self, method: str, params: Json) -> Json:
        if not method.endswith("/requestApproval"):
            return {"error": _UNKNOWN}
        asked = params.get("command")
        if isinstance(asked, str):
            command, folder = unwrapped(asked), str(params.get("cwd"))
            accepts = _admits(self.allows, BASH, {"command": command})
            accepts = accepts or shows_open_files(self.allows, command, folder)
        else:
            paths = self._changes.get(str(params.get("itemId")), ())
            accepts = _admits_all(self.allows, "write", paths)
        return {"result": {"decision": "accept" if accepts else "decline"}}

    def _failed(self, error: object) -> None:
        if isinstance(error, Mapping):
            self.failure = str(error.get("message") or error)


# A program that only shows files, with all that may stand before them. A script of sed's that is
# anything else may run a program or write a file.
_SHOWING: Final = re.compile(
    r"(?:cat\0(?:-n\0)?|nl\0(?:-ba\0)?|(?:head|tail)\0(?:-\d+\0|-n\0\d+\0)?"
    r"|sed\0-n\0\d+(?:,\d+)?p\0)(?P<files>.+)\0",
    re.DOTALL,
)


def shows_open_files(allows: Allows, command: str, folder: str) -> bool:
    """Return True if a command only shows files, and the list lets each of them be read."""
    return _admits_all(allows, "read", files_read(command, folder))


def _admits_all(allows: Allows, tool: str, paths: Sequence[str]) -> bool:
    return bool(paths) and all(
        _admits(allows, tool, {"path": path, "content": ""}) for path in paths
    )


def _admits(allows: Allows, tool: str, given: Json) -> bool:
    return allows(ToolCall("", tool, json.dumps(given), given))


def unwrapped(command: str) -> str:
    """Return the text that Codex hands to a shell, from the command line that it reports."""
    read = read_simple(command)
    argv = read.argv if isinstance(read, Simple) else ()
    return argv[2] if len(argv) == 3 and argv[1] in {"-c", "-lc"} else command


def files_read(command: str, folder: str) -> Sequence[str]:
    """The files that a command shows and does nothing else with; none for any other."""
    read = read_simple(command)
    if not isinstance(read, Simple) or read.dynamic:
        return ()
    found = _SHOWING.fullmatch("\0".join((*read.argv, "")))
    files = found["files"].split("\0") if found else ()
    if any(file.startswith("-") for file in files):
        return ()
    return [posixpath.join(folder, file) for file in files]


def _line(**message: Any) -> str:
    return json.dumps(message) + "\n"
