"""A listed script's command line is read as argparse reads it: argparse itself is the oracle."""

import argparse
import contextlib
import io

import pytest
from clocks import steps
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agenteval.policy.command_lines import Argument, CommandLine, Kind
from agenteval.policy.parsers import misuse

TYPES = {Kind.INT: int, Kind.FLOAT: float}


def parser(
    line: CommandLine, made: argparse.ArgumentParser | None = None
) -> argparse.ArgumentParser:
    made = made or argparse.ArgumentParser(prog="script")
    for option in line.own_options():
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
            parser(line).parse_args(argv)
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
LOOSE = CommandLine.of(
    [],
    (Argument("words", most=None),),
    {"add": CommandLine.of([], (Argument("a", fewest=0, most=None), Argument("b")))},
)
# Later versions leave words behind an option to an optional positional before it.
SPLIT = CommandLine.of([option("-v", Kind.FLAG)], (Argument("a"), Argument("b", fewest=0)))
IS_KINDER = accepts(SPLIT, ["x", "-v", "y"])
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
    check(line, argv)


def check(line: CommandLine, argv: list[str]) -> None:
    """What we take argparse takes; what it takes we take, but for odd places of a `--`."""
    ours = misuse(line, argv, 0, dynamic=(), root="/w")
    if ours is None or not (IS_KINDER or any(word.endswith("--") for word in argv)):
        assert (ours is None) == accepts(line, argv), ours


NAMES = ["--limit", "--like", "--verbose", "--ver", "-n", "-v", "-q", "-lon", "--long", "-1"]
NARGS = st.sampled_from([(1, 1), (1, 1), (0, 1), (0, None), (1, None), (2, 2)])
KINDS = st.sampled_from([Kind.STR, Kind.INT, Kind.FLOAT])


@st.composite
def lines(draw: st.DrawFn, *, deep: bool = True) -> CommandLine:
    """Any script: options of all kinds, positionals, and for some of them sub-commands."""
    names = draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=4))
    options = []
    for name in names:
        is_flag, required = draw(st.booleans()), draw(st.booleans())
        fewest, most = (1, 1) if is_flag else draw(NARGS)
        kind = Kind.FLAG if is_flag else draw(KINDS)
        options.append(option(name, kind, fewest=fewest, most=most, required=required))
    commands = draw(st.dictionaries(st.sampled_from(["list", "5"]), lines(deep=False), max_size=2))
    deal = st.just((1, 1)) if deep and commands else NARGS
    places = draw(st.lists(st.tuples(KINDS, deal), max_size=3))
    positionals = [
        Argument(f"p{number}", kind, fewest=fewest, most=most)
        for number, (kind, (fewest, most)) in enumerate(places)
    ]
    return CommandLine.of(options, tuple(positionals), commands if deep else {})


VALUES = {Kind.STR: ["a", "5", "a b", "", "-5"], Kind.INT: ["5", "-5"], Kind.FLOAT: ["5", "-.5"]}


@st.composite
def calls(draw: st.DrawFn) -> tuple[CommandLine, list[str]]:
    """A script and words that often fit it: its arguments in any order, and a slip or two."""
    line = draw(lines())
    groups = [_given(draw, place, []) for place in line.positionals]
    for name, each in line.options.items():
        if not each.ends and draw(st.booleans()):
            groups.insert(draw(st.integers(0, len(groups))), _given(draw, each, [name]))
    argv = [word for group in groups for word in group]
    if line.commands and draw(st.booleans()):
        argv.append(draw(st.sampled_from([*line.commands])))
    for word in draw(st.lists(WORDS, max_size=2)):
        argv.insert(draw(st.integers(0, len(argv))), word)
    return line, argv


def _given(draw: st.DrawFn, argument: Argument, name: list[str]) -> list[str]:
    if argument.kind is Kind.FLAG:
        return name
    most = argument.fewest + 1 if argument.most is None else argument.most
    words = st.sampled_from(VALUES[argument.kind])
    values = draw(st.lists(words, min_size=argument.fewest, max_size=most))
    if name and values and draw(st.booleans()):
        return [f"{name[0]}={values[0]}", *values[1:]]
    return [*name, *values]


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(calls())
@example((SPLIT, ["x", "-v", "y"]))
@example((SPLIT, ["x", "y", "-v", "--"]))
@example((CommandLine.of([option("-1", Kind.FLAG)], (Argument("n", Kind.INT),)), ["-5"]))
@example((CommandLine.of([option("--pair", fewest=2, most=2)]), ["--pair=a"]))
@example((CommandLine.of([option("--like"), option("--limit")]), ["--li=x y"]))
@example((CommandLine.of([option("--like")]), ["--like=--"]))
@example((CommandLine.of(), ["--"]))
def test_any_script_takes_nothing_that_argparse_refuses(
    call: tuple[CommandLine, list[str]],
) -> None:
    with contextlib.suppress(argparse.ArgumentError):
        check(*call)


def test_help_ends_the_reading() -> None:
    assert misuse(TREE, ["add", "--help", "anything", "--nope"], 0, dynamic=(), root="/w") is None
    assert misuse(REQUIRED, ["-h"], 0, dynamic=(), root="/w") is None


@pytest.mark.parametrize(
    "argv",
    [
        ["--", "-x"],
        ["a", "--", "--limit", "b"],
        ["a", "b", "-v", "--"],
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


@pytest.mark.parametrize(
    ("line", "argv", "hint"),
    [
        (FLAT, ["a", "--", "b", "--"], "-- may be given once only"),
        (TREE, ["--", "list"], "-- may not stand before a sub-command"),
        (REQUIRED, ["--sql=x", "--"], "nothing is left that could follow --"),
        (FLAT, ["a", "b", "--pair=x"], "--pair needs its values as words of their own"),
        (FLAT, ["-v", "a"], "rest is missing"),
        (SPLIT, ["a", "b", "c"], "'c' is one word too many"),
        (CommandLine.of([], (Argument("pair", fewest=2, most=2),)), ["a"], "pair is missing"),
        (LOOSE, ["x", "add", "b"], "words must be one word, as a sub-command follows"),
    ],
)
def test_what_does_not_fit_is_told_with_its_cure(
    line: CommandLine, argv: list[str], hint: str
) -> None:
    found = misuse(line, argv, 0, dynamic=(), root="/w")
    assert found
    assert found.hint == hint


def test_words_before_the_script_do_not_count() -> None:
    assert misuse(TREE, ["x*", "list"], 1, dynamic={0}, root="/w") is None


def test_a_long_cluster_of_flags_is_read_in_linear_time() -> None:
    def read(flags: int) -> int:
        argv = ["a", "b", "-" + "vq" * flags]
        assert misuse(FLAT, argv, 0, dynamic=(), root="/w") is None
        return steps(lambda: misuse(FLAT, argv, 0, dynamic=(), root="/w"))

    assert read(8_000) < 5 * read(2_000)
