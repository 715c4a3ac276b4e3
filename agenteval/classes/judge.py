"""The verdict on a call: the policy decides, and only a denied call is explained.

In order: remediation by `Ways`, the hint of a denied call; mends of text that bash can parse and
the parse tree cannot; `judge`, which asks the policy and then each failure class.

What stands between backquotes behind Run, Read, Write or Allowed in a hint can be sent as it
stands: each was judged first. Capitals in a listed call are values to fill in.
"""

import posixpath
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache

from agenteval.classes.catalogue import failure_classes
from agenteval.classes.failure_class import (
    FAULT,
    DeniedCall,
    FailureClass,
    Seen,
    as_fault,
    cut,
    joined,
    untyped,
    with_quoted_urls,
    without_residue,
)
from agenteval.lazily import read_table
from agenteval.policy.command_lines import normalise
from agenteval.policy.mismatch import (
    SHOWN,
    Miss,
    Part,
    allowed,
    fits,
    listed,
    opens,
    reached,
    shortened,
    take,
    take_simple,
)
from agenteval.policy.policy import (
    READ,
    UNKNOWN_WORLD,
    WRITE,
    Gate,
    Policy,
    World,
    decide,
    decide_command,
    only_command,
)
from agenteval.policy.rules import MOVES
from agenteval.shell.facts import RedirectKind, ShellFacts, without_heredocs
from agenteval.shell.gate import (
    UNREADABLE,
    NotSimple,
    Place,
    Simple,
    compiled,
    new,
    quoted,
    read_simple,
)
from agenteval.shell.leaves import read_leaves
from agenteval.shell.programs import NO_OPS, SHELLS, can_show, interpreter, shown_files, wants_input
from agenteval.shell.reader import read_facts
from agenteval.shell.wrappers import base_name, is_wrapper, passes_arguments
from agenteval.trial.call import BASH, Denied, Finding, ToolCall, Verdict

_MOST = 200  # characters: two lines
_TRIED = 20  # listed commands of one call: each is looked for in all of it
_MENDED = 10 * SHOWN  # characters of a call that is mended one by one: more would never fit


class Ways:
    """The ways to replace one denied call.

    `own` is the first listed command in it that may be run by itself, `written` says how the first
    file that it writes may be written, `way` the nearest of what a tool does; each may be empty.
    """

    __slots__ = ("_calls", "_moves", "_near", "call", "is_command", "own", "way", "written")

    def __init__(self, call: DeniedCall) -> None:
        self.call = call
        self.own = self.way = self.written = self._calls = ""
        self._near: tuple[str, ...] = ()  # the words of one that cannot be run as it stands
        self.is_command = call.call.command is not None
        if not self.is_command:
            return
        programs = [part.program for part in call.parts]
        self._moves = not MOVES.isdisjoint(programs)
        shows = may_write = bool(call.shell.redirects)
        for program in programs:
            shows = shows or _may_show(program)
            may_write = may_write or _may_write(program)
        if not call.objection and any(part.admitted for part in call.parts):
            self.own = self._own()
        if may_write:
            self.written = self._written()
        if self.own or not (shows or may_write):
            return
        # A file that the call itself writes is not there to be read.
        made = {path for path, _ in self._into()} if may_write else ()
        shown = (path for path in self._shown_files() if path not in made)
        self.way = self._tool(READ, shown) or self.written

    def hint(self, failure_class: FailureClass, evidence: Seen) -> str:
        """Return the fault and the nearest way, or how such a call is fixed in general."""
        if not self.is_command:
            return evidence.hint or failure_class.cure_in_general
        fault = as_fault(evidence.hint) if evidence.hint else ""
        if way := self._mended(failure_class.id):
            return joined(fault, f"Run `{way}`.")
        if self.own:
            return self._with_own(fault, failure_class)
        if self.way:
            return joined(fault, self.way)
        if failure_class.id in _WRITING and not fault and any(path for path, _ in self._into()):
            fault = self._open_to()
        self._calls = self._calls or self._allowed()  # the same below every class
        return joined(fault or failure_class.cure_in_general, self._calls)

    def _with_own(self, fault: str, failure_class: FailureClass) -> str:
        """Return the hint with the listed command, and the written file where there is room."""
        own = shortened(self.own)
        if "{alone}" in failure_class.cure:
            hint = joined(fault, failure_class.cure.replace("{alone}", own))
        else:
            hint = joined(fault or failure_class.cure, f"Run `{own}` alone.")
        whole = joined(hint, self.written)
        return whole if len(whole) <= _MOST else hint

    def _own(self) -> str:
        """Return the first listed command, but for what does nothing alone."""
        call = self.call
        parts = [part for part in reached(call.parts, call.text) if part.admitted and part.words]
        parts = [part for part in parts if not self._is_idle(part)]
        parts.sort(key=lambda part: part.nested)
        for part in parts[:_TRIED]:
            text = call.words(part).text
            # What is cut by an error, or lacks what was piped into it, does something else alone.
            if call.shell.is_cut(part.words.extent) or self._is_fed(part):
                self._near = self._near or part.argv
            elif self._runs(text):
                return text
        return ""

    def _is_idle(self, part: Part) -> bool:
        """Return True if it changes the folder, filters what is piped into it, or prints.

        A no-op such as echo counts only next to another command that no rule fits.
        """
        if part.program in MOVES or part.argv == ("cat",):
            return True
        if part.program in NO_OPS:
            return bool(self.call.misses)
        return wants_input(part.argv) and self.call.shell.is_piped(part.words.extent[0])

    def _is_fed(self, part: Part) -> bool:
        """Return True if a word of it stands for what something else passes to it."""
        is_fed = self.call.shell.is_fed(part.argv, part.words.extent[0])
        return is_fed or passes_arguments(part.via, part.argv)

    def _tool(self, tool: str, paths: Iterator[str]) -> str:
        """Return a sentence that uses a tool on the first file that it opens, or ""."""
        for path in paths:
            if path and self._opens(tool, path):
                return f"{tool.capitalize()} `{path}` with the {tool} tool."
        return ""

    def _written(self) -> str:
        """Return how the first file that the call writes may be written.

        The write tool replaces a file.
        """
        world = self.call.world
        for path, is_added in self._into():
            if not (path and self._opens(WRITE, path)):
                continue
            is_new = world.files is not None and path not in world.files | world.written
            if is_new or not is_added:
                return f"Write `{path}` with the write tool."
            if self._opens(READ, path):
                return f"Read `{path}` with the read tool and write it whole, with what is added."
            return "The write tool can only replace that file as a whole."
        return ""

    def _allowed(self) -> str:
        """Return a sentence with calls that are allowed, nearest first."""
        policy = self.call.policy
        argv: Sequence[str] = self._near
        missed = next(iter(self.call.misses.values()), None)
        if missed and not argv:
            part, (_, _, _, since, instead) = missed
            if instead and not since:
                argv = instead.split()
            elif policy.bash.is_strange(part.program):
                argv = (part.program,)
            else:
                argv = part.argv
        return listed(policy, self.call.world, argv)

    def _open_to(self) -> str:
        """Return the fault that names where the write tool writes; "" without that tool."""
        policy = self.call.policy
        if WRITE not in policy.tools:
            return ""
        open_to = ", ".join(policy.write.allow) or "nothing"
        return cut(f"the write tool is open to {open_to} only", FAULT)

    def _mended(self, failure_class: str) -> str:
        """Return the call with what this class is about put right, or "".

        "" stands for a call with which that is not all that is wrong.
        """
        text = self.call.text
        mend, miss = _MENDS.get(failure_class), _MISSES.get(failure_class)
        if mend and len(text) <= _MENDED:
            text = mend(text)
        if text == self.call.text:
            text = _with_near(self.call, miss) if miss else ""
        return text if fits(text) and self._runs(text) else ""

    def _runs(self, text: str) -> bool:
        return allowed(self.call.policy, self.call.world, BASH, command=text)

    def _opens(self, tool: str, path: str) -> bool:
        return fits(path) and opens(self.call.policy, self.call.world, tool, path)

    def _plain(self) -> Iterator[tuple[Part, int]]:
        """Yield the commands in which bash has no word left to work out, and where they begin."""
        for part in self.call.parts:
            if not part.words.dynamic:
                yield part, part.words.extent[0]

    def _shown_files(self) -> Iterator[str]:
        """Yield the files that the commands show."""
        if self.call.shell.errors:
            return
        for part, at in self._plain():
            if part.program.lower() == READ and self.call.calls_tool(part):
                yield self._path(part.argv[1], at)
            elif can_show(part.program):
                for path in shown_files(part.argv):
                    yield self._path(path, at)
        for path, _ in self._behind(RedirectKind.INPUT):
            yield path

    def _into(self) -> Iterator[tuple[str, bool]]:
        """Yield the files that the call writes, and True for one in which what was there stays."""
        if self.call.shell.errors:
            return
        yield from self._behind(RedirectKind.FILE)
        for part, at in self._plain():
            if part.program.lower() == WRITE and self.call.calls_tool(part):
                for word in part.argv[1:2]:
                    yield self._path(word, at), False
            if part.program == "tee":
                is_added = any(map(_APPENDS.match, part.argv))
                for word in part.argv[1:]:
                    if not word.startswith("-"):
                        yield self._path(word, at), is_added

    def _behind(self, kind: RedirectKind) -> Iterator[tuple[str, bool]]:
        """Yield the files behind redirects; no descriptors, nothing that bash still works out."""
        shell = self.call.shell
        begins: dict[Place, int] = {}
        for command in shell.commands:
            for redirect in command.redirects:
                begins[redirect.span[:2]] = command.extent[0]
        for redirect in shell.redirects:
            if redirect.kind is kind and not _UNKNOWN.search(redirect.span.text):
                path = self._path(redirect.target, begins.get(redirect.span[:2]))
                yield path, ">>" in redirect.span.text

    def _path(self, path: str, at: int | None) -> str:
        """Return the place of a path in the command that begins at `at`; "" if it is unknown."""
        root = self.call.world.root
        folder = self.call.folder(at) if self._moves else root
        if folder is None:
            return ""
        if folder != root:
            path = posixpath.join(folder, path)
        return normalise(path, root) or ""


_UNKNOWN = re.compile(r"[<>]&|[$`(*?{]")
_APPENDS = re.compile(r"-[a-z]*a|--a")  # of tee


@lru_cache(maxsize=1024)  # agents know few programs
def _may_show(program: str) -> bool:
    """Return True for a program, or a tool of its name, that may show files."""
    return program.lower() == READ or can_show(program)


def _may_write(program: str) -> bool:
    return program == "tee" or program.lower() == WRITE


def _with_near(call: DeniedCall, miss: Miss) -> str:
    """The command that is missed so, with what is like its wrong words in their place."""
    missed = call.misses.get(miss)
    if missed is None or not missed.mismatch.instead:
        return ""
    part, (_, at, _, since, instead) = missed
    start, end = part.words.extent
    first, _ = part.words.place(since)
    _, last = part.words.place(at)
    instead = quoted(instead) if since else instead
    return f"{call.text[start:first]}{instead}{call.text[last:end]}"


_WRITING = ("heredoc-to-file", "file-redirect")
_MISSES = {
    "wrong-runner": Miss.RUNNER,
    "hallucinated-flag": Miss.OPTION,
    "hallucinated-sub-command": Miss.COMMAND,
    "hallucinated-value": Miss.VALUE,
    "hallucinated-script": Miss.SCRIPT,
    "unlisted-script": Miss.SCRIPT,
    "bad-arguments": Miss.WORDS,
    "bare-binary": Miss.PROGRAM,
}

_MENDS: Mapping[str, Callable[[str], str]] = {
    "template-residue": without_residue,
    "typographic-character": untyped,
    "ambiguous-shell": lambda text: text.replace("\r", "").strip(),
    **dict.fromkeys(("background", "env-assignment", "bare-binary"), with_quoted_urls),
}

# Text that the parse tree gets wrong, put in other words by `mends.toml`.

_PATTERN = compiled(r"[?*+@!]\([^()'\"`]*+\)")  # in [[ ]] bash takes them without extglob
_PART_OF_LOOP = compiled(r"(?<=[(;])[^(;]++(?=[;)])")
_START = r"((?:\A|[;&|(\n]|\b(?:do|elif|else|if|then|until|while)\b|!)[ \t]*+)"  # of a command
_Replace = Callable[[re.Match[str]], str]


def _fill(character: str) -> _Replace:
    return lambda mistake: character * len(mistake[0])


def _quote_blanks(mistake: re.Match[str]) -> str:
    inside = mistake[0][1:-1]
    return mistake[0] if inside.strip() else f'"{inside}"'


def _fill_expansion(mistake: re.Match[str]) -> str:
    filling = "_" * (len(mistake[0]) - 3)
    return f"${{{filling}}}"


_FUNCTIONS: Mapping[str, _Replace] = {
    "quoted blanks": _quote_blanks,
    "expansion": _fill_expansion,
    "patterns": lambda mistake: _PATTERN.sub(_fill("_"), mistake[0]),
    "loop": lambda mistake: _PART_OF_LOOP.sub(_fill("1"), mistake[0]),
    "brackets": lambda mistake: f"$[{mistake[1].replace('[', '(').replace(']', ')')}]",
    "subscript": lambda mistake: f"{mistake[1]}[{'_' * len(mistake[2])}]",
}


@cache
def _syntax_mends() -> Sequence[tuple[re.Pattern[str], str | _Replace]]:
    mends: list[tuple[re.Pattern[str], str | _Replace]] = []
    for row in read_table("agenteval.classes", "mends.toml")["mend"]:
        start = _START if "starts" in row else ""
        cure = row.get("cure")
        if cure is None:
            cure = _fill(row["fill"]) if "fill" in row else _FUNCTIONS[row["by"]]
        mends.append((compiled(start + row["mistake"]), cure))
    return mends


def _mended_syntax(text: str) -> Iterator[str]:
    """The text in other words, in the order in which they are worth a try."""
    other = text
    for mistake, cure in _syntax_mends():
        other = mistake.sub(cure, other)
    yield other
    yield without_heredocs(other)[0]


_EMPTY = compiled(r"[$<>]\((?:[ \t\n]|#[^\n]*+\n)*+\)")
_LONGEST = 16_384  # of a text that is read twice; agents' commands are shorter


def facts_of(text: str, *, is_readable: bool = False) -> ShellFacts:
    """Return the facts of a denied text; its `errors` are those that bash has with it too.

    `is_readable` as for `read_facts`.
    """
    shell = read_facts(text, is_readable=is_readable)
    if not shell.errors:
        return shell
    shell = _without_wanted_commands(shell)
    if len(text) > _LONGEST or not shell.errors:
        return shell
    for other in _mended_syntax(text):
        if other != text:
            again = _without_wanted_commands(read_facts(text, parsed_as=other))
            if not again.errors:
                return _with_lone_negations(again)
    return shell


def _with_lone_negations(shell: ShellFacts) -> ShellFacts:
    """Return the facts with each lone `!` as a negation.

    Bash takes a `!` that no command follows, and a mend puts a command there.
    """
    commands = []
    negations = [*shell.negations]
    for command in shell.commands:
        if command.words.first == "!" and command.words[0].span.text == "!":
            negations.append(command.words[0].span)
        else:
            commands.append(command)
    return shell._replace(commands=commands, negations=negations)


def _without_wanted_commands(shell: ShellFacts) -> ShellFacts:
    """Return the facts without the errors where the tree wants a command and bash needs none.

    That is behind `A=1 >f` and in `$( )`.
    """
    if all(span.text for span in shell.errors):
        return shell
    ends = {
        command.redirects[-1].span.end
        for command in shell.commands
        if command.assignments and command.redirects and not command.words
    }
    for _, span in shell.substitutions:
        if _EMPTY.fullmatch(span.text):
            ends.update(range(span.start, span.end))
    errors = [span for span in shell.errors if span.text or span.start not in ends]
    return shell._replace(errors=errors)


# The verdict.

_NO_SHELL = ShellFacts("")
_FIND_RUNS = frozenset(("-exec", "-execdir", "-ok", "-okdir"))
_KEPT = 4096  # longer commands hardly repeat, and would fill the memory
_CLASSES = tuple(each for each in failure_classes() if not each.rest)
(_REST,) = (each for each in failure_classes() if each.rest)


def judge(call: ToolCall, policy: Policy, world: World = UNKNOWN_WORLD) -> Verdict:
    """Allowed with what it runs, or denied with every class that explains it. Never raises."""
    only = only_command(call, policy)
    command = call.command if only is None else only
    gate = None if command is None else read_simple(command)
    if only is not None and policy.engine is None:
        allowed = decide_command(only, policy, world, gate=gate)
    else:
        allowed = decide(call, policy, world, gate=gate)
    if allowed is not None:
        return allowed
    is_only = only is not None
    if not isinstance(gate, Simple) or (_wraps(gate.argv[0]) and _holds_others(gate.argv)):
        return _deny(call, policy, world, gate, is_only_a_command=is_only)
    # The policy has said already that no rule fits; another harness's engine says nothing of ours.
    fits = False if is_only and policy.engine is None else None
    parts, misses = take_simple(gate, policy.bash, world.root, fits=fits)
    known = (call, gate.text, policy, world, _NO_SHELL, parts, misses, is_only, None, "")
    return _explain(new(DeniedCall, known))


def _holds_others(argv: Sequence[str]) -> bool:
    """Return True if another command is inside a wrapper: find has one only behind -exec."""
    return argv[0] != "find" or not _FIND_RUNS.isdisjoint(argv)


@lru_cache(maxsize=1024)
def _wraps(program: str) -> bool:
    """Return True if a simple command may hold another that matters: sudo x, but not python x."""
    is_runner = program == "uv" or (interpreter(program) and base_name(program) not in SHELLS)
    return not is_runner and is_wrapper(program)


def deny(
    call: ToolCall,
    policy: Policy,
    world: World = UNKNOWN_WORLD,
    *,
    objection: str = "",
) -> Denied:
    """The verdict on a call that is denied already.

    An `objection` of the second reader makes it ambiguous-shell, whatever the policy allows.
    """
    gate = None if call.command is None else read_simple(call.command)
    is_only = only_command(call, policy) is not None
    return _deny(call, policy, world, gate, objection, is_only_a_command=is_only)


def _deny(  # noqa: PLR0913 -- judge knows half of it already
    call: ToolCall,
    policy: Policy,
    world: World,
    gate: Gate | None,
    objection: str = "",
    *,
    is_only_a_command: bool,
) -> Denied:
    command = call.command
    text, shell = call.raw, _NO_SHELL
    if command is not None:
        is_readable = not (isinstance(gate, NotSimple) and gate.reason in UNREADABLE)
        text, shell = command, facts_of(command, is_readable=is_readable)
    reader = read_leaves(command) if command is not None and policy.bash.constructs else gate
    stop = reader if isinstance(reader, NotSimple) else None
    parts, misses = take(shell.commands, policy.bash, world.root)
    is_only = is_only_a_command
    known = (call, text, policy, world, shell, parts, misses, is_only, stop, objection)
    return _explain(new(DeniedCall, known))


def judge_many(
    policy: Policy, world: World = UNKNOWN_WORLD, *, distinct: int = 1 << 14
) -> Callable[[ToolCall], Verdict]:
    """Return `judge` for many calls, which keeps verdicts on `distinct` commands for repeats."""
    verdicts: dict[str, Verdict] = {}

    def of_call(call: ToolCall) -> Verdict:
        command = only_command(call, policy)
        if command is None or len(command) > _KEPT:
            return judge(call, policy, world)
        verdict = verdicts.get(command)
        if verdict is None:
            if len(verdicts) >= distinct:
                verdicts.clear()  # repeats stand near each other: an order of use costs more
            verdict = verdicts[command] = judge(call, policy, world)
        return verdict

    return of_call


def _explain(denied: DeniedCall) -> Denied:
    matches: list[tuple[FailureClass, Seen]] = []
    for each in _worth_a_look(denied.signs):
        if evidence := each.look(denied):
            matches.append((each, evidence))  # noqa: PERF401 -- a comprehension is a call of its own
    if permitted := denied.policy.bash.constructs:
        # A construct permitted as such explains only what nothing else does: its odd forms.
        closed = [match for match in matches if _is_closed(*match, permitted)]
        matches = closed or matches
    if not matches and (evidence := _REST.look(denied)):
        matches = [(_REST, evidence)]
    return Denied.explained(_findings(matches, denied))


def _is_closed(failure_class: FailureClass, evidence: Seen, permitted: Container[object]) -> bool:
    return evidence.despite or failure_class.construct not in permitted


@lru_cache(maxsize=1024)
def _worth_a_look(signs: frozenset[str]) -> tuple[FailureClass, ...]:
    """The classes that a call with these signs may belong to; agents make some 500 such sets."""
    return tuple(
        each for each in _CLASSES if not each.seen_in or not each.seen_in.isdisjoint(signs)
    )


def _findings(matches: Iterable[tuple[FailureClass, Seen]], denied: DeniedCall) -> list[Finding]:
    ways = Ways(denied)
    is_listed = bool(denied.alone)
    harms = denied.harms
    findings: list[Finding] = []
    for failure_class, evidence in matches:
        facets = evidence.facets
        if harms and not findings:
            facets += tuple(each for each in harms if each not in facets)
        if is_listed:
            facets += ("script-listed",)
        if failure_class.id in denied.policy.stated:
            facets += ("rule-stated",)
        hint = ways.hint(failure_class, evidence)
        findings.append(new(Finding, (failure_class.id, evidence.span, hint, facets)))
    return findings
