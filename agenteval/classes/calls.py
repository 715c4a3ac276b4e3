"""Failure classes of a call before its command matters: its JSON, its tool, its path."""

import json
import re

from agenteval.classes.failure_class import (
    ArticleRow,
    DeniedCall,
    Seen,
    failure_class,
    left_open,
    malformed,
    plain_for,
    residue,
    tool,
    typographic,
)
from agenteval.policy.command_lines import normalise
from agenteval.policy.mismatch import listed
from agenteval.policy.policy import admitted_path, closed, elsewhere, path_argument
from agenteval.policy.rules import BashRules
from agenteval.shell.gate import Obstacle, Span
from agenteval.shell.wrappers import base_name
from agenteval.trial.text import names


@failure_class(
    bad=[
        malformed("bash", '{"command": "uv run scripts/notes.py list'),
        tool("", command="uv run scripts/notes.py list"),
        tool("bash", cmd="uv run scripts/notes.py list"),
        tool("todo", items="buy milk"),
        "",
        "# list the notes",
    ],
    good=[tool("todo", items=["buy milk"]), "uv run scripts/notes.py add '{\"command\": 1'"],
    cure="Send one JSON object that fits the tool's parameters.",
    seen_in=["call", Obstacle.EMPTY],
)
def malformed_arguments(call: DeniedCall) -> Seen | None:
    """Arguments that are no JSON object, or not what the tool takes.

    Nothing can run: the text is cut off, or breaks the tool's schema. A bash call without
    any command in it belongs here too, and one whose name was lost on its way.
    """
    if not call.call.name.strip():
        return Seen(call.whole, "it names no tool")
    if call.call.arguments is None:
        return Seen(call.whole)
    rule = call.policy.tool(call.call.name)
    if complaint := rule.complaint(call.call.arguments) if rule else "":
        return Seen(call.whole, complaint)
    is_empty = not (call.parts or call.shell.assignments or call.shell.redirects)
    if is_empty and call.stop and call.stop.reason is Obstacle.EMPTY:
        return Seen(call.whole, "there is no command in it")
    return None


@failure_class(
    bad=[
        tool("emit_guidance", text="go on"),
        tool("web_search", query="x"),
        tool("Bash", command="ls"),
    ],
    good=["uv run scripts/ralf.py emit-guidance --text 'go on'"],
    seen_in=["call"],
    article=ArticleRow.TOOL,
)
def hallucinated_tool(call: DeniedCall) -> Seen | None:
    """A tool that does not exist.

    The model calls a name that it was never offered, often the name of a script or of one of its
    sub-commands, which bash should have run.
    """
    name = call.call.name
    if call.policy.tool(name):
        return None
    return Seen(Span(0, 0, name), _tool_hint(name, call))


def _tool_hint(name: str, call: DeniedCall) -> str:
    tools = call.policy.tools
    if start := tuple(_script_behind(name, call.policy.bash).split()):
        return f"{name} is no tool of its own. {listed(call.policy, call.world, start)}"
    near = names(frozenset(tools)).nearest(name)
    cure = f"did you mean {near}?" if near else f"use {', '.join(tools)}"
    return f"there is no tool {name}: {cure}"


def _script_behind(name: str, rules: BashRules) -> str:
    """Return how to call the script, or the sub-command, that a tool's name may mean, or ""."""
    name = name.replace("-", "_")
    for script in rules.scripts:
        for command in script.line.commands:
            if command.replace("-", "_") == name:
                return f"{script.start} {command}"
    for path, starts in rules.listed.items():
        if base_name(path).rpartition(".")[0] == name:
            return starts[0]
    return ""


@failure_class(
    bad=[
        tool("read", path="/data/rendered/page-1.png"),
        tool("read", path="rendered/page-1.png"),
        tool("read", path="notes/../../etc/passwd"),
        tool("write", path="data/papers.csv", content="x"),
        tool("bash", command="git status", workdir="/srv"),
    ],
    good=[
        tool("read", path="notes/2026-01-12.md"),
        tool("read", path="/workspace/./README.md"),
        tool("write", path="notes/..hidden.md", content="x"),
    ],
    seen_in=["call"],
    article=ArticleRow.PATH,
)
def blocked_path(call: DeniedCall) -> Seen | None:
    """A file tool asked for a path outside its rules, or bash for another folder to start in.

    The path leads out of the workspace, or to a place inside it that the rules for reading or
    writing do not open. A `..` behind a folder counts as leading out: the folder may be a link.
    """
    if call.call.command is not None and call.policy.engine is None:
        folders = elsewhere(call.call.arguments or {}, call.world)
        return Seen(Span(0, 0, folders[0]), _START) if folders else None
    own = call.policy.tool(call.call.name)
    if value := closed(call.call, own, call.world.root):
        return Seen(_argument_span(call, value), "it is not open to this agent: work without it")
    rules = call.policy.paths(call.call.name)
    path = path_argument(call.call.arguments or {}) if rules else None
    if rules is None or path is None:
        return None
    if admitted_path(call.call, rules, call.world):
        theirs = Seen(_argument_span(call, path), f"no rule opens it to {call.call.name}")
        return theirs if call.policy.engine else None
    if rules.admits(path) and normalise(path, call.world.root) is None:
        return Seen(_argument_span(call, path), _BEYOND)
    open_to = ", ".join(rules.allow) or "nothing"
    barred = f" except {', '.join(rules.deny)}" if rules.deny else ""
    return Seen(_argument_span(call, path), f"{call.call.name} is open to {open_to}{barred}")


_BEYOND = "it lies outside the workspace, and nothing there is open: work without it"
_START = "every command starts in the workspace: leave the folder out"


def _argument_span(call: DeniedCall, value: str) -> Span:
    """Return the place of an argument's value in the raw text, however its JSON is written."""
    for form in (value, json.dumps(value)[1:-1]):
        start = call.text.find(form)
        if start >= 0:
            return call.span(start, start + len(form))
    return call.whole


@failure_class(
    bad=[
        "```bash\nuv run scripts/notes.py list\n```",
        '{"command": "uv run scripts/notes.py list"}',
        "$ uv run scripts/notes.py list",
        "me@host:~$ uv run scripts/notes.py list",
        '["bash", "-lc", "uv run scripts/notes.py list"]',
        "uv run scripts/notes.py list</tool_call>",
        "uv run scripts/notes.py list<|im_end|>",
        "uv run scripts/notes.py list</minimax:tool_call>",
        "uv run scripts/notes.py list<\uff5ctool\u2581call\u2581end\uff5c>",
        '<parameter name="command">uv run scripts/notes.py list',
        "<think>List them.</think>\nuv run scripts/notes.py list",
        'uv run scripts/notes.py list"}',
    ],
    good=["uv run scripts/notes.py add '```bash'", "uv run scripts/notes.py add '</tool_call>'"],
    cure="Send the command alone, without marks of a template or a document around it.",
    seen_in=["residue"],
    slip="{}</tool_call>",
)
def template_residue(call: DeniedCall) -> Seen | None:
    """Marks of a chat template or a document around the command.

    Code fences, the JSON of the call itself, a prompt sign, a thought, an element or a token that
    the server should have taken away: the command may be right, what stands around it is not shell.
    """
    found = residue(call.text)
    return Seen(call.span(*found)) if found else None


@failure_class(
    bad=[
        "uv run scripts/notes.py list \u2014limit 5",
        "uv run scripts/db_query.py --sql \u201cselect 1\u201d",
        "uv run scripts/notes.py list\u200b",
        "uv run scripts/notes.py\u00a0list",
    ],
    good=["uv run scripts/notes.py add 'a \u2014 b'", "uv run scripts/notes.py add 'it\u2019s'"],
    seen_in=["residue"],
    slip="\u200b{}",
)
def typographic_character(call: DeniedCall) -> Seen | None:
    """A typographic character where shell wants a plain one.

    A long dash for `--`, curly quotes, a blank without break or one without width: bash takes
    each for a letter.
    """
    place = typographic(call.text)
    if not place:
        return None
    character = call.text[place[0]]
    return Seen(call.span(*place), f"U+{ord(character):04X} {plain_for(character)}")


# Where a reader can stop before a bracket that is out of place.
_BRACKET_AT = (Obstacle.EMPTY, Obstacle.HEREDOC, Obstacle.DEPTH, Obstacle.LENGTH)


@failure_class(
    bad=[
        "uv run scripts/notes.py add 'an open quote",
        "uv run scripts/notes.py list )",
        "uv run scripts/notes.py add a)b",
        "uv run scripts/notes.py (list)",
        "uv run scripts/notes.py list <",
        'uv run scripts/notes.py add "a"b"',
        "uv run scripts/notes.py list; fi",
        "uv run scripts/notes.py list;;",
        "uv run scripts/notes.py show <note>",
    ],
    good=['uv run scripts/notes.py add "it\'s ("', "uv run scripts/notes.py add 'a &&'"],
    cure="Close every quote and bracket, and send one whole command.",
    seen_in=["errors", Obstacle.QUOTE, *"();", *_BRACKET_AT],
    slip='{} "',
)
def shell_syntax_error(call: DeniedCall) -> Seen | None:
    """Text that bash cannot parse.

    A quote or bracket stays open, an operator has nothing to join, or a word such as `fi` ends
    what nothing began. Often the JSON around the
    command was escaped once too much or too little.
    """
    if call.shell.errors:
        return _error(call, call.shell.errors[0])
    stop = call.stop
    if stop and (stop.reason is Obstacle.QUOTE or _has_no_meaning(call, stop.start)):
        return Seen(call.span(stop.start, len(call.text)), left_open(call.text))
    return None


_PLACEHOLDER = re.compile(r"<[A-Za-z][^<>\n|;&()'\"]*+>")
_BEFORE_END = re.compile(r"(?:[|&;<>]++|[^\s|&;<>]++)\s*\Z")


def _error(call: DeniedCall, error: Span) -> Seen:
    """Return what shows an error: a placeholder around it, or what stands before one at an end."""
    start, end, text = error
    for placeholder in _PLACEHOLDER.finditer(call.text, max(start - _NEAR, 0), end + _NEAR):
        touches = placeholder.start() <= end and start <= placeholder.end()
        if touches and end - start < len(placeholder[0]) + _NEAR:
            hint = f"write a value in place of {placeholder[0]}: bash takes < and > for redirects"
            return Seen(call.span(*placeholder.span()), hint)
    hint = left_open(call.text)
    if text:
        return Seen(error, hint)
    opened = call.text.rfind("(", 0, end)
    if opened > call.text.rfind(")", 0, end):
        return Seen(call.span(opened, end), hint)
    before = _BEFORE_END.search(call.text[max(end - _NEAR, 0) : end])
    span = call.span(end - len(before[0]), end) if before else call.whole
    return Seen(span, hint)


_NEAR = 32  # characters


def _has_no_meaning(call: DeniedCall, at: int) -> bool:
    """Return True if bash has no use for what stopped a reader.

    The reader is one that knows no `case` or function.
    """
    text = call.text
    mark = text[at : at + 1]
    if mark == ")":  # of $(<f) it is only the end
        groups = (*(span for _, span in call.shell.substitutions), *call.shell.subshells)
        return all(span.end != at + 1 for span in groups)
    if mark == ";":
        return text.startswith((";;", ";&"), at)
    if mark != "(" or not _BRACKET.match(text, at):
        return False
    before = text[:at].rstrip(" \t")[-1:]
    return bool(before) and before not in _BEFORE_BRACKET


_BEFORE_BRACKET = frozenset("\n|&;(){}=<>$")
_BRACKET = re.compile(r"\((?![ \t]*\))")


@failure_class(
    bad=["uv run scripts/notes.py list\r", "uv run scripts/notes.py show a\vb"],
    good=["uv run scripts/notes.py show 'a\tb'", "uv run scripts/notes.py add 'naïve — 日本'"],
    cure="Write the command in plain printable characters.",
    seen_in=["objection", Obstacle.CONTROL],
    slip="{}\r",
)
def ambiguous_shell(call: DeniedCall) -> Seen | None:
    """Text that two readers of shell read differently.

    A control character or half a surrogate pair counts as a blank here and as part of a word
    there, or a second reader sees other commands than the gate. What has two readings never runs.
    """
    if call.objection:
        return Seen(call.whole, call.objection)
    return Seen(call.span(call.stop.start, call.stop.start + 1)) if call.stop else None
