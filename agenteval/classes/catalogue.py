"""All failure classes in order, their version and their pages.

The first class that matches a denied call is its primary one.
`make format` renews the version when a call gets another class. Run as `python -m
agenteval.classes.catalogue` it writes README.md next to it; with --check it exits 1 when that
file is not what it would write.
"""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType

from agenteval import plugins
from agenteval.classes import calls, commands, shapes
from agenteval.classes.failure_class import ArticleRow, FailureClass, classes_of
from agenteval.classes.malformed import KINDS, MalformedKind
from agenteval.trial.call import ToolCall

SHIPPED_VERSION = "12"  # stored with every run, with the names of plug-ins
EXPLAINED = "6f66460a7b51c28c"  # digest of what it says, over examples and tests/corpus

GROUP = "agenteval.failure_classes"
_FAMILIES = (calls, shapes, commands)
SHIPPED = tuple(found for family in _FAMILIES for found in classes_of(family))


def _plugged() -> Iterator[tuple[str, FailureClass]]:
    """Yield the failure classes of plug-ins, each with the plug-in's name.

    A plug-in is a class, or a module of some.
    """
    taken_ids = {entry.id for entry in SHIPPED}
    for name, plugin in plugins.load(GROUP, _is_class_or_module).items():
        entries = classes_of(plugin) if isinstance(plugin, ModuleType) else (plugin,)
        for entry in entries:
            if entry.rest or entry.id in taken_ids:
                plugins.leave_out(GROUP, name, f"{entry.id}: its id is taken, or it takes the rest")
                continue
            taken_ids.add(entry.id)
            yield name, entry


def _is_class_or_module(plugin: object) -> bool:
    return isinstance(plugin, FailureClass | ModuleType)


_PLUGGED = tuple(_plugged())
_LAST = SHIPPED[SHIPPED.index(shapes.wrapper_prefix) :]
_FIRST = SHIPPED[: -len(_LAST)]
_CLASSES = (*_FIRST, *(entry for _, entry in _PLUGGED), *_LAST)
# Stored with every verdict, so it names whoever else explains.
TAXONOMY_VERSION = "+".join(
    (SHIPPED_VERSION, *plugins.sources(GROUP, (name for name, _ in _PLUGGED)))
)


def failure_classes() -> tuple[FailureClass, ...]:
    """Return every class, in the order of the families above and within each that of its source.

    The classes of plug-ins stand before those that explain any program.
    """
    return _CLASSES


ARTICLE_ROWS = tuple(row.value for row in ArticleRow)
_ROWS = {each.id: each.article.value for each in failure_classes()}


def article_row(failure_class: str) -> str:
    """The row that counts a class; what the table has no row for is its other bash."""
    return _ROWS.get(failure_class, ArticleRow.OTHER.value)


# The pages: one text for README.md, `agenteval explain` and reports.

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
    command = call.command
    if command is None:
        return f"{call.name} {call.raw}"
    is_visible = command.replace("\n", "").isprintable()
    return command if is_visible else command.encode("unicode_escape").decode()


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
    sys.stderr.write(f"{README}: out of date; run python -m agenteval.classes.catalogue\n")
    return 1


def fold(taxonomy: str) -> Mapping[str, str] | None:
    """Class to row of the article, in the article's order; None for the classes as they are."""
    if taxonomy != "article":
        return None
    by_row = sorted(_ROWS.items(), key=lambda item: ARTICLE_ROWS.index(item[1]))
    return dict(by_row)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
