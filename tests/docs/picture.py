"""The README's picture: what `make demo` prints, as an SVG for light and for dark screens."""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from page_world import target
from pages import PROJECT, part
from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

PICTURE = PROJECT / "docs" / "demo.svg"
COLUMNS = 100
LINE, MARGIN = 24.4, 12  # as rich draws them; as FORMAT does
SHOWN = "^Tool-call errors by failure class...^total"
ANSI = ["#6e7781", "#b3261e", "#1a7f37", "#8a6100", "#0a58ca", "#8250df", "#0b7285", "#57606a"]
PALE = ["#8b949e", "#ff8c82", "#56d364", "#e3b341", "#79c0ff", "#d2a8ff", "#56d4dd", "#b1bac4"]


def _theme(background: str, foreground: str, colours: list[str]) -> TerminalTheme:
    def rgb(text: str) -> tuple[int, int, int]:
        return int(text[1:3], 16), int(text[3:5], 16), int(text[5:7], 16)

    return TerminalTheme(rgb(background), rgb(foreground), [rgb(one) for one in colours])


LIGHT = _theme("#ffffff", "#1f2328", ANSI)
DARK = _theme("#0d1117", "#e6edf3", PALE)
FORMAT = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} HEIGHT" role="img">
<style>
text {{ font-family: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace;
font-size: {char_height}px; white-space: pre }}
{styles}
</style>
<rect class="paper" width="{width}" height="HEIGHT" rx="8"/>
<defs>
{lines}
</defs>
<g transform="translate(12, 12)">
{backgrounds}
<g>
{matrix}
</g>
</g>
</svg>
"""


def rendered(shown: str) -> str:
    """The picture of a text with the colours of a terminal."""
    light, dark = (_drawn(shown, theme) for theme in (LIGHT, DARK))
    style = re.search(r"\.demo-r1 .*?(?=\n</style>)", dark, re.DOTALL)
    paper = ".paper {{ fill: {0}; stroke: #8b949e55 }}"
    night = f"{style[0] if style else ''}\n{paper.format(DARK.background_color.hex)}"
    return light.replace(
        "\n</style>",
        f"\n{paper.format(LIGHT.background_color.hex)}\n"
        f"@media (prefers-color-scheme: dark) {{\n{night}\n}}\n</style>",
    )


def _drawn(shown: str, theme: TerminalTheme) -> str:
    with Path(os.devnull).open("w") as nowhere:
        console = Console(record=True, width=COLUMNS, file=nowhere, force_terminal=True)
        console.print(Text.from_ansi(shown))
    height = (shown.count("\n") + 1) * LINE + 2 * MARGIN
    return console.export_svg(
        theme=theme, code_format=FORMAT.replace("HEIGHT", f"{height:g}"), unique_id="demo"
    )


def demo() -> str:
    """What `make demo` prints, in colour, as far as it is shown."""
    environment = {
        "COLUMNS": str(COLUMNS),
        "FORCE_COLOR": "1",
        "HOME": "/nonexistent",
        "LANG": "C.UTF-8",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "TERM": "xterm-256color",
    }
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            ["bash", "-c", target("make demo")],
            capture_output=True,
            check=True,
            cwd=folder,
            env=environment,
            text=True,
        )
    coloured = done.stdout.split("\n")
    plain = [Text.from_ansi(line).plain for line in coloured]
    first = plain.index(part(plain, (SHOWN,))[0])
    return "\n".join(coloured[first : first + len(part(plain, (SHOWN,)))])
