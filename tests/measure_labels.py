"""How far our facts agree with bash's own parser: `python tests/measure_labels.py CORPUS.jsonl`.

Each line of the corpus is a JSON object with `command`, `source`, `bash_n_valid` and, for valid
commands, labels of the structure outside substitutions: `bash_features`, `n_simple_commands`,
`command_names`, `pipe_targets`, and `substitutions`.
"""

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from agenteval.core.facts import Command, RedirectKind, ShellFacts, Span, SubstitutionKind
from agenteval.core.shell_facts import read_facts

AGENTS = ("mini-swe", "bookminder", "openhands", "swe-agent")
_CONTROL = {
    "[[": "conditional",
    "((": "arithmetic",
    "if": "if",
    "for": "for",
    "while": "while",
    "until": "until",
    "case": "case",
    "select": "select",
}
_CHAINS = {"&&": "and", "||": "or", ";": "sequence", "\n": "sequence"}


def outside(facts: ShellFacts) -> Callable[[Span], bool]:
    """Whether a span stands outside all substitutions."""
    inside = [s for kind, s in facts.substitutions if kind is not SubstitutionKind.PARAMETER]
    return lambda span: not any(s.start <= span.start and span.end <= s.end for s in inside)


def own_commands(facts: ShellFacts) -> list[Command]:
    return [c for c in facts.commands if not c.nested and not c.via]


def features(facts: ShellFacts) -> set[str]:
    is_outside = outside(facts)
    found = {_CHAINS[s.text] for s in facts.chains if is_outside(s)}
    for span in filter(is_outside, facts.control):
        word = re.match(r"\[\[|\(\(|\w+", span.text)
        found.add(_CONTROL.get(word[0] if word else "", "function_def"))
        if re.match(r"for\s*\(\(", span.text):
            found = (found - {"for"}) | {"arithmetic_for"}
    found |= {"background" for s in facts.background if is_outside(s)}
    found |= {
        "subshell" if s.text[0] == "(" else "brace_group" for s in facts.subshells if is_outside(s)
    }
    for redirect in filter(lambda r: is_outside(r.span), facts.redirects):
        found.add("redirect")
        found |= {
            RedirectKind.HEREDOC: {"heredoc"},
            RedirectKind.HERESTRING: {"here_string"},
            RedirectKind.STDERR: {"stderr_redirect"},
            RedirectKind.FILE: {"file_write"},
        }.get(redirect.kind, set())
    if any(not pipeline[0].nested for pipeline in facts.pipelines):
        found.add("pipe")
    for command in own_commands(facts):
        if command.assignments:
            found.add("env_assignment" if command.words else "assignment_only")
    return found


def labels(facts: ShellFacts) -> dict[str, object]:
    own = own_commands(facts)
    kinds = {kind for kind, _ in facts.substitutions}
    return {
        "bash_features": sorted(features(facts)),
        "n_simple_commands": len(own),
        "command_names": [c.words[0].span.text for c in own if c.words],
        "pipe_targets": [
            c.words[0].span.text
            for pipeline in facts.pipelines
            for c in pipeline[1:]
            if c.words and not c.nested
        ],
        "substitutions": sorted(
            name
            for kind, name in (
                (SubstitutionKind.COMMAND, "command_substitution"),
                (SubstitutionKind.PROCESS, "process_substitution"),
            )
            if kind in kinds
        ),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--show", type=int, default=20, help="disagreements to print")
    parser.add_argument("--agents", action="store_true", help="only commands of LLM agents")
    options = parser.parse_args(arguments)
    agreed: Counter[str] = Counter()
    asked: Counter[str] = Counter()
    shown = 0
    for line in options.corpus.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if not row["bash_n_valid"] or (options.agents and not row["source"].startswith(AGENTS)):
            continue
        facts = read_facts(row["command"])
        ours = labels(facts)
        wrong = [name for name in ours if name in row and row[name] != ours[name]]
        if facts.errors:
            wrong.append("errors")
        asked.update([*(name for name in ours if name in row), "errors", "all"])
        agreed.update({*(n for n in ours if n in row), "errors"} - set(wrong))
        agreed["all"] += not wrong
        if wrong and shown < options.show:
            shown += 1
            sys.stdout.write(f"{row['id']} {row['source']}: {row['command'][:300]!r}\n")
            for name in wrong:
                theirs = row.get(name)
                sys.stdout.write(f"    {name}: bash {theirs}, we {ours.get(name)}\n")
    for name, total in asked.items():
        share = 100 * agreed[name] / total
        sys.stdout.write(f"{name:20} {agreed[name]:6} of {total:6}  {share:7.3f}%\n")


if __name__ == "__main__":
    main()
