"""The numbers the house keeps: sizes, one broad except, module docstrings."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "agenteval"
MODULES = sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_is_small_and_says_its_subject(path: Path) -> None:
    text = path.read_text()
    tree = ast.parse(text)
    long = [
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno + 1 > 40
    ]
    docstring = ast.get_docstring(tree) or ""
    assert (len(text.splitlines()) <= 300, long) == (True, [])
    assert docstring.split("\n\n")[0].rstrip().endswith((".", "?", ":")), "no one-sentence subject"


def test_only_places_that_are_named_here_catch_everything() -> None:
    broad = [
        path.name
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or getattr(node.type, "id", "") in {"Exception", "BaseException"})
    ]
    # What nobody foresaw within a trial makes that one void, with its traceback: no reply of a
    # model and no slip of a scenario may end the other trials of a run. Nowhere else.
    # And a plug-in that cannot be loaded is named and left out. In the sandbox, a scenario's test
    # fails of whatever it raises, and the code of a model's that it asks may raise anything.
    named = ["orchestrator.py", "plugins.py", "program_help.py", "subject.py"]
    assert broad == named


def test_no_module_is_a_drawer_for_odds_and_ends() -> None:
    assert [path.name for path in MODULES if path.stem in {"utils", "helpers", "misc"}] == []
