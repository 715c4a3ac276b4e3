"""A command line is read as its own parser reads it: argparse, click, typer and gnu_getopt tell.

`python tests/policy/test_parser_oracles.py 40000` asks each about that many generated lines.
"""

import argparse
import contextlib
import getopt
import io
import json
import random
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest
from typer._types import TyperChoice
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from agenteval.policy.command_lines import Argument, CommandLine, Kind, Misuse, OneOf, Parser
from agenteval.policy.parsers import misuse

LINES = 400
OPTIONS = (
    Argument("--limit", Kind.INT, aliases=("-n",)),
    Argument("--sql", aliases=("-s",)),
    Argument("--ratio", Kind.FLOAT),
    Argument("--format", choices=("json", "csv")),
    Argument("--pair", fewest=2, most=2),
    Argument("--tag", Kind.INT, repeatable=True),
    Argument("--verbose", Kind.FLAG, aliases=("-v",)),
    Argument("--quiet", Kind.FLAG, aliases=("-q",)),
    Argument("--long-one", Kind.FLAG),
)
# click and getopt have no such options.
MANY = (
    Argument("--maybe", fewest=0),
    Argument("--tags", most=None),
    Argument("--any", Kind.INT, fewest=0, most=None),
    Argument("-long"),
    Argument("-lot", Kind.INT),
    Argument("-1", Kind.FLAG),
)
PLACES = (
    (),
    (Argument("a"),),
    (Argument("a", Kind.INT), Argument("b", fewest=0)),
    (Argument("a", fewest=0), Argument("b")),
    (Argument("a"), Argument("rest", fewest=0, most=None)),
    (Argument("rest", fewest=1, most=None), Argument("b")),
    (Argument("two", fewest=2, most=2),),
)
PLAIN = """
--limit --limit=5 --limit= --lim --li=3 -n -n5 -n=5 -nx --sql --sql=x --sql=-x -s -sx -s=x -vs
--ratio --ratio=1e3 --format --format=csv --format=xml --form json csv --pair --pair=a -p
--tag --tag=1 --tag=x --verbose --verbose=1 --ver -v -vq -qv -vqn5 -vx -q --quiet --long-one
--long --nope --nope=1 -x - -- -5 -.5 5 7 x y --help -h list add --json --csv + ++x /x
-= -=x --= --=x ---v -n= -v= --maybe --maybe=x --tags --tags=a --any --any=5 -long -lon -lo -lot
-long=3 -lo5 -1 -5x 1_0
"""
WORDS = [*PLAIN.split(), "", "a b", "--sql=a b", "-x y", "--no such", "- x"]


def drawn(rng: random.Random, parser: Parser) -> tuple[list[Argument], tuple[Argument, ...], bool]:
    """Options, each required or not, positionals, and whether there are sub-commands."""
    is_argparse = parser is Parser.ARGPARSE
    options = []
    for each in rng.sample((*OPTIONS, *MANY) if is_argparse else OPTIONS, rng.randrange(5)):
        may_be_required = is_argparse or each.kind is not Kind.FLAG
        options.append(replace(each, required=may_be_required and rng.random() < 0.2))
    return options, rng.choice(PLACES), rng.random() < 0.3


def words(rng: random.Random, options: Sequence[Argument], places: Sequence[Argument]) -> list[str]:
    """A line that often fits, and a slip or two."""
    groups = [_given(rng, each) for each in options if each.required or rng.random() < 0.5]
    groups += [_values(rng, each) for each in places]
    rng.shuffle(groups)
    line = [word for group in groups for word in group]
    if rng.random() < 0.4:
        line.append(rng.choice(("list", "add")))
    for word in rng.choices(WORDS, k=rng.choice((0, 0, 1, 1, 2, 3))):
        line.insert(rng.randrange(len(line) + 1), word)
    return line


def _given(rng: random.Random, option: Argument) -> list[str]:
    name = rng.choice((option.name, *option.aliases))
    return [name] if option.kind is Kind.FLAG else [name, *_values(rng, option)]


def _values(rng: random.Random, argument: Argument) -> list[str]:
    likely = argument.choices or {Kind.INT: ("5", "-5", "x"), Kind.FLOAT: ("5", "-.5")}.get(
        argument.kind, ("x", "y z", "-x", "", "5")
    )
    count = rng.randrange(3) if argument.most is None else argument.fewest or rng.randrange(2)
    return rng.choices(likely, k=count)


SUB = (Argument("--limit", Kind.INT, aliases=("-n",)), Argument("--all", Kind.FLAG))


def line_of(
    parser: Parser,
    options: Sequence[Argument],
    places: tuple[Argument, ...],
    *,
    deep: bool,
    **more: Any,
) -> CommandLine:
    commands = {"list": CommandLine.of(SUB, (), parser=parser, **more)} if deep else {}
    return CommandLine.of(options, places, commands, parser=parser, **more)


Accepts = Callable[[list[str]], bool]
_TYPES = {Kind.INT: int, Kind.FLOAT: float}


def argparse_of(
    options: Sequence[Argument],
    places: Sequence[Argument],
    *,
    deep: bool,
    groups: Sequence[OneOf] = (),
    **settings: Any,
) -> Accepts:
    made = argparse.ArgumentParser(prog="x", **settings)
    grouped = {}
    for each in groups:
        owner = made.add_mutually_exclusive_group(required=each.required)
        grouped |= dict.fromkeys(each.names, owner)
    for option in options:
        owner = grouped.get(option.name, made)
        if option.kind is Kind.FLAG:
            owner.add_argument(
                option.name, *option.aliases, action="store_true", required=option.required
            )
        else:
            owner.add_argument(
                option.name, *option.aliases, required=option.required, **_typed(option)
            )
    for place in places:
        made.add_argument(place.name, **_typed(place))
    if deep:
        below = made.add_subparsers(required=True, dest="c").add_parser("list", **settings)
        below.add_argument("--limit", "-n", type=int)
        below.add_argument("--all", action="store_true")
    return lambda argv: _ends_well(lambda: made.parse_args(argv))


def _typed(argument: Argument) -> dict[str, Any]:
    nargs = {(1, 1): None, (0, 1): "?", (0, None): "*", (1, None): "+"}.get(
        (argument.fewest, argument.most), argument.fewest
    )
    if argument.is_rest:
        nargs = "..."
    return {
        "nargs": nargs,
        "type": _TYPES.get(argument.kind, str),
        "choices": argument.choices or None,
    }


def click_of(options: Sequence[Argument], places: Sequence[Argument], *, deep: bool) -> Accepts:
    return _of_click(
        options, places, deep, click.Command, click.Group, click.Option, click.Argument
    )


def typer_of(options: Sequence[Argument], places: Sequence[Argument], *, deep: bool) -> Accepts:
    def option(names: list[str], **more: Any) -> TyperOption:
        return TyperOption(param_decls=names, **more)

    def place(names: list[str], **more: Any) -> TyperArgument:
        return TyperArgument(param_decls=names, **more)

    return _of_click(options, places, deep, TyperCommand, TyperGroup, option, place)


def _of_click(
    options: Sequence[Argument],
    places: Sequence[Argument],
    deep: bool,  # noqa: FBT001
    command: Any,
    group: Any,
    option: Any,
    place: Any,
) -> Accepts:
    choice = TyperChoice if command is TyperCommand else click.Choice

    def kind(argument: Argument) -> Any:
        return choice(argument.choices) if argument.choices else _TYPES.get(argument.kind, str)

    def params(given: Sequence[Argument]) -> list[Any]:
        return [
            option([each.name, *each.aliases], is_flag=True)
            if each.kind is Kind.FLAG
            else option(
                [each.name, *each.aliases],
                type=kind(each),
                nargs=each.fewest,
                required=each.required,
                multiple=bool(each.repeatable),
            )
            for each in given
        ]

    def positional(each: Argument) -> Any:
        nargs = -1 if each.most is None else max(each.fewest, 1)
        return place([each.name], type=kind(each), nargs=nargs, required=each.fewest > 0)

    all_params = [*params(options), *map(positional, places)]
    if deep:
        below = command(name="list", params=params(SUB), callback=lambda **_: None)
        made = group(
            name="x", params=all_params, commands={"list": below}, callback=lambda **_: None
        )
    else:
        made = command(name="x", params=all_params, callback=lambda **_: None)
    return lambda argv: _ends_well(lambda: made.main(argv, prog_name="x", standalone_mode=True))


def getopt_of(options: Sequence[Argument], places: Sequence[Argument], *, deep: bool) -> Accepts:
    """What gnu_getopt takes, and no positional misses or exceeds."""
    del places, deep
    every = [name for each in options for name in (each.name, *each.aliases)]
    takes = {
        name: each.kind is not Kind.FLAG for each in options for name in (each.name, *each.aliases)
    }
    short = "".join(name[1:] + ":" * takes[name] for name in every if not name.startswith("--"))
    long = [name[2:] + "=" * takes[name] for name in every if name.startswith("--")]

    def accepts(argv: list[str]) -> bool:
        try:
            getopt.gnu_getopt(argv, short, long)
        except getopt.GetoptError:
            return False
        return True

    return accepts


def _ends_well(act: Callable[[], object]) -> bool:
    quiet = io.StringIO()
    with contextlib.redirect_stderr(quiet), contextlib.redirect_stdout(quiet):
        try:
            act()
        except SystemExit as end:
            return not end.code
    return True


def differences(parser: Parser, lines: int, seed: int = 0) -> list[tuple[object, ...]]:
    """The lines on which we and the real parser part."""
    rng = random.Random(seed)
    found: list[tuple[object, ...]] = []
    for _ in range(lines // 8):
        options, places, deep = drawn(rng, parser)
        options, places, deep, accepts = _fitting(parser, options, places, deep)
        line = line_of(parser, options, places, deep=deep)
        for _ in range(8):
            argv = words(rng, options, places)
            if parser is Parser.ARGPARSE and not _is_told(argv):
                continue
            ours = misuse(line, argv, 0, dynamic=(), root="/w")
            if (ours is None) != accepts(argv) and not _is_later(parser, ours, options, places):
                found.append(
                    (argv, ours, [o.name for o in options], [p.name for p in places], deep)
                )
    return found


def _fitting(
    parser: Parser,
    options: list[Argument],
    places: tuple[Argument, ...],
    deep: bool,  # noqa: FBT001
) -> tuple[list[Argument], tuple[Argument, ...], bool, Accepts]:
    if parser is Parser.GETOPT:
        options = [
            Argument(o.name, o.kind if o.kind is Kind.FLAG else Kind.STR, aliases=o.aliases)
            for o in options
        ]
        places, deep = (Argument("rest", fewest=0, most=None),), False
    if deep and any((each.fewest, each.most) != (1, 1) for each in places):
        places = ()  # no parser of these says clearly which word the sub-command is
    make = {Parser.ARGPARSE: argparse_of, Parser.CLICK: click_of, Parser.TYPER: typer_of}
    return options, places, deep, make.get(parser, getopt_of)(options, places, deep=deep)


def _is_told(argv: list[str]) -> bool:
    """Not what the reader is stricter about, and says so: a `--`, and what help would forgive."""
    return not any(word.endswith("--") or word in {"--help", "-h"} for word in argv)


# What the argparse of this Python takes and that of 3.11 does not: it deals out an optional
# positional behind an option too, and counts a word with a dash as one of several values.
LATER_PLACES = argparse_of(OPTIONS[-1:], PLACES[4], deep=False)(["x", "--long-one", "y"])
LATER_VALUES = argparse_of((OPTIONS[4],), (), deep=False)(["--pair", "5", "-x"])


def _is_later(
    parser: Parser, ours: Misuse | None, options: Sequence[Argument], places: Sequence[Argument]
) -> bool:
    """We say no where 3.11 does: no verdict depends on the Python that judges."""
    if parser is not Parser.ARGPARSE or ours is None:
        return False
    too_many = LATER_PLACES and ours.hint.endswith("is one word too many")
    too_few = LATER_VALUES and ours.hint.startswith("--pair needs")
    return (too_many and any(place.fewest == 0 for place in places)) or (
        too_few and any(option.name == "--pair" for option in options)
    )


@pytest.mark.parametrize("parser", [Parser.ARGPARSE, Parser.CLICK, Parser.TYPER, Parser.GETOPT])
def test_each_parser_takes_the_lines_that_we_take(parser: Parser) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert differences(parser, LINES) == []


GROUPS = (OneOf(("--a", "--b"), required=True), OneOf(("--c", "-d")))
FLAGS = [Argument(name, Kind.FLAG) for name in ("--a", "--b", "--c", "-d")]
FLAG_WORDS = """
--a --b --c -d --aa x --n=5 --nu=5 +x +x=3 ++help -lon -lo -lot -l -l1 -l1=x -long=3 -lo5 v -v
-vqn5 -vqnx -vx -qn 5
"""


FULL = {"abbreviations": False}, {"allow_abbrev": False}
BOTH = {"prefix": "-+"}, {"prefix_chars": "-+"}
PLUS = {"prefix": "+"}, {"prefix_chars": "+"}
REST = Argument("rest", fewest=0, most=None, is_rest=True)


@pytest.mark.parametrize(
    ("options", "places", "more", "settings"),
    [
        (FLAGS, (), {"groups": GROUPS}, {}),
        ([Argument("--num", Kind.INT), *FLAGS], (), *FULL),
        ([Argument("+x", fewest=0), *FLAGS[:1]], (Argument("p"),), *BOTH),
        ([Argument("++num"), Argument("+x")], (), *PLUS),
        (FLAGS, (Argument("p"), REST), {}, {}),
        (FLAGS, (Argument("p"),), {"helps": ()}, {"add_help": False}),
        ([replace(FLAGS[0], required=True), *FLAGS[1:3]], (), {}, {}),
        ([Argument("-long"), Argument("-lot", Kind.INT), Argument("-l1", Kind.FLAG)], (), {}, {}),
        ([OPTIONS[0], *OPTIONS[6:8]], (), {}, {}),  # letters that may stand in one word
    ],
)
def test_what_argparse_can_be_told_is_read_alike(options, places, more, settings) -> None:
    rng = random.Random(5)
    line = CommandLine.of(options, places, **more)
    accepts = argparse_of(options, places, deep=False, groups=more.get("groups", ()), **settings)
    for _ in range(4 * LINES):
        argv = rng.choices(FLAG_WORDS.split(), k=rng.randrange(4))
        if "++help" in argv[1:]:  # it forgives what stands before it
            continue
        ours = misuse(line, argv, 0, dynamic=(), root="/w")
        assert (ours is None) == accepts(argv), (argv, ours)


GO = CommandLine.of(
    [Argument("-n", Kind.INT), Argument("--json", Kind.FLAG), Argument("-r", Kind.FLOAT)],
    (Argument("rest", fewest=0, most=None),),
    parser=Parser.GO,
)
NONE = CommandLine.of((), (Argument("a"), Argument("b", fewest=0)), parser=Parser.NONE)
CLICK = CommandLine.of(
    [Argument("--limit", Kind.INT, repeatable=False), Argument("--mode", fewest=0)],
    (),
    {"list": CommandLine.of(parser=Parser.CLICK)},
    parser=Parser.CLICK,
    command_optional=True,
)
PAIR = CommandLine.of((), (Argument("two", fewest=2, most=2),), parser=Parser.CLICK)
BELOW = CommandLine.of((), (Argument("a"),), {"list": CommandLine.of()}, parser=Parser.CLICK)
TREE = CommandLine.of(commands={"list": CommandLine.of()}, command_optional=True)


@pytest.mark.parametrize(
    ("line", "words", "hint"),
    [
        (GO, "-n 5 -json x -n y", ""),
        (GO, "--n=5 -json=false", ""),
        (GO, "-- -n", ""),
        (GO, "-h", ""),
        (GO, "-json=5", "--json takes no value"),
        (GO, "-n", "-n needs a value"),
        (GO, "-nn 5", "there is no option -nn: did you mean -n?"),
        (GO, "-= x", "- could be more than one option: write it out"),
        (GO, "-n 08", "-n must be a whole number, not '08'"),
        (GO, "-n 9223372036854775808", "-n must be a whole number, not '9223372036854775808'"),
        (GO, "-n \u0663", "-n must be a whole number, not '\u0663'"),
        (GO, "-r 1e999", "-r must be a number, not '1e999'"),
        (GO, "-r 0x1p99999", "-r must be a number, not '0x1p99999'"),
        (GO, "-r 0x1p-2 -r inf -n 017", ""),
        (NONE, "--x -- ", ""),
        (NONE, "--", ""),
        (NONE, "a b c", "'c' is one word too many"),
        (CLICK, "", ""),
        (CLICK, "--mode --limit 3 list", ""),
        (CLICK, "--mode x list", ""),
        (CLICK, "--limit 3 --limit 4", "--limit may be given once only"),
        (CLICK, "-- --help", ""),
        (CLICK, "lis", "there is no sub-command lis: did you mean list?"),
        (CLICK, "list --limit", "--limit does not belong here, but to another sub-command"),
        (PAIR, "x --help", "two needs 2 values"),
        (PAIR, "--help", ""),
        (BELOW, "x --help", ""),
        (BELOW, "x --help --ver list", "there is no sub-command --help: use list"),
        (TREE, "", ""),
        (TREE, "lis", "there is no sub-command lis: did you mean list?"),
    ],
)
def test_what_no_parser_here_can_tell_stands_in_a_table(line, words, hint) -> None:
    found = misuse(line, words.split(), 0, dynamic=(), root="/w")
    assert (found.hint if found else "") == hint


@pytest.mark.timeout(60)
def test_earlier_values_are_forgotten_once() -> None:
    """Looked for at each option, they would take minutes."""
    options = [Argument("-t", Kind.INT, repeatable=True), Argument("-l", Kind.INT)]
    line = CommandLine.of(options, parser=Parser.CLICK)
    words = [*["-lx"] * 60_000, *["-t1"] * 60_000, *["-l1"] * 60_000, "-tx"]
    found = misuse(line, words, 0, dynamic=(), root="/w")
    assert found
    assert found.hint == "-t must be a whole number, not 'x'"


def test_what_the_package_flag_of_go_said() -> None:
    """By `go run` of the program beside its lines, Go 1.27."""
    for told in (Path(__file__).parent / "go_flag" / "lines.jsonl").read_text().splitlines():
        one = json.loads(told)
        options = [Argument(f"--{name}", Kind(kind)) for name, kind in one["options"].items()]
        rest = (Argument("rest", fewest=0, most=None),)
        line = CommandLine.of(options, rest, parser=Parser.GO)
        ours = misuse(line, one["words"], 0, dynamic=(), root="/w")
        assert (ours is None) is one["taken"], (one, ours)


def test_an_option_may_be_for_once_only() -> None:
    line = CommandLine.of([Argument("--a", Kind.FLAG, repeatable=False)])
    found = misuse(line, ["--a", "--a"], 0, dynamic=(), root="/w")
    assert found
    assert found.hint == "--a may be given once only"


# What argparse does, by tables.


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
DEEP = CommandLine.of(
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
SPLIT = CommandLine.of([option("-v", Kind.FLAG)], (Argument("a"), Argument("b", fewest=0)))


def test_help_ends_the_reading() -> None:
    assert misuse(DEEP, ["add", "--help", "anything", "--nope"], 0, dynamic=(), root="/w") is None
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
    options = list(FLAT.options.values())[2:]
    accepts = argparse_of(list(dict.fromkeys(options)), FLAT.positionals, deep=False)
    line = CommandLine.of(options, FLAT.positionals)
    assert (misuse(line, argv, 0, dynamic=(), root="/w") is None) == accepts(argv)


@pytest.mark.parametrize(
    ("line", "argv", "hint"),
    [
        (FLAT, ["a", "--", "b", "--"], "-- may be given once only"),
        (DEEP, ["--", "list"], "-- may not stand before a sub-command"),
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
    assert misuse(DEEP, ["x*", "list"], 1, dynamic={0}, root="/w") is None


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for each in (Parser.ARGPARSE, Parser.CLICK, Parser.TYPER, Parser.GETOPT):
        wrong = differences(each, int(sys.argv[1]))
        sys.stdout.write(f"{each.value}: {len(wrong)} of {sys.argv[1]} lines differ {wrong[:3]}\n")
