"""Arms and the rules in a prompt, read; and a check of the things that a prompt names.

`arms` are `strict`, the files of arms/ here and in agenteval, and the dialects'. `load_setting`
joins one with the rules of a prompt: a variant of ours by name, or a file of the user's. The check
looks for scripts, their usage, and the tools.
"""

import hashlib
import posixpath
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from agenteval.config.beneath import named, printable
from agenteval.config.files import ARMS, Roots, announce, load_toml, note_hidden, shipped
from agenteval.config.trust import roots
from agenteval.dialects.registry import dialects
from agenteval.errors import UsageError
from agenteval.host import read_text
from agenteval.policy.command_lines import Argument, CommandLine, Kind, normalise
from agenteval.policy.mismatch import mismatch
from agenteval.policy.policy import Policy
from agenteval.prompt.arm import (
    DENIED,
    KINDS,
    PARAMETERS,
    STRICT,
    Arm,
    Cut,
    Denials,
    Form,
    Parameter,
    Profile,
    Texts,
    recognised,
)
from agenteval.prompt.prompt import DEFAULT, USUAL, VARIANTS, VERSION, Place, Prompt, Setting
from agenteval.sandbox.maker import TemplateError, rules_for
from agenteval.shell.programs import script_at
from agenteval.trial.run import OURS


class _Schema(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Parameter(_Schema):
    name: str
    meaning: str
    required: bool = True
    kind: Literal["string", "integer", "boolean"] = "string"


class _Tool(_Schema):
    """`schema` is the JSON text of the whole schema, as a recording has it."""

    name: str
    description: str
    parameters: tuple[_Parameter, ...] = ()
    whole: Annotated[str, Field(alias="schema")] = ""


class _Texts(_Schema):
    """Without `denied` and `denied_path`, a denial has our words of the kind that the arm names."""

    unknown: str
    malformed: str
    invalid: str
    ran: str
    failed: str
    empty: str
    denied: str = ""
    denied_path: str = ""


class _Cut(_Schema):
    lines: Annotated[int, Field(gt=0)]
    characters: Annotated[int, Field(gt=0)]
    keep: Literal["end", "ends"]
    saved: bool = False


class _File(_Schema):
    """One arm, as its file has it; `prompt.arm.Arm` says what each key means."""

    version: Annotated[int, Field(gt=0)]
    summary: str
    words: str = OURS
    frame: str = ""
    extras: tuple[str, ...] = ()
    habits: tuple[str, ...] = ()
    rules: str = "five"
    denials: Denials = "bare"
    any_case: bool = False
    cut: _Cut | None = None
    engine: str = ""
    texts: _Texts
    tools: dict[str, _Tool]

    @model_validator(mode="after")
    def _is_whole(self) -> "_File":
        unknown = [name for name in self.tools if name not in PARAMETERS]
        if unknown:
            raise ValueError(f"no tools {unknown}. Known: {', '.join(PARAMETERS)}")
        needed = ("bash", "read", "write", *self.extras)
        missing = [name for name in needed if name not in self.tools]
        if missing:
            raise ValueError(f"tools: {', '.join(missing)} is missing")
        if self.engine and self.engine not in dialects():
            raise ValueError(f"no engine {self.engine!r}. Known: {', '.join(dialects())}")
        return self


def arms(where: Roots | None = None) -> Mapping[str, Arm]:
    """Return all by name; a project's file goes before ours of its name. Raises UsageError."""
    folders = roots() if where is None else where
    return _arms(tuple(folders))


@cache
def _arms(where: tuple[Path, ...]) -> Mapping[str, Arm]:
    return {name: _read(name, where) for name in _places(where)}


def _places(where: Roots) -> Mapping[str, tuple[Path, Path] | None]:
    """Return file and root of each arm by its name; None for an arm that has no file."""
    places: dict[str, tuple[Path, Path] | None] = {STRICT.name: None}
    for root in reversed(where):
        folder = root / ARMS
        for path in sorted(named(folder, ".toml")):
            name = path.relative_to(folder).with_suffix("").as_posix()
            places[printable(name, path)] = (path, root)
    return places | dict.fromkeys(dialects())


@cache
def _read(name: str, where: tuple[Path, ...]) -> Arm:
    """Return the arm of this name; no other arm's file is read. Raises UsageError."""
    if name in dialects():
        return _of_dialect(name, dialects()[name].profile)
    place = _places(where)[name]
    if place is None:
        return STRICT
    path, root = place
    if root != shipped():
        _note_hidden(name, path)
    return _arm(name, load_toml(path, _File, root))


def _note_hidden(name: str, path: Path) -> None:
    """Report an arm of the project that stands in place of one that agenteval has."""
    # It is made here and has no file to compare with.
    if name == STRICT.name:
        announce(f"arm {name} is {path}, which hides the one that agenteval has")
    note_hidden("arm", name, path, shipped() / ARMS / f"{name}.toml")


def arm_named(name: str) -> Arm:
    """Return an arm, or one with denials of another kind, as in `taught/tools+user`.

    Raises UsageError.
    """
    base, plus, kind = name.partition("+")
    where = roots()
    known = _places(where)
    if base not in known:
        raise UsageError(f"--arm: no arm {base!r}. Known: {', '.join(known)}")
    arm = _read(base, where)
    if not plus:
        return arm
    denials = next((each for each in KINDS if each == kind), None)
    if denials is None:
        raise UsageError(f"--arm {name}: no kind of denial {kind!r}. Known: {', '.join(KINDS)}")
    if arm.words != OURS:
        raise UsageError(f"--arm {name}: {base} has denials of its own words; name it alone")
    return arm.telling(denials)


def judging(arm: Arm, policy: Policy) -> Policy:
    """Return the policy as the arm's engine takes it, once written in that harness's format."""
    if not arm.engine or policy.engine is not None:
        return policy
    return _judging(arm.engine, policy)


@lru_cache(maxsize=256)
def _judging(engine: str, policy: Policy) -> Policy:
    dialect = dialects()[engine]
    with TemporaryDirectory() as folder:
        path = Path(folder, "rules.json")
        path.write_text(dialect.write(policy).text, encoding="utf-8")
        theirs = dialect.readers[engine](path)
    return replace(
        theirs,
        name=policy.name,
        digest=policy.digest,
        files=policy.files,
        stated=policy.stated,
    )


def spoken(schemas: Sequence[Mapping[str, Any]]) -> Profile:
    """Return the profile whose forms these are, or else one of the tools that are recognised."""
    functions = [schema["function"] for schema in schemas]
    for arm in _readable(roots()):
        known = [form.schema()["function"] for form in arm.profile.forms.values()]
        if all(function in known for function in functions):
            return arm.profile
    forms = recognised(schemas) or STRICT.profile.forms
    return replace(STRICT.profile, forms=forms)


def _readable(where: tuple[Path, ...]) -> Iterator[Arm]:
    """Yield all arms but those whose file is broken: playing such an arm reports the fault."""
    for name in _places(where):
        with suppress(UsageError):
            yield _read(name, where)


def _arm(name: str, file: _File) -> Arm:
    texts = file.texts.model_dump()
    for key in ("denied", "denied_path"):
        texts[key] = texts[key] or DENIED[file.denials]
    forms = {tool: _form(form) for tool, form in file.tools.items()}
    profile = Profile(
        name,
        file.version,
        forms,
        Texts(**texts),
        any_case=file.any_case,
    )
    cut = Cut(**file.cut.model_dump()) if file.cut else None
    plain = file.model_dump(exclude={"tools", "texts", "any_case", "cut"})
    return Arm(name=name, profile=profile, cut=cut, **plain)


def _form(tool: _Tool) -> Form:
    parameters = tuple(Parameter(**each.model_dump()) for each in tool.parameters)
    return Form(tool.name, tool.description.strip(), parameters, tool.whole)


def _of_dialect(name: str, profile: Profile) -> Arm:
    """Return the arm of a dialect: its names of tools and replies, our descriptions of the tools.

    Who quotes rules judges by them: a rule that permits what it denies is read nowhere.
    """
    quotes = "{rules}" in profile.texts.denied
    return Arm(
        name=name,
        version=profile.version,
        profile=profile,
        summary=f"tools, results and denials named as {name} does, their descriptions ours",
        words=name,
        denials="rules" if quotes else "bare",
        engine=name if quotes else "",
    )


TOOLS = ("bash", "read", "write")
# Tokens of context; no model that is served takes more.
LONGEST = 10_000_000
# Of 100 earlier calls that can be denied ones: those who play them slip no oftener.
MOST = 25


def load_setting(
    arm: str,
    variant: str | None,
    place: Place,
    context: str,
) -> Setting:
    """Return what prompts are made with; without a `variant` the arm's own rules.

    `context` is a number of tokens, such as 40k or 40k:20. Raises UsageError for what is unknown or
    no number, and for a template with a fault.
    """
    chosen = arm_named(arm)
    variant = variant or chosen.rules
    rules = VARIANTS.get(variant)
    name = f"{variant}/{VERSION}"
    if rules is None:
        rules = _file(Path(variant))
        name = f"{Path(variant).name}/{hashlib.sha256(rules.encode()).hexdigest()[:8]}"
    tokens, denied = _length(context)
    setting = Setting(
        chosen,
        rules,
        name,
        place,
        tokens,
        denied=denied,
    )
    try:
        rules_for(setting, TOOLS)
    except TemplateError as error:
        raise UsageError(f"--prompt-variant {variant}: {error}") from error
    return setting


def _file(path: Path) -> str:
    try:
        return read_text(path).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"--prompt-variant: no variant {str(path)!r} and no such file ({error}). "
            f"Known: {', '.join(VARIANTS)}; or give a template of your own"
        ) from error


def _length(text: str) -> tuple[int, int]:
    """Return the number of tokens, and how many of 100 calls in them were denied."""
    tokens, with_share, denied = text.lower().partition(":")
    number = tokens.removesuffix("k")
    if not _is_whole(number):
        raise UsageError(
            f"--context: {text!r} is no number of tokens. Give one such as 40k or 8192"
        )
    share = int(denied) if _is_whole(denied) else USUAL
    if with_share and (not _is_whole(denied) or share > MOST):
        raise UsageError(
            f"--context {text}: behind : stands how many of 100 calls before the task were denied, "
            f"from 0 to {MOST}, as in 40k:20"
        )
    digits = number.lstrip("0") or "0"
    # Python reads no number of thousands of digits.
    length = int(digits) if len(digits) < 12 else LONGEST + 1
    if tokens.endswith("k"):
        length *= 1000
    if length > LONGEST:
        raise UsageError(f"--context {text[:40]}: more than any model takes; at most {LONGEST}")
    return length, share


def _is_whole(text: str) -> bool:
    return text.isascii() and text.isdigit()


_TOKEN = re.compile(r"""[\[\]]|\.\.\.(?=[\s\]]|\Z)|(?:"[^"]*"|'[^']*'|[^\s\[\]"'])+""")
_INDENTED = re.compile(r"^(?: {4,}|\t)(?:\$ )?(\S.*?)(?: {2,}.*| #.*)?$", re.MULTILINE)
_QUOTED = re.compile(r"`([^`\n]+)`")
_SAMPLES = {Kind.INT: "1", Kind.FLOAT: "1.5", Kind.JSON: "{}", Kind.PATH: "file.txt"}


def usages(text: str) -> list[str]:
    """Return usage lines of scripts: indented ones, and quoted text that says more than a name."""
    lines = [line for line in _INDENTED.findall(text) if _script_at(line) is not None]
    return lines + [part for part in _QUOTED.findall(text) if _goes_on(part)]


def _fillings(usage: str, line: CommandLine, start: int) -> Iterator[tuple[str, ...]]:
    """Yield the words of real calls: the shortest, then the whole usage with each alternative.

    `line` is what may follow the word before `start`; it says which values fit a placeholder.
    """
    tokens = _TOKEN.findall(usage)
    short = _words(tokens, optional=False)
    yield tuple(_filled(short, line, start, 0))
    whole = _words(tokens, optional=True)
    alternatives = [word.count("|") + 1 for word in whole if not _is_quoted(word)]
    for turn in range(max(alternatives, default=1)):
        yield tuple(_filled(whole, line, start, turn))


def _script_of(usage: str) -> tuple[tuple[str, ...], str]:
    """Return the words before the script of a usage line, and the script."""
    words = _TOKEN.findall(usage)
    at = script_at(words) or 0
    return tuple(words[:at]), words[at]


def _script_at(usage: str) -> int | None:
    words = _TOKEN.findall(usage)
    at = script_at(words) if words else None
    return at if at is not None and words[at].endswith((".py", ".sh")) else None


def _goes_on(quoted: str) -> bool:
    at = _script_at(quoted)
    return at is not None and len(_TOKEN.findall(quoted)) > at + 1


def _words(tokens: Sequence[str], *, optional: bool) -> list[str]:
    words, depth = [], 0
    for token in tokens:
        depth += (token == "[") - (token == "]")  # noqa: S105 -- a bracket
        if token not in {"[", "]", "..."} and (optional or not depth):
            words.append(token)
    return words


def _filled(
    words: Sequence[str],
    line: CommandLine,
    start: int,
    turn: int,
) -> Iterator[str]:
    yield from words[:start]
    option: Argument | None = None
    place = 0
    for word in words[start:]:
        if word.startswith("-"):
            option = line.options.get(word)
            yield word
        elif option is None and word in line.commands:
            line, place = line.commands[word], 0
            yield word
        elif option is not None and option.kind is not Kind.FLAG:
            yield _value(word, option, turn)
            option = option if option.most != 1 else None
        else:
            is_listed = place < len(line.positionals)
            argument = line.positionals[place] if is_listed else None
            yield _value(word, argument, turn)
            place += argument is None or argument.most is not None


def _value(word: str, argument: Argument | None, turn: int) -> str:
    if _is_quoted(word):
        return _sample(word[1:-1], argument, turn)
    if "|" in word:
        alternatives = word.split("|")
        return _value(alternatives[turn % len(alternatives)], None, turn)
    is_placeholder = word.startswith("<") or word.isupper()
    return _sample(word, argument, turn) if is_placeholder else word


def _sample(text: str, argument: Argument | None, turn: int) -> str:
    if argument is None:
        return text
    if argument.choices:
        return argument.choices[turn % len(argument.choices)]
    return _SAMPLES.get(argument.kind, text)


def _is_quoted(word: str) -> bool:
    return word[:1] in {'"', "'"}


_ROOT = "/workspace"
_SCRIPT = re.compile(r"(?<![\w./-])(?:[\w.-]+/)+[\w-]+\.(?:py|sh)\b")
_TOOL = re.compile(r"\*\*(\w+)\*\*|\b(?:the|The) `?(\w+)`? tool\b")


def prompt_faults(
    render: Callable[[Setting], Prompt],
    tools: Sequence[str],
    policy: Policy,
    files: Collection[str],
) -> Iterator[str]:
    """Yield each thing that a prompt names and that is missing or not allowed, with the fix.

    `render` renders the prompt; its agent is offered `tools`.
    """
    prompt = render(DEFAULT)
    yield from _scripts(prompt, policy, files)
    for usage in usages(f"{prompt.system}\n{prompt.task}"):
        yield from _usage(usage, policy)
    yield from _tools(render, tools)


def _scripts(prompt: Prompt, policy: Policy, files: Collection[str]) -> Iterator[str]:
    folders = {posixpath.dirname(path) for path in policy.bash.listed}
    for script in dict.fromkeys(_SCRIPT.findall(f"{prompt.system}\n{prompt.task}")):
        if posixpath.dirname(script) not in folders:
            continue
        if script not in files:
            yield f"the prompt names {script}, which the fixture lacks: add it, or mend the name"
        elif script not in policy.bash.listed:
            yield (
                f"the prompt names {script}, which allow list {policy.name} does not allow: add a "
                "[[bash.script]], or leave it out"
            )


def _usage(usage: str, policy: Policy) -> Iterator[str]:
    runner, path = _script_of(usage)
    rule = policy.bash.script(runner, path, _ROOT)
    line = rule.line if rule else CommandLine.of()
    if normalise(path, _ROOT) not in policy.bash.listed:
        return  # said already
    for argv in _fillings(usage, line, len(runner) + 1):
        if not policy.bash.admits(argv, root=_ROOT):
            hint = mismatch(policy.bash, argv, root=_ROOT).hint
            yield (
                f"the prompt's usage `{usage}` is no allowed command line ({hint}): mend the line "
                f"or allow list {policy.name}"
            )
            return


def _tools(render: Callable[[Setting], Prompt], tools: Sequence[str]) -> Iterator[str]:
    # A frame may name others.
    frameless_arms = [replace(arm, frame="") for arm in arms().values()]
    names = {form.name for arm in frameless_arms for form in arm.profile.forms.values()}
    for arm in frameless_arms:
        prompt = render(Setting(arm))
        offered = set(arm.profile.names(arm.offered(tools)).values())
        found = _TOOL.findall(f"{prompt.system}\n{prompt.task}")
        named = dict.fromkeys(bold or spoken for bold, spoken in found)
        for name in named:
            if name in names - offered:
                yield (
                    f"the prompt names the tool {name}, which arm {arm.name} does not have "
                    f"here: write {{{{ bash }}}}, {{{{ read }}}} or {{{{ write }}}}, one of tools"
                )
                return
