"""A listed script's command line is read as argparse reads it: argparse itself is the oracle."""

import argparse
import contextlib
import io
import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agenteval.core.policy_script import HELP, CommandLine, misuse
from agenteval.core.policy_values import Argument, Kind

TYPES = {Kind.INT: int, Kind.FLOAT: float}


def parser(
    line: CommandLine, made: argparse.ArgumentParser | None = None
) -> argparse.ArgumentParser:
    made = made or argparse.ArgumentParser(prog="script")
    for option in dict.fromkeys(line.options.values()):
        if option is HELP:
            continue
        names = (option.name, *option.aliases)
        if option.kind is Kind.FLAG:
            made.add_argument(*names, action="store_true", required=option.required)
        else:
            made.add_argument(*names, required=option.required, **_value(option))
    for place in line.positionals:
        made.add_argument(place.name, **_value(place))
    if line.commands:
        below = made.add_subparsers(required=True, dest="command")
        for name, command in line.commands.items():
            parser(command, below.add_parser(name))
    return made


def _value(argument: Argument) -> dict[str, object]:
    nargs = {(1, 1): None, (0, 1): "?", (0, None): "*", (1, None): "+"}.get(
        (argument.fewest, argument.most), argument.fewest
    )
    return {
        "type": TYPES.get(argument.kind, str),
        "choices": argument.choices or None,
        "nargs": nargs,
    }


def accepts(line: CommandLine, argv: list[str]) -> bool:
    with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        try:
            made = parser(line)
            # Intermixed: which positional an optional one leaves words to differs by version.
            (made.parse_args if line.commands else made.parse_intermixed_args)(argv)
        except SystemExit as end:
            return end.code == 0
    return True


def option(name: str, kind: Kind = Kind.STR, **more: object) -> Argument:
    return Argument(name, kind, repeatable=True, **more)  # type: ignore[arg-type]


FLAT = CommandLine.of(
    [
        option("--limit", Kind.INT, aliases=("-n",)),
        option("--like", aliases=("-l",)),
        option("--verbose", Kind.FLAG, aliases=("-v",)),
        option("--quiet", Kind.FLAG, aliases=("-q",)),
        option("--ratio", Kind.FLOAT),
        option("--format", choices=("json", "csv")),
        option("--tags", fewest=1, most=None),
        option("--pair", fewest=2, most=2),
    ],
    (Argument("name"), Argument("rest", most=None)),
)
REQUIRED = CommandLine.of([option("--sql", required=True), option("--dry", Kind.FLAG)])
LONG = CommandLine.of(
    [option("-long"), option("-lot", Kind.INT), option("-l1", Kind.FLAG), option("-v", Kind.FLAG)]
)
TREE = CommandLine.of(
    [option("--db")],
    (),
    {
        "list": CommandLine.of([option("--limit", Kind.INT)]),
        "add": CommandLine.of([option("--tag")], (Argument("text"), Argument("count", Kind.INT))),
    },
)
PLAIN = """
--limit -n -n5 -n=5 -nx --limit=5 --limit=x --lim --li --l=3 5 x --like --like= -l -lx - -5 -.5 -5x
--verbose --verbose=1 -v -vq -vqn5 -vx -q --ratio --ratio=1e3 --format --format=csv json xml --tags
-long -lon -lo -lot -l1 -l1=x -long=3 -lon=3 -lo5 --pair --nope --nope=1
--sql --dry list add --db --db=x --tag 1_0
"""
WORDS = st.sampled_from([*PLAIN.split(), "-x y", "--no such", "", "a b", "--sql=select 1", "- x"])


@settings(max_examples=400, deadline=None)
@given(st.sampled_from([FLAT, REQUIRED, LONG, TREE]), st.lists(WORDS, max_size=6))
@example(FLAT, ["x", "y", "-vqn5"])
@example(LONG, ["-lon", "v"])
@example(LONG, ["-lo", "v"])
@example(LONG, ["-l", "v"])
@example(TREE, ["--db", "x", "add", "--tag", "t", "text", "5"])
def test_a_command_line_fits_exactly_when_argparse_takes_it(
    line: CommandLine, argv: list[str]
) -> None:
    ours = misuse(line, argv, 0, dynamic=(), root="/w")
    assert (ours is None) == accepts(line, argv), ours


def test_help_ends_the_reading() -> None:
    assert misuse(TREE, ["add", "--help", "anything", "--nope"], 0, dynamic=(), root="/w") is None
    assert misuse(REQUIRED, ["-h"], 0, dynamic=(), root="/w") is None


@pytest.mark.parametrize(
    "argv",
    [
        ["--", "-x"],
        ["a", "--", "--limit", "--", "b"],
        ["-n", "--", "5"],
        ["-n5", "--", "-v"],
        ["--"],
    ],
)
def test_two_dashes_end_the_options_as_in_argparse(argv: list[str]) -> None:
    line = CommandLine.of(list(FLAT.options.values())[2:], FLAT.positionals)
    with contextlib.redirect_stderr(io.StringIO()):
        try:
            parser(line).parse_args(argv)
            accepted = True
        except SystemExit:
            accepted = False
    assert (misuse(line, argv, 0, dynamic=(), root="/w") is None) == accepted


def test_words_before_the_script_do_not_count() -> None:
    assert misuse(TREE, ["x*", "list"], 1, dynamic={0}, root="/w") is None


def test_a_long_cluster_of_flags_is_read_in_linear_time() -> None:
    start = time.perf_counter()
    assert misuse(FLAT, ["a", "b", "-" + "vq" * 60_000], 0, dynamic=(), root="/w") is None
    assert time.perf_counter() - start < 0.5
