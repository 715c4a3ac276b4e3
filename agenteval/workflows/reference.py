"""Reference material: allow lists checked and converted, failure classes explained.

Apart from `authoring`, whose scenarios take three times as long to import.
"""

import json
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import tomli_w

from agenteval.config.allowlist_tables import REST
from agenteval.config.allowlists import load_any
from agenteval.config.roots import roots
from agenteval.core.nearest import Names
from agenteval.core.policy.arguments import ToolRule
from agenteval.core.policy.bash import ScriptRule
from agenteval.core.policy.command_line import Argument, CommandLine, Parser
from agenteval.core.policy.patterns import CommandPattern, PathRules
from agenteval.core.policy.policy import Policy
from agenteval.core.policy_lint import Remark, Trouble
from agenteval.dialects import registry
from agenteval.dialects.config_files import Written
from agenteval.dialects.registry import lint as remarks_on
from agenteval.errors import UsageError
from agenteval.taxonomy.catalogue import failure_classes
from agenteval.taxonomy.failure_class import FailureClass
from agenteval.taxonomy.malformed_arguments import MalformedKind
from agenteval.taxonomy.malformed_kinds import KINDS
from agenteval.taxonomy.page import malformed_page, page

OURS = "toml"
_NARGS = {(0, 1): "?", (0, None): "*", (1, None): "+"}


def targets() -> tuple[str, ...]:
    """For whom an allow list can be written."""
    return (*registry.dialects(), OURS)


def written_for(policy: Policy, to: str) -> Written:
    """Return an allow list in the format `to`, one of `targets`.

    The result never allows less than it says in `lost`.
    """
    if to == OURS:
        text, losses = to_toml(policy), tuple(_lost_in_ours(policy))
    elif dialect := registry.dialects().get(to):
        text, losses = dialect.write(policy)
    else:
        raise UsageError(f"--to {to}: no such harness. Known: {', '.join(targets())}")
    return Written(text, (*registry.left_behind(policy), *losses))


def _lost_in_ours(policy: Policy) -> Iterator[str]:
    for rule in policy.bash.patterns if policy.engine else ():
        if not _fits(rule.text):
            yield f"{rule.text}: left out, for words are compared without their quotes"
        elif "*" in rule.text.rstrip("*"):
            yield f"{rule.text}: that a * before its end stands for several words too"


def to_toml(policy: Policy) -> str:
    """Reading it gives the same policy, and for one of ours the same digest."""
    rules = policy.bash
    texts = [rule.text for rule in rules.patterns]
    own = [_pattern(rule) for rule in rules.patterns]
    bash = {
        "allow": own if policy.engine is None else [_spread(text) for text in texts if _fits(text)],
        "deny": [rule.text for rule in rules.denied],
        "through": sorted(rules.through),
        "constructs": sorted(construct.value for construct in rules.constructs),
        "env": sorted(rules.env),
        "script": [_script(script) for script in rules.scripts],
    }
    tables: dict[str, Any] = {
        "description": policy.description,
        "files": sorted(policy.files),
        "stated": sorted(policy.stated),
        "other_tools": "pass" * (policy.other_tools == "pass"),
    }
    if policy.engine is not None:
        return tomli_w.dumps(_filled({**tables, "bash": bash}))
    if "bash" in policy.tools:
        tables["bash"] = _filled(bash)
    for name, paths in (("read", policy.read), ("write", policy.write)):
        if name in policy.tools:
            tables[name] = _paths(paths)
    others = {name: rule for name, rule in policy.tools.items() if name not in tables}
    tables["tools"] = {name: _tool(rule) for name, rule in others.items()}
    shown = _filled(tables)
    # A table may be empty and still mean that its tool exists.
    shown |= {name: tables[name] for name in ("bash", "read", "write") if name in tables}
    return tomli_w.dumps(shown)


def _fits(rule: str) -> bool:
    """Return True if a rule of another harness can match here, where words have no quotes."""
    return not any(quote in rule for quote in "'\"")


def _spread(rule: str) -> str:
    """With the words for which a `*` at the end stands in other harnesses, but not here."""
    return f"{rule} *" if rule.endswith("*") and not rule.endswith(" *") else rule


def _filled(table: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in table.items() if value not in ("", [], {})}


def _pattern(rule: CommandPattern) -> str | dict[str, Any]:
    if not rule.without:
        return rule.text
    program = " ".join(word.text for word in rule.words)
    return {"program": program, "not": list(rule.without)}


def _paths(rules: PathRules) -> dict[str, Any]:
    return _filled({"allow": list(rules.allow), "deny": list(rules.deny)})


def _tool(rule: ToolRule) -> dict[str, Any]:
    parameters = json.loads(rule.schema) if rule.schema else {}
    return _filled({"description": rule.description, "parameters": parameters})


def _script(script: ScriptRule) -> dict[str, Any]:
    parser = script.line.parser
    named = {} if parser is Parser.ARGPARSE else {"parser": parser.value}
    return {"path": script.path, "runner": " ".join(script.runner), **named, **_line(script.line)}


def _line(line: CommandLine) -> dict[str, Any]:
    options = {option.name: option for option in line.own_options()}
    return _filled(
        {
            "options": {name: _argument(option) for name, option in options.items()},
            "positionals": [{"name": each.name, **_argument(each)} for each in line.positionals],
            "commands": {name: _line(command) for name, command in line.commands.items()},
            "exclusive": [list(each.names) for each in line.groups if not each.required],
            "one_of": [list(each.names) for each in line.groups if each.required],
        }
    ) | _sides(line)


def _sides(line: CommandLine) -> dict[str, Any]:
    """Return the settings in which a command line differs from the usual one."""
    usual = CommandLine.of()
    sides = ("abbreviations", "prefix", "command_optional")
    own = {key: getattr(line, key) for key in sides if getattr(line, key) != getattr(usual, key)}
    return own if line.helps is None else {**own, "help": list(line.helps)}


def _argument(argument: Argument) -> dict[str, Any]:
    count = (argument.fewest, argument.most)
    return {
        "kind": argument.kind.value,
        **_filled({"choices": list(argument.choices), "aliases": list(argument.aliases)}),
        **({} if count == (1, 1) else {"nargs": _NARGS.get(count, argument.fewest)}),
        **({"nargs": REST} if argument.is_rest else {}),
        **({} if argument.repeatable is None else {"repeatable": argument.repeatable}),
        **{key: True for key in ("required", "ends") if getattr(argument, key)},
    }


@cache
def known_classes() -> Mapping[str, FailureClass | MalformedKind]:
    """Everything that has a page by its id, the failure classes first and in their order."""
    classes = {entry.id: entry for entry in failure_classes()}
    return classes | {entry.id: entry for entry in KINDS}


def titles() -> list[str]:
    """A line each: the id, and what it is in a sentence."""
    width = max(map(len, known_classes()))
    return [f"{each.id:<{width}}  {each.title}" for each in known_classes().values()]


def page_of(name: str) -> str:
    """Return the Markdown page of an id. Raises UsageError for an unknown one."""
    entry = known_classes().get(name)
    if entry is None:
        near = Names(known_classes()).nearest(name)
        cure = f"did you mean {near}?" if near else "agenteval explain lists them all"
        raise UsageError(f"no failure class {name!r}: {cure}")
    return malformed_page(entry) if isinstance(entry, MalformedKind) else page(entry)


def lint(given: str) -> list[Remark]:
    """Return the faults of the rules of an allow list in any format. Raises UsageError."""
    policy, classes = load_any(given, roots=roots()), {one.id for one in failure_classes()}
    unknown = "there is no such failure class; `agenteval explain` lists them"
    return [
        *remarks_on(policy),
        *(
            Remark(f"stated {name}", Trouble.NEVER, unknown)
            for name in sorted(policy.stated - classes)
        ),
    ]


def convert(given: str, to: str) -> Written:
    """An allow list as another harness writes it. Raises UsageError."""
    return written_for(load_any(given, roots=roots()), to)
