"""How the site is built: the pages of docs/ and the READMEs beside what they are about."""  # noqa: INP001

from pathlib import Path

from agenteval import __version__

PROJECT = Path(__file__).resolve().parent.parent

project = "agenteval"
version = release = __version__
project_copyright = "the authors of agenteval, GPL-3.0-or-later"

# The sources are the whole project: a link leads to the same file here and in a checkout.
root_doc = "docs/index"
include_patterns = [
    "*.md",
    "agenteval/*/README.md",
    "allowlists/README.md",
    "docs/**.md",
    "scenarios/README.md",
    "tests/replies/README.md",
]
exclude_patterns = ["docs/_build"]
extensions = ["myst_parser"]
myst_heading_anchors = 3

html_theme = "furo"
html_title = "agenteval"
html_extra_path = ["site"]  # the front page of the folder leads to the first page
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"footer_icons": []}
