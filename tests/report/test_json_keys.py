"""documents.toml names attributes as text: each is one of the class that it is read from."""

import tomllib
from importlib.resources import files

import pytest

from agenteval.report.json import keyed
from agenteval.report.speed import Served
from agenteval.report.view import RecoveryFigures
from agenteval.stats.promotion import Minimum
from agenteval.stats.rates import Mean, Rate
from agenteval.trial.call import Finding

DOCUMENTS = tomllib.loads(files("agenteval.report").joinpath("documents.toml").read_text("utf-8"))
CLASSES = {kind.__name__: kind for kind in (Finding, Mean, Minimum, Rate, RecoveryFigures, Served)}


def first_names(table) -> set[str]:
    """Return the attributes with which the paths of a table begin."""
    names = set()
    for source in table.values():
        names |= first_names(source) if isinstance(source, dict) else {source.partition(".")[0]}
    return names


def test_each_table_with_a_capital_is_of_a_class_and_its_paths_begin_with_attributes() -> None:
    tables = {name: table for name, table in DOCUMENTS.items() if name[0].isupper()}
    unknown = [
        (name, attribute)
        for name, table in tables.items()
        for attribute in first_names(table)
        if attribute not in {*dir(CLASSES[name]), *CLASSES[name].__annotations__}
    ]
    assert (unknown, tables.keys()) == ([], CLASSES.keys())


def test_a_value_for_a_key_that_no_table_has_is_an_error_of_ours() -> None:
    with pytest.raises(KeyError, match="no key for"):
        keyed(Rate(0, 1), "architectures", models=[], others=[], mistyped=1)
