"""A capture of a harness as an arm: a file in the user's project, and the differences from it.

Nothing that a harness says is shipped: its words stay with the user who has it.
"""

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import tomli_w

from agenteval.bounded import write_whole
from agenteval.config.allowlists import load_any
from agenteval.config.arms import FOLDER
from agenteval.config.roots import roots
from agenteval.core.call import ToolCall
from agenteval.core.policy.policy import Policy
from agenteval.core.prompt.arm import STRICT
from agenteval.core.prompt.profile import Form
from agenteval.dialects.registry import dialects
from agenteval.errors import UsageError
from agenteval.harness.capture import BROKEN, ENDED, SAID, Captured, Provoked, capture
from agenteval.harness.dialogue import Did
from agenteval.taxonomy import judge

RULES: Final = re.compile(r'\[\{"permission".*\}\]', re.DOTALL)
_CODE: Final = re.compile(r"((?:exited with code|Exit code|Exit Code:|<returncode>)\s*)\d+")
_FAILED: Final = re.compile(r"ls: [^\n]*no-such-folder-of-agenteval[^\n]*\n?")
_RAN: Final = re.compile(rf"{SAID}\n?")
_SLOT: Final = "\0{}\0"  # where a value stood, until all braces of the text are doubled


def captured(command: Sequence[str], name: str | None, rules: str | None) -> Iterator[str]:
    """Capture a harness and write its arm; yield the findings, a line each. Raises UsageError."""
    policy = load_any(rules, roots=roots()) if rules else None
    harness = asyncio.run(capture(command))
    arm = name or f"captured/{harness.name}"
    path = Path(FOLDER, f"{arm}.toml")
    if path.exists():
        raise UsageError(f"{path} is there already: move it away, or give another --name")
    _check_output(harness)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = _arm_file(harness, day=f"{datetime.now(UTC):%Y-%m-%d}", here=str(Path.cwd()))
    write_whole(path, text)
    letters = sum(map(len, harness.system))
    names = ", ".join(one["function"]["name"] for one in harness.tools)
    start = f"{harness.name} {harness.version} asks by {harness.spoken}"
    yield f"{start}: {letters} characters of prompt"
    yield f"{len(harness.tools)} tools: {names}"
    yield f"parameters: {', '.join(f'{k} {v}' for k, v in harness.parameters.items()) or 'none'}"
    yield from compared(harness.calls, policy)
    yield f"wrote {path}"
    yield f"Next: agenteval run --model NAME --arm {arm}"


def _check_output(harness: Captured) -> None:
    """Raises UsageError where what ran shows no output: models would never read any either."""
    silent = [one for one in harness.calls if _kind(one) == "ran" and SAID not in one.reply]
    if silent:
        last = (silent[0].reply.strip().splitlines() or ["nothing"])[-1]
        raise UsageError(
            f"{harness.name} ran `echo {SAID}` and showed no output of it, but: {last[:200]}. Its "
            "own sandbox may not work here: have it run one command by itself first, then capture "
            "it"
        )


def _arm_file(harness: Captured, *, day: str, here: str) -> str:
    """The arm as a file of arms/: a model reads there what the harness sent, word for word.

    But for the folder that it was started in: trials play in their own.
    """
    forms = harness.forms
    own = {tool: STRICT.profile.forms[tool] for tool in ("read", "write") if tool not in forms}
    tools = {tool: _tool(form) for tool, form in {**own, **forms}.items()}
    others = [one["function"]["name"] for one in harness.tools]
    not_offered = [name for name in others if name not in {form.name for form in forms.values()}]
    arm = {
        "version": 1,
        "summary": f"{harness.name} {harness.version}, captured {day}: "
        "its prompt, its tools and replies"
        + (f"; not offered: {', '.join(not_offered)}" if not_offered else ""),
        "words": f"{harness.name} {harness.version}".strip(),
        "rules": "none",
        "frame": _raw("\n\n".join(harness.system).replace(here, "/workspace")),
        "extras": [tool for tool in forms if tool not in {"bash", "read", "write"}],
        "engine": harness.name if harness.name in dialects() else "",
        "texts": _texts(harness),
        "tools": tools,
    }
    return tomli_w.dumps(arm, multiline_strings=True)


def _raw(text: str) -> str:
    """Return a template that renders to this text, also if it contains template syntax."""
    kept = re.sub(r"\{%(?=[-+]?\s*endraw)", "{% endraw %}{{ '{%' }}{% raw %}", text)
    return f"{{% raw %}}{kept}{{% endraw %}}"


def _tool(form: Form) -> dict[str, Any]:
    parameters = [{"name": one.name, "meaning": one.meaning} for one in form.parameters]
    told = {"name": form.name, "description": form.description, "parameters": parameters}
    return told | ({"schema": form.whole} if form.whole else {})


def _texts(harness: Captured) -> dict[str, str]:
    """Return the wording of replies, with a placeholder for what differs from call to call.

    Texts that the harness never showed, because its own rules let everything run, come from its
    dialect, or are ours.
    """
    dialect = dialects().get(harness.name)
    texts = asdict(dialect.profile.texts if dialect else STRICT.profile.texts)
    return texts | dict(_recorded_texts(harness))


def _recorded_texts(harness: Captured) -> Iterator[tuple[str, str]]:
    names = [call["function"]["name"] for call in harness.tools]
    for call in reversed(harness.calls):  # the first of a kind counts
        tool = harness.forms[call.tool].name if call.tool else "no_such_tool"
        command = str((call.arguments or {"command": call.raw}).get("command", ""))
        values = {"command": command, "tool": tool}
        match _kind(call):
            case "ran" | "failed" | "empty" as kind:
                yield kind, _measured(call.reply, command)
            case "":
                continue
            case kind:
                yield kind, template(_listless(call.reply, names), values)


def _kind(call: Provoked) -> str:
    """Return the field of `Texts` that a reply shows; "" for none."""
    if call.raw == BROKEN:
        return "malformed"
    if call.arguments == {}:
        return "invalid"
    if not call.tool:
        return "unknown"
    if call.did is Did.DENIED:
        return "denied" if call.tool == "bash" else "denied_path"
    command = str((call.arguments or {}).get("command", ""))
    kinds = {f"echo {SAID}": "ran", "true": "empty", "ls /no-such-folder-of-agenteval": "failed"}
    return kinds.get(command, "") if call.did is Did.RAN else ""


def _listless(text: str, names: Sequence[str]) -> str:
    """A text with a place where it lists the tools: a trial may offer fewer of them."""
    one = "|".join(sorted(map(re.escape, {*names, "invalid"}), key=len, reverse=True))
    return re.sub(rf"\b(?:{one})(?:, (?:{one})\b)+", _SLOT.format("tools"), text)


def template(text: str, values: Mapping[str, str]) -> str:
    """A text with the names of these values where they stand, as `str.format` takes it."""
    text = RULES.sub(_SLOT.format("rules"), text)
    for name, value in values.items():
        if len(value) > 1:
            text = text.replace(value, _SLOT.format(name))
    return _closed(text)


def _measured(text: str, command: str) -> str:
    """With places for what a command gave, and for itself where it is told behind a colon."""
    told = rf"(?m)(?<=: ){re.escape(command)}$"
    text = re.sub(told, _SLOT.format("command"), text, count=1)
    for pattern in (_RAN, _FAILED):
        text = pattern.sub(_SLOT.format("output"), text, count=1)
    return _closed(_CODE.sub(lambda found: found[1] + _SLOT.format("code"), text))


def _closed(text: str) -> str:
    doubled = text.replace("{", "{{").replace("}", "}}")
    return re.sub("\0([a-z]+)\0", r"{\1}", doubled)


def compared(calls: Sequence[Provoked], rules: Policy | None) -> Iterator[str]:
    """Yield a line for each provoked call: what the harness did, and our engine's verdict."""
    for call in calls:
        command = (call.arguments or {}).get("command") or call.raw
        did = call.did or ("ended" if call.reply == ENDED else "answered")
        if rules is None or call.did is None or not call.tool:
            yield f"  {did:8} {command}"
            continue
        ours = judge.judge(ToolCall("", call.tool, call.raw, call.arguments), rules).allowed
        differs = ours != (call.did is Did.RAN)
        difference = f"  DIFFERS: ours {_our_verdict(allowed=ours)}" if differs else ""
        yield f"  {did:8} {command}{difference}"


def _our_verdict(*, allowed: bool) -> str:
    return "allows it" if allowed else "denies it"
