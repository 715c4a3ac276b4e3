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

from agenteval.classes.judge import facts_of
from agenteval.shell.facts import Command, Redirect, RedirectKind, ShellFacts, SubstitutionKind
from agenteval.shell.gate import Span

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
MOST_NAMES, MOST_TARGETS = 12, 6  # the labels hold no more
_CHAINS = {"&&": "and", "||": "or", ";": "sequence", "\n": "sequence"}


def outside(facts: ShellFacts) -> Callable[[Span], bool]:
    """Whether a span stands outside all substitutions."""
    inside = [s for kind, s in facts.substitutions if kind is not SubstitutionKind.PARAMETER]
    return lambda span: not any(s.start <= span.start and span.end <= s.end for s in inside)


def own_commands(facts: ShellFacts) -> list[Command]:
    return [c for c in facts.commands if not c.nested and not c.via]


def program(command: Command) -> str:
    """The label of a command: its first word as written, or the next one after `time`."""
    first, *rest = command.words
    if first.span.text == "time":
        first = next((word for word in rest if word.text != "-p"), first)
    return first.span.text


def redirect_features(redirect: Redirect) -> set[str]:
    """The labels hold 2>&1, 2>/dev/null and |& for a move of stderr, the rest for a file."""
    text = redirect.span.text.replace(" ", "")
    match redirect.kind:
        case RedirectKind.HEREDOC:
            return {"heredoc"}
        case RedirectKind.HERESTRING:
            return {"here_string"}
        case RedirectKind.INPUT:
            return set()
    if text in ("|&", "2>&1", "2>/dev/null"):
        return {"stderr_redirect"}
    writes = not re.match(r"[0-9]*>&|\{\w+\}>&|[^>]*<>", text) and redirect.target != "/dev/null"
    return {"file_write"} if writes else set()


def features(facts: ShellFacts) -> set[str]:
    is_outside = outside(facts)
    found = {_CHAINS.get(s.text, repr(s.text)) for s in facts.chains if is_outside(s)}
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
        found |= {"redirect", *redirect_features(redirect)}
    if any(map(is_outside, facts.negations)):
        found.add("negation")
    if any(not pipeline[0].nested for pipeline in facts.pipelines):
        found.add("pipe")
    for command in own_commands(facts):
        if command.words and command.words[0].span.text == "time":
            found.add("time_keyword")
        if command.assignments:
            found.add("env_assignment" if command.words else "assignment_only")
    return found


def labels(facts: ShellFacts) -> dict[str, object]:
    own = own_commands(facts)
    return {
        "bash_features": sorted(features(facts)),
        "n_simple_commands": len(own),
        "command_names": [program(c) for c in own if c.words][:MOST_NAMES],
        "pipe_targets": [
            program(c)
            for pipeline in facts.pipelines
            for c in pipeline[1:]
            if c.words and not c.nested
        ][:MOST_TARGETS],
        "substitutions": sorted(substitutions(facts)),
    }


def substitutions(facts: ShellFacts) -> set[str]:
    """Kinds of substitution; in a here-document the labels ask for the marks alone."""
    bodies = [h.body for h in facts.heredocs if h.expanded and not h.span.text.startswith("<<<")]
    found = {
        "heredoc_body_substitution" for b in bodies if "`" in b.text or re.search(r"\$\(", b.text)
    }
    for kind, span in facts.substitutions:
        if any(b.start <= span.start < b.end for b in bodies):
            continue
        if kind in (SubstitutionKind.COMMAND, SubstitutionKind.PROCESS):
            found.add(f"{kind}_substitution")
    return found


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
        facts = facts_of(row["command"])
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
