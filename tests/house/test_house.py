"""The numbers that the house keeps, and what each of its modules owes."""

import ast
import re
from pathlib import Path

import pytest
from bounds import BOUNDS, CATCH_EVERYTHING
from survey import House, table
from wording import Wording


@pytest.fixture(scope="module")
def house() -> House:
    return House()


def test_no_number_of_the_house_is_above_its_bound(house: House) -> None:
    figures = house.numbers()
    above = {name: figures[name] for name, (bound, _) in BOUNDS.items() if figures[name] > bound}
    assert above == {}, "see `make house`"


def test_a_module_says_its_subject_in_one_sentence(house: House) -> None:
    silent = [
        name
        for name, module in house.modules.items()
        if not module.docstring.split("\n\n")[0].rstrip().endswith((".", "?", ":"))
    ]
    assert silent == []


def test_only_those_that_must_catch_everything(house: House) -> None:
    catching = {name for name, module in house.modules.items() if module.broad_excepts}
    assert catching <= CATCH_EVERYTHING


def test_an_import_within_a_function_says_why_it_stands_there(house: House) -> None:
    silent = [
        f"{name}:{line}"
        for name, module in house.modules.items()
        for line in module.inner_imports
        if not re.search(r"PLC0415 --? \S", module.text.splitlines()[line - 1])
    ]
    assert silent == []


def test_nothing_is_raised_within_an_except_star(house: House) -> None:
    """Before Python 3.11.4 it is wrapped in a group, and a user's error ends in a traceback."""
    stars = [
        f"{name}:{node.lineno}"
        for name, module in house.modules.items()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.TryStar)
    ]
    assert stars == [], "use errors.unwrapped"


def test_no_module_is_a_drawer_for_odds_and_ends(house: House) -> None:
    drawers = {"utils", "util", "helpers", "misc", "common"}
    assert [name for name in house.modules if name.rpartition(".")[2] in drawers] == []


# What somebody of the field would search for; each is said, in these words, where it is.
TERMS = {
    "adaptive timeout": "agenteval.protocols",
    "agent loop": "agenteval.play.trial",
    "arm": "agenteval.prompt.arm",
    "alpha spending": "agenteval.stats.promotion",
    "cross-check parser": "agenteval.play.second_reader",
    "fault injection": "agenteval.models.persona",
    "fault profile": "agenteval.models.persona",
    "feasibility": "agenteval.stats.promotion",
    "injected fault": "agenteval.models.persona",
    "interim looks": "agenteval.workflows.gate",
    "malformed call": "agenteval.trial.call",
    "p value": "agenteval.stats.permutation",
    "paired": "agenteval.stats.permutation",
    "pairing": "agenteval.trial.summary",
    "permutation test": "agenteval.stats.permutation",
    "remediation": "agenteval.classes.judge",
    "resolved scenario": "agenteval.workflows.stages",
    "retrying model": "agenteval.play.trial",
    "summary": "agenteval.trial.summary",
    "tool call": "agenteval.play.trial",
    "tool executor": "agenteval.play.trial",
    "trial runner": "agenteval.play.trial",
    "unpaired": "agenteval.stats.permutation",
    "world monitor": "agenteval.play.tools",
}


@pytest.mark.parametrize("term", TERMS)
def test_a_search_for_the_fields_word_finds_the_place(house: House, term: str) -> None:
    """As a search of the text does: the words themselves, on one line."""
    lines = house.modules[TERMS[term]].docstring.lower().splitlines()
    assert [line for line in lines if re.search(rf"\b{term}s?\b", line)] != []


def test_a_package_says_which_of_its_modules_to_read_first(house: House) -> None:
    assert house.without_front_door == []


def test_the_table_has_a_line_for_each_number(house: House) -> None:
    lines = table(house, BOUNDS).splitlines()
    assert [line[:38].rstrip() for line in lines[1 : 1 + len(house.numbers())]] == [
        *house.numbers()
    ]


def test_a_small_house_is_counted_as_it_is(tmp_path: Path) -> None:
    """A circle that needs TYPE_CHECKING, an import within a function, and two namesakes."""
    for name, text in {
        "__init__.py": '"""A house: begin with `ground`, and roof.py above it."""',
        "cellar/__init__.py": "",
        "attic/__init__.py": '"""Up, under the `roof`."""',
        "cellar/gate.py": '"""Down."""\nclass Gate: ...\n\n\n\n',
        "ground.py": "from house.cellar.gate import Gate\n\ndef f():\n    import os\n\n",
        "gate.py": (
            "from typing import TYPE_CHECKING\nfrom house import ground\n"
            "if TYPE_CHECKING:\n    import house.roof\n"
            "try: ...\nexcept (OSError, Exception): ...\n"
        ),
        "roof.py": "import house.gate\n\n\n\nif __name__ == '__main__': ...\n",
    }.items():
        (tmp_path / "house" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "house" / name).write_text(text)
    small = House(tmp_path / "house")
    assert small.circles == [["house.gate", "house.roof"]]
    assert small.repeated_stems == {"gate": 2}
    assert small.single_importers == [
        "house.cellar.gate",
        "house.gate",
        "house.ground",
        "house.roof",
    ]
    assert small.without_front_door == ["house.attic", "house.cellar"]
    figures = small.numbers()
    assert (figures["broad excepts"], figures["imports inside functions"]) == (1, 1)


def test_a_part_of_a_package_that_imports_it_when_first_used_counts_as_imported(
    tmp_path: Path,
) -> None:
    for name, text in {
        "__init__.py": "",
        "store/__init__.py": "from house.lazily import submodules\n__getattr__ = submodules()\n",
        "store/sql.py": "from house import store as s\n\ndef f():\n    return s.orm.rows()\n",
        "store/orm.py": "from house.store import sql\n\ndef rows():\n    return sql.f()\n",
    }.items():
        (tmp_path / "house" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "house" / name).write_text(text)
    assert House(tmp_path / "house").circles == [["house.store.orm", "house.store.sql"]]


WORDING = '''
"""What a module holds."""

def told(seen, name):
    """Return the name."""
    short = [one for one in seen]
    found = short
    size = len(short)

    return found, size, seen, name


class Guest:
    kept: int
'''


def test_names_that_say_nothing_are_counted_where_they_live_longer_than_three_lines() -> None:
    wording = Wording(WORDING, ast.parse(WORDING))
    assert wording.bare_names == [
        ("function", "told", 4),
        ("argument", "seen", 4),
        ("variable", "kept", 14),
    ]
    assert wording.metaphors == [("Guest", 13)]
    assert wording.bare_docstrings == [("What a module holds.", 2)]
