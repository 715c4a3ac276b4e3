"""The rules of prose.toml find what they are there for, and read no code."""

import prose
import pytest

FOUND = {name: rule["bad"] for name, rule in prose.RULES.items() if "bad" in rule}


@pytest.mark.parametrize("name", FOUND)
def test_each_rule_finds_its_bad_sentence(name, tmp_path) -> None:
    page = tmp_path / "page.md"
    places = prose.findings([(page, 1, f"A heading\n\n{FOUND[name]}\n")])
    assert (name, page, 3) in [(place.rule, place.path, place.line) for place in places]


def test_a_sentence_of_more_than_28_words_is_too_long_and_code_is_not_read(tmp_path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# Worlds\n\n    worlds\n\n`worlds` {'word ' * 29}.\n\n{'word ' * 28}.\n")
    places = prose.findings([(page, 1, prose.page_text(page))])
    assert [(place.rule, place.line) for place in places] == [("world", 1), ("long", 5)]
