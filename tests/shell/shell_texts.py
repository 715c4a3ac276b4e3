"""Shell texts made by chance: a grammar of what agents write, and mutations that bend it."""

import random

PROGRAMS = ["ls", "git", "cat", "./run.sh", "python3", "echo", "[", "eval", "rm", "printf", "a.b"]
WORDS = ["-la", "src/x.py", "a", "--opt=v", "HEAD~1", "'a b'", '"x y"', "'a|b'", '"a && b"', "''"]
WORDS += ["*.py", "~", "a\\ b", "x=1", "a:~/b", "{}", "[a]", "#x", "a#b", '"$"', "'$x'", "\\;", "!"]
WORDS += ['"a\\"b"', '"\\$x"', "c[", "\u00e9", "'\u65e5'", "if", "}", "a'b'\"c\"d", '"^a$"', "e$"]
JOINTS = [" | ", " && ", " || ", "; ", "\n", " & ", " |& ", ";\n", " ||\n", "|"]
REDIRECTS = [" 2>/dev/null", " > out", " 2>&1", " &> out", " < /dev/null", " <<< 'x y'", " >&2"]
REDIRECTS += [" >| out", " 2>> err", " 3>&1", " >out a", " <<'E'\n$x\nE\n", " <<E\nx $ y\nE\n"]
TOKENS = [*" \t\n\\'\"$`|&;()<>{}[]*?~#!=-%^,:.0129aE/@+", "\\\n", "$(", "${", "$'", '$"']
TOKENS += ["..", "&&", "||", ">&", "<<", "2>", "{a,b}", "{1..3}", "\\\\", "''", '""', "E\n", "if "]
TOKENS += ["time ", "[[ ", "((", "\r", "\v", "\f", "\x01", "\x7f", "\u00a0", "\u2028", "\u0300"]
TOKENS += ["=~", ":~", "a=(", "a[", "function ", "coproc ", "}", "-", "\\E", "<(", "<<-", "; }"]


def simple(chance: random.Random) -> str:
    """One simple command in the style of agents, sometimes with odd blanks and comments."""
    blank = chance.choice([" ", " ", " ", "  ", "\t", " \\\n", "\\\n "])
    words = [chance.choice(PROGRAMS), *chance.choices(WORDS, k=chance.randrange(6))]
    ending = chance.choice(["", "", "", " ", "\n", " # why", " \\\n"])
    return chance.choice(["", "", "", " ", "\n", "# c\n"]) + blank.join(words) + ending


def joined(chance: random.Random, depth: int = 2) -> str:
    """Simple commands with redirects and assignments, joined, grouped and substituted."""
    parts = []
    for _ in range(chance.randrange(1, 4)):
        part = simple(chance).replace(" # why", "")
        if chance.random() < 0.4:
            part += chance.choice(REDIRECTS)
        if chance.random() < 0.15:
            part = chance.choice(["A=1 ", "B='x y' ", "C+=~ "]) + part
        if depth and chance.random() < 0.2:
            opening, closing = chance.choice([("(", ")"), ("{ ", "; }"), ("{\n", "\n}")])
            part = opening + joined(chance, depth - 1) + closing
        elif depth and chance.random() < 0.15:
            mark = chance.choice(["", '"'])
            part += f" {mark}$({joined(chance, depth - 1)}){mark}"
        parts.append(part)
    return "".join(p + chance.choice(JOINTS) for p in parts[:-1]) + parts[-1]


def mutated(text: str, chance: random.Random) -> str:
    """The text with a few tokens put in, taken out, doubled or moved."""
    for _ in range(chance.randrange(1, 4)):
        place = chance.randrange(len(text) + 1)
        other = chance.randrange(len(text) + 1)
        match chance.randrange(5):
            case 0 | 1:
                text = text[:place] + chance.choice(TOKENS) + text[place:]
            case 2:
                text = text[:place] + text[place + 1 :]
            case 3:
                text = text[:place] + chance.choice(TOKENS) + text[place + 1 :]
            case _:
                text = text[:place] + text[min(place, other) : max(place, other)] + text[place:]
    return text
