"""Hold the prose that users read to the words of prose.toml, by proselint's checks.

`python tests/docs/prose.py` prints every place, with what to write instead. With `--check` it
prints a line for each rule whose number of places is not its `most`, and exits with 1; `--lower`
sets each `most` to a number that has fallen.

The prose is Markdown outside code, the texts of templates and data files, the strings of the
package that are sentences, and the first lines of its docstrings. Generated pages are left out.
"""

import ast
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proselint.registry import CheckRegistry
from proselint.registry.checks import Check, CheckFlags, types
from proselint.tools import LintFile

ROOT = Path(__file__).parents[2]
RULES_FILE = Path(__file__).with_suffix(".toml")
RULES = tomllib.loads(RULES_FILE.read_text("utf-8"))
GENERATED = {"commands.md", "validation.md", "benchmarks.md", "scale.md", "arms.md"}
LONGEST = 28  # words of a sentence
_TEMPLATES = ("report/templates", "viewer/templates")
_DATA = ("report", "logs", "sandbox", "shipped")
_CODE_BLOCK = re.compile(
    r"```.*?```|^(?: {4}|\t).*?$|`[^`\n]*`|\]\([^)\n]*\)", re.DOTALL | re.MULTILINE
)
_MARKUP = re.compile(r"\{#.*?#\}|\{%.*?%\}|\{\{.*?\}\}|<[^>]*>", re.DOTALL)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n\s*\n|\n\s*(?:[*|#-]|\d+\.) ?|\|")
_WORDS = re.compile(r"[A-Za-z]{2,} [a-z]{2,} [a-z]{1,}")


@dataclass(frozen=True)
class Finding:
    """A place that breaks a rule."""

    rule: str
    path: Path
    line: int
    text: str

    def __str__(self) -> str:
        place = f"{self.path.relative_to(ROOT)}:{self.line}"
        return f"{place}: {self.rule}: {self.text!r}: {RULES[self.rule]['instead']}"


def texts() -> Iterator[tuple[Path, int, str]]:
    """Yield file, first line and prose of each text that a user reads; code in it is blank."""
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]
    for page in sorted(pages):
        if page.name not in GENERATED:
            yield page, 1, page_text(page)
    package = ROOT / "agenteval"
    for folder in _TEMPLATES:
        for template in sorted((package / folder).glob("*.*")):
            if template.suffix in {".html", ".md"}:
                yield template, 1, _blanked(_MARKUP, template.read_text("utf-8"))
    for folder in _DATA:
        for table in sorted((package / folder).glob("*.toml")):
            yield table, 1, table.read_text("utf-8")
    for module in sorted(package.rglob("*.py")):
        yield from _strings(module)


def page_text(page: Path) -> str:
    """Return the Markdown of a page, with blanks for its code."""
    return _blanked(_CODE_BLOCK, page.read_text("utf-8"))


def _blanked(pattern: re.Pattern[str], text: str) -> str:
    """Return the text with blanks for what matches, on the same lines."""
    return pattern.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


def _strings(module: Path) -> Iterator[tuple[Path, int, str]]:
    """Yield the first line of each docstring of a module, and its other strings that are prose."""
    tree = ast.parse(module.read_text("utf-8"))
    docstrings = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node)
            if docstring:
                docstrings.add(id(node.body[0].value))  # type: ignore[attr-defined]
                yield module, node.body[0].lineno, docstring.splitlines()[0]
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if id(node) not in docstrings:
                if _WORDS.search(text):
                    yield module, node.lineno, text


def findings(prose: Iterable[tuple[Path, int, str]]) -> list[Finding]:
    """Return every place that breaks a rule; prose is file, number of its first line, and text."""
    config = {"checks": dict.fromkeys(RULES, True), "max_errors": 100_000}
    places = []
    for path, first, text in prose:
        linted = LintFile(str(path), text)
        for result in linted.lint(config):
            rule = result.check_result.check_path
            start, end = result.check_result.span
            # The content is the text after an empty line of proselint's.
            line = first + linted.content.count("\n", 1, start + 1)
            places.append(Finding(rule, path, line, linted.content[start:end].strip()))
        places += _long_sentences(path, first, text)
    return places


def _check(name: str, rule: Mapping[str, Any]) -> Check:
    kind = types.ExistenceSimple(rule["pattern"], tuple(rule.get("exceptions", ())))
    return Check(check_type=kind, path=name, message="{}", flags=CheckFlags(allow_quotes=True))


CheckRegistry().register_many(
    tuple(_check(name, rule) for name, rule in RULES.items() if "pattern" in rule)
)


def _long_sentences(path: Path, first: int, text: str) -> Iterator[Finding]:
    if path.suffix not in {".md", ".html"}:
        return
    place = 0
    for match in [*_SENTENCE_END.finditer(text), None]:
        end = match.start() if match else len(text)
        sentence = text[place:end]
        if len(re.findall(r"[A-Za-z][\w'-]*", sentence)) > LONGEST:
            line = first + text.count("\n", 0, place)
            yield Finding("long", path, line, " ".join(sentence.split())[:60])
        place = match.end() if match else end


def main(arguments: list[str]) -> int:
    """Print the places, or compare their numbers with the bounds, or lower these."""
    places = findings(texts())
    numbers = {name: sum(place.rule == name for place in places) for name in RULES}
    if arguments == ["--lower"]:
        RULES_FILE.write_text(_lowered(numbers), "utf-8")
        return 0
    if arguments != ["--check"]:
        print(*places, sep="\n")  # noqa: T201 -- what it is for
        return 0
    off = {name: number for name, number in numbers.items() if number != RULES[name]["most"]}
    for name, number in off.items():
        bound = RULES[name]["most"]
        advice = "`make prose` lists them" if number > bound else "run prose.py --lower"
        print(f"prose.toml: {name}: {number} places, bound {bound}: {advice}")  # noqa: T201
    return int(bool(off))


def _lowered(numbers: Mapping[str, int]) -> str:
    """Return the rules with each bound lowered to the number of places."""
    lines = []
    name = ""
    for line in RULES_FILE.read_text("utf-8").splitlines():
        heading = re.match(r"\[([\w-]+)\]", line)
        name = heading[1] if heading else name
        is_bound = line.startswith("most = ")
        lines.append(f"most = {min(numbers[name], RULES[name]['most'])}" if is_bound else line)
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
