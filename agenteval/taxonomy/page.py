"""The pages of the failure classes: one text for README.md, `agenteval explain` and reports.

Run as `python -m agenteval.taxonomy.page` it writes README.md next to it; with --check it exits 1
when that file is not what it would write.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from agenteval.core.call import ToolCall
from agenteval.taxonomy.catalogue import SHIPPED, article_row
from agenteval.taxonomy.failure_class import FailureClass
from agenteval.taxonomy.malformed_arguments import MalformedKind
from agenteval.taxonomy.malformed_kinds import KINDS
from agenteval.taxonomy.version import SHIPPED_VERSION

README = Path(__file__).with_name("README.md")
_HEAD = f"""\
# Failure classes

<!-- Written by `make format` from the blocks in this folder: edit those, not this file. -->

Why a tool call was denied: taxonomy version {SHIPPED_VERSION}. The policy decides, these classes
only explain. They are asked in this order; the first that matches a denied call is its primary
class, the others that match are kept beside it. Examples are judged by `allowlists/demo.toml`.
"""
_MALFORMED = """\
## Malformed calls

How a call arrived, whatever it asks for. It is no failure class: it has its own table,
counted per 100 calls that were tried, and says to which layer what is seen points: the model, the
template or parser, our prompt, the harness, the server. A call can have several. Its raw bytes stay
with the turn, and so does every repair of what was sent back in its place.
"""


def render() -> str:
    """README.md as it must be."""
    classes = (page(each) for each in SHIPPED)
    return "\n".join((_HEAD, *_table(), *classes, _MALFORMED, *map(malformed_page, KINDS)))


def page(failure_class: FailureClass) -> str:
    """One class in Markdown: what it is, why it is denied, examples, what is allowed instead."""
    lines = [f"## {failure_class.id}", "", failure_class.title, "", failure_class.rationale, ""]
    files = " and ".join(failure_class.after)
    before = f", once {files} was written" if files else ""
    lines += [f"Denied{before}:", "", *_examples(failure_class.bad), ""]
    lines += ["Allowed instead, or only looks alike:", "", *_examples(failure_class.good), ""]
    if failure_class.construct:
        lines += [f'A policy allows it with `constructs = ["{failure_class.construct}"]`.', ""]
    lines += [f"Row in the article's table: {article_row(failure_class.id)}.", ""]
    return "\n".join(lines)


def malformed_page(kind: MalformedKind) -> str:
    """One kind of malformed call in Markdown."""
    noted = ["A note: it is no fault.", ""] if kind.note else []
    return "\n".join([f"### {kind.id}", "", kind.title, "", kind.rationale, "", *noted])


def example_text(call: ToolCall) -> str:
    """A call on one line: the command of a bash call, the name and arguments of any other."""
    if call.command is None:
        return f"{call.name} {call.raw}"
    return call.command.encode("unicode_escape").decode() if _hidden(call.command) else call.command


def _hidden(command: str) -> bool:
    """Return True if a command holds what can't be seen: a control character but a line's end."""
    return not command.replace("\n", "").isprintable()


def _table() -> Iterator[str]:
    yield "| | class | what it is |"
    yield "|---|---|---|"
    for number, each in enumerate(SHIPPED, 1):
        yield f"| {number} | [{each.id}](#{each.id}) | {each.title} |".replace("||", "\\|\\|")
    yield ""


def _examples(calls: tuple[ToolCall, ...]) -> Iterator[str]:
    texts = [example_text(call) or "(no command)" for call in calls]
    fence = "```" if not any("```" in text for text in texts) else "````"
    yield from (fence, *texts, fence)


def main(arguments: list[str]) -> int:
    """0, or 1 when --check found README.md out of date."""
    if "--check" not in arguments:
        README.write_text(render(), encoding="utf-8")
        return 0
    current = README.read_text(encoding="utf-8") if README.exists() else ""
    if current == render():
        return 0
    sys.stderr.write(f"{README}: out of date; run python -m agenteval.taxonomy.page\n")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
