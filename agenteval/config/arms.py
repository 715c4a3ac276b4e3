"""The arms there are: `strict`, the files of arms/ here and in agenteval, and the dialects'."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from agenteval.config.beneath import named, printable
from agenteval.config.project_files import ARMS, announce, note_hidden, shipped
from agenteval.config.roots import roots
from agenteval.config.toml import load_toml
from agenteval.core.cards import OURS
from agenteval.core.policy.policy import Policy
from agenteval.core.prompt.arm import DENIED, KINDS, STRICT, Arm, Cut, Denials
from agenteval.core.prompt.profile import PARAMETERS, Form, Parameter, Profile, Texts, recognised
from agenteval.dialects.registry import dialects
from agenteval.errors import UsageError

FOLDER = ARMS


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
    """One arm, as its file has it; `core.prompt.arm.Arm` says what each key means."""

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
        missing = [
            name for name in ("bash", "read", "write", *self.extras) if not self.tools.get(name)
        ]
        if missing:
            raise ValueError(f"tools: {', '.join(missing)} is missing")
        if self.engine and self.engine not in dialects():
            raise ValueError(f"no engine {self.engine!r}. Known: {', '.join(dialects())}")
        return self


def arms(where: Sequence[Path] | None = None) -> Mapping[str, Arm]:
    """All by name; a file of the project goes before ours of its name. Raises UsageError."""
    return _arms(tuple(roots() if where is None else where))


@cache
def _arms(where: tuple[Path, ...]) -> Mapping[str, Arm]:
    return {name: _read(name, where) for name in _places(where)}


def _places(where: Sequence[Path]) -> Mapping[str, tuple[Path, Path] | None]:
    """Return file and root of each arm by its name; None for an arm that has no file."""
    places: dict[str, tuple[Path, Path] | None] = {STRICT.name: None}
    for root in reversed(where):
        folder = root / FOLDER
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
    if name == STRICT.name:  # it is made here and has no file to compare with
        announce(f"arm {name} is {path}, which hides the one that agenteval has")
    note_hidden("arm", name, path, shipped() / FOLDER / f"{name}.toml")


def arm_named(name: str) -> Arm:
    """An arm, or one with denials of another kind, as in `taught/tools+user`. Raises UsageError."""
    base, plus, kind = name.partition("+")
    known = _places(where := roots())
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
    """The policy as the arm's engine takes it, once it is written in that harness's own format."""
    return _judging(arm.engine, policy) if arm.engine and policy.engine is None else policy


@lru_cache(maxsize=256)
def _judging(engine: str, policy: Policy) -> Policy:
    dialect = dialects()[engine]
    with TemporaryDirectory() as folder:
        path = Path(folder, "rules.json")
        path.write_text(dialect.write(policy).text, encoding="utf-8")
        theirs = dialect.readers[engine](path)
    own = replace(theirs, name=policy.name, digest=policy.digest)
    return replace(own, files=policy.files, stated=policy.stated)


def spoken(schemas: Sequence[Mapping[str, Any]]) -> Profile:
    """The profile whose forms these are, or else one of the tools that are recognised."""
    functions = [schema["function"] for schema in schemas]
    for arm in _readable(roots()):
        known = [form.schema()["function"] for form in arm.profile.forms.values()]
        if all(function in known for function in functions):
            return arm.profile
    return replace(STRICT.profile, forms=recognised(schemas) or STRICT.profile.forms)


def _readable(where: tuple[Path, ...]) -> Iterator[Arm]:
    """Yield all arms but those whose file is broken: playing such an arm reports the fault."""
    for name in _places(where):
        with suppress(UsageError):
            yield _read(name, where)


def _arm(name: str, file: _File) -> Arm:
    kind = DENIED[file.denials]
    given = file.texts.model_dump()
    texts = Texts(**{**given, **{key: given[key] or kind for key in ("denied", "denied_path")}})
    forms = {tool: _form(one) for tool, one in file.tools.items()}
    profile = Profile(name, file.version, forms, texts, any_case=file.any_case)
    plain = file.model_dump(exclude={"tools", "texts", "any_case", "cut"})
    cut = Cut(**file.cut.model_dump()) if file.cut else None
    return Arm(name=name, profile=profile, cut=cut, **plain)


def _form(tool: _Tool) -> Form:
    parameters = tuple(Parameter(**one.model_dump()) for one in tool.parameters)
    return Form(tool.name, tool.description.strip(), parameters, tool.whole)


def _of_dialect(name: str, profile: Profile) -> Arm:
    """Names of tools and replies are the program's, what describes the tools is ours.

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
