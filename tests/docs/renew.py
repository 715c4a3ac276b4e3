"""Renews what the documentation shows: outputs of commands, the page of options, the picture.

python tests/docs/renew.py [PAGE...]      without pages: README.md and all of docs/
"""

import sys
import tempfile
from pathlib import Path

import command_page
import picture
from pages import PAGES, PROJECT
from played_page import played, renewed


def renew(page: Path) -> bool:
    """Whether every command ends as the page says. Its output is written into the page."""
    text = page.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        outcomes = list(played(text, Path(folder)))
    _write(page, renewed(text, outcomes))
    wrong = [one for one in outcomes if not one.ended_well]
    for one in wrong:
        sys.stderr.write(f"{page.relative_to(PROJECT)}: {one.fault}\n")
    return not wrong


def _write(path: Path, text: str) -> None:
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
        sys.stdout.write(f"{path.relative_to(PROJECT)}: renewed\n")


def main(asked: list[str]) -> int:
    pages = [Path(one).resolve() for one in asked] or list(PAGES)
    if not asked:
        _write(command_page.PAGE, command_page.render())
        _write(picture.PICTURE, picture.rendered(picture.demo()))
    wrong = [page for page in pages if not renew(page)]
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
