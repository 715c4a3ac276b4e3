"""Projects as a hostile stranger shares them: viewing one must touch nothing outside it.

Each is the scenario that `scenarios new` writes, with one thing spoilt. Viewing it reads its
scenario, arms, word lists and allow list, builds its task instance and prints that. It must end in
time, with one line of error or a harmless instance. A home folder with a victim's files must stay
unchanged.
"""

import hashlib
import os
import socket
import sqlite3
import stat
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from agenteval.config.allowlists import load_policy
from agenteval.config.files import shipped
from agenteval.config.prompts import arms
from agenteval.config.scenarios import load_fixture, load_scenarios
from agenteval.errors import UsageError
from agenteval.host import temporary_folder
from agenteval.workflows.author import tables, write_skeleton
from agenteval.workflows.hostile import Tried

NAME: Final = "mine/one"
HARMLESS: Final = "^a world of"
LINK, SPENT = "is a link", "takes more than|needs more than|of more than"
DENIED, LARGE, KIND = "may not use", "is larger than", "only regular files are read"
_SPARSE = 10 << 30
_PLANTED: Final = {
    ".bashrc": "# the victim's\n",
    ".aws/credentials": "not-a-real-secret\n",
    "notes.toml": 'description = "private words"\n',
}
Spoil = Callable[[Path, Path], None]  # of a project; the second is the victim's home


@dataclass(frozen=True, slots=True)
class Hostile:
    """The damage to a project, and the pattern that the result of viewing it must match."""

    expected: str
    spoil: Spoil
    is_slow: bool = False  # it ends by the processor time that it may use


def _file(path: str, *, change: Callable[[str], str]) -> Spoil:
    def spoil(project: Path, home: Path) -> None:
        file = project / path
        text = file.read_text(encoding="utf-8") if file.exists() else ""
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(change(text).replace("HOME", str(home)), encoding="utf-8")

    return spoil


WORLD, FILES = "fixtures/mine-one/world.sql", "fixtures/mine-one/files"
SCENARIO = "scenarios/mine/one/scenario.toml"
INSTRUCTIONS = "scenarios/mine/one/instructions.md"
ALLOWLIST, ARM, WORDS = "allowlists/mine-one.toml", "arms/mine.toml", "scenarios/words.toml"


def _sql(script: str) -> Spoil:
    return _file(WORLD, change=lambda text: f"{text}\n{script}")


def _task(template: str) -> Spoil:
    return _file(INSTRUCTIONS, change=lambda text: f"{text}\n{template}\n")


def _key(before: str, after: str) -> Spoil:
    return _file(SCENARIO, change=lambda text: text.replace(before, after))


def _text(path: str, content: str) -> Spoil:
    return _file(path, change=lambda _: content)


def _link(path: str, target: str) -> Spoil:
    """A link in the place of a file, or of a folder with all that is in it."""

    def spoil(project: Path, home: Path) -> None:
        place = project / path
        place.parent.mkdir(parents=True, exist_ok=True)
        if place.exists():
            place.rename(home.parent / f"moved-{place.name}")
        aim = target.replace("HOME", str(home)).replace("MOVED", str(home.parent / "moved"))
        place.symlink_to(aim)

    return spoil


def _placed(path: str, make: Callable[[Path], object]) -> Spoil:
    def spoil(project: Path, _home: Path) -> None:
        place = project / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.unlink(missing_ok=True)
        make(place)

    return spoil


def _listen(place: Path) -> None:
    before = Path.cwd()
    os.chdir(place.parent)  # the path of a socket has few characters
    with closing(socket.socket(socket.AF_UNIX)) as listening:
        listening.bind(place.name)
    os.chdir(before)


def _sparse(place: Path) -> None:
    with place.open("wb") as file:
        file.truncate(_SPARSE)


def _device(kind: int, major: int, minor: int) -> Callable[[Path], None]:
    return lambda place: os.mknod(place, kind | 0o666, os.makedev(major, minor))


def _many(place: Path) -> None:
    place.mkdir()
    for number in range(10_001):
        (place / str(number)).touch()


def _deep(place: Path) -> None:
    (place / "/".join(["d"] * 40)).mkdir(parents=True)
    (place / "/".join(["d"] * 40) / "file").touch()


def _database(place: Path) -> None:
    """An image whose goal is a view without end, in the place of a script."""
    with closing(sqlite3.connect(place)) as connection:
        connection.execute(
            "CREATE VIEW chores AS WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 "
            "FROM n) SELECT id, 'x' AS text, 1 AS done FROM n"
        )
        connection.commit()


ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"
_NUMBER = "number = \"SELECT id FROM chores WHERE text = '{{ chore }}'\""
_GOAL = "SELECT group_concat(id) FROM chores WHERE done = 1"

# SQL that reaches for files, or takes too much.
SCRIPTS: Final[Mapping[str, Hostile]] = {
    "ATTACH of the victim's database": Hostile(
        DENIED, _sql("ATTACH 'HOME/victim.db' AS v; UPDATE v.t SET secret = 'overwritten';")
    ),
    "ATTACH of a new file": Hostile(
        DENIED, _sql("ATTACH 'HOME/.profile' AS v; CREATE TABLE v.t (x);")
    ),
    "ATTACH by a template": Hostile(DENIED, _sql("{{ 'ATT' ~ 'ACH' }} 'HOME/n.db' AS v;")),
    "DETACH": Hostile("no such database|may not use|cannot detach", _sql("DETACH v;")),
    "VACUUM INTO": Hostile("denied|authorized|attached", _sql("VACUUM INTO 'HOME/v.db';")),
    "load_extension": Hostile(
        f"{DENIED}|no such function", _sql("SELECT load_extension('HOME/x.so');")
    ),
    "readfile and writefile": Hostile(
        "no such function", _sql("SELECT writefile('HOME/w', readfile('HOME/.bashrc'));")
    ),
    "fts3_tokenizer": Hostile(
        f"{DENIED}|no such function", _sql("SELECT fts3_tokenizer('simple', x'00');")
    ),
    "a virtual table": Hostile(
        f"{DENIED}|no such module", _sql("CREATE VIRTUAL TABLE f USING fts5(x);")
    ),
    "a table of the file system": Hostile(
        f"{DENIED}|no such", _sql("SELECT * FROM fsdir('HOME');")
    ),
    "a folder for temporary files": Hostile(DENIED, _sql("PRAGMA temp_store_directory = 'HOME';")),
    "a journal": Hostile(DENIED, _sql("PRAGMA journal_mode = WAL;")),
    "more pages": Hostile(DENIED, _sql("PRAGMA max_page_count = 99999999;")),
    "a schema that is written to": Hostile(
        DENIED, _sql("PRAGMA writable_schema = ON; DELETE FROM sqlite_master;")
    ),
    "one blob of 300 MB": Hostile(
        "too big", _sql("CREATE TABLE b AS SELECT zeroblob(300000000) z;")
    ),
    "a hundred blobs": Hostile(
        "full|memory|more than",
        _sql(
            "CREATE TABLE b AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n "
            "LIMIT 100) SELECT zeroblob(9000000) z FROM n;"
        ),
    ),
    "a text that is padded": Hostile(
        f"too big|{SPENT}", _sql("SELECT printf('%.*c', 999999999, 'a');"), is_slow=True
    ),
    "a query without end": Hostile(SPENT, _sql(f"{ENDLESS};")),
    "a trigger of itself": Hostile(
        "makes no database|^a world of",
        _sql(
            "PRAGMA recursive_triggers = ON; CREATE TABLE r (x); CREATE TRIGGER g AFTER INSERT "
            "ON r BEGIN INSERT INTO r VALUES (1); END; INSERT INTO r VALUES (1);"
        ),
    ),
    "an expression of 5,000 levels": Hostile(
        "makes no database", _sql(f"SELECT {'(' * 5000}1{')' * 5000};")
    ),
    "chance of its own": Hostile(DENIED, _sql("CREATE TABLE c AS SELECT random() AS x;")),
    "a script of 20 MB": Hostile(
        "too large|too big|more than", _sql("{{ 'SELECT 1;' * 2300000 }}")
    ),
    "[ask] that loads": Hostile(
        "ask.number", _key(_NUMBER, "number = \"SELECT load_extension('HOME/x.so')\"")
    ),
    "[ask] that attaches": Hostile(
        "ask.number", _key(_NUMBER, "number = \"ATTACH 'HOME/victim.db' AS v\"")
    ),
    "[ask] without end": Hostile(SPENT, _key(_NUMBER, f'number = "{ENDLESS}"'), is_slow=True),
    "a goal that attaches": Hostile("goal.0.query", _key(_GOAL, "ATTACH 'HOME/n.db' AS v")),
    "a goal without end": Hostile(SPENT, _key(_GOAL, ENDLESS), is_slow=True),
    "a database whose view has no end": Hostile(
        f"{SPENT}|no world to ask|^a world of",
        _placed(f"{FILES}/data/world.db", _database),
    ),
}

# Templates that reach behind their words, or take too much.
_ROUNDS = "{% for a in range(99999) %}" * 3 + "{% endfor %}" * 3
_MACRO = "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"
_DOUBLE = "{% set n = namespace(a='x') %}{% for i in range(60) %}{% set n.a = n.a ~ n.a %}"
TEMPLATES: Final[Mapping[str, Hostile]] = {
    "loops without end": Hostile(SPENT, _task(_ROUNDS)),
    "a word a billion times": Hostile(SPENT, _task("{{ 'x' * 10**9 }}")),
    "a list a billion times": Hostile(SPENT, _task("{{ ([0] * 10**9) | length }}")),
    "a word of 50 MB": Hostile(SPENT, _task("{{ 'x' * 50000000 }}")),
    "doubled words": Hostile(SPENT, _task(_DOUBLE + "{% endfor %}{{ n.a }}")),
    "a padded word": Hostile(SPENT, _task("{{ '%999999999d' | format(1) }}")),
    "a centred word": Hostile(SPENT, _task("{{ 'x' | center(999999999) }}")),
    "a power of powers": Hostile(SPENT, _task("{{ 9 ** (9 ** 9) }}"), is_slow=True),
    "a macro of itself": Hostile("RecursionError|more than|exit|signal", _task(_MACRO)),
    "words of a thousand books": Hostile(
        SPENT, _task("{{ lipsum(999999, max=99999) }}"), is_slow=True
    ),
    "10,000 brackets": Hostile(
        "instructions.md", _task("{{ " + "(" * 10_000 + "1" + ")" * 10_000 + " }}")
    ),
    "what lies behind a word": Hostile("unsafe", _task("{{ ''.__class__.__mro__ }}")),
    "a format that looks behind": Hostile(
        "unsafe|undefined|Error", _task("{{ '{0.__class__.__init__}'.format(chore) }}")
    ),
    "an included file": Hostile("TemplateNotFound", _task("{% include '/etc/passwd' %}")),
    "a query that loops": Hostile(SPENT, _key(_GOAL, _ROUNDS + _GOAL), is_slow=True),
}

# Links at each level, and what is no file.
LINKS: Final[Mapping[str, Hostile]] = {
    "a link to a file": Hostile(LINK, _link(f"{FILES}/tips.md", "HOME/.aws/credentials")),
    "a link to a folder": Hostile(LINK, _link(f"{FILES}/tips", "HOME/.aws")),
    "a link to the environment": Hostile(LINK, _link(f"{FILES}/env", "/proc/self/environ")),
    "a link to a device": Hostile(LINK, _link(f"{FILES}/zero", "/dev/zero")),
    "a link that leads nowhere": Hostile(LINK, _link(f"{FILES}/gone", "nowhere")),
    "a link to itself": Hostile(LINK, _link(f"{FILES}/loop", "loop")),
    "files that are a link": Hostile(LINK, _link(FILES, "MOVED-files")),
    "a fixture that is a link": Hostile(LINK, _link("fixtures/mine-one", "MOVED-mine-one")),
    "fixtures that are a link": Hostile(LINK, _link("fixtures", "MOVED-fixtures")),
    "a script that is a link": Hostile(LINK, _link(WORLD, "HOME/.bashrc")),
    "a scenario that is a link": Hostile(LINK, _link(SCENARIO, "HOME/notes.toml")),
    "instructions that are a link": Hostile(LINK, _link(INSTRUCTIONS, "HOME/.bashrc")),
    "a group that is a link": Hostile(LINK, _link("scenarios/mine", "MOVED-mine")),
    "an allow list that is a link": Hostile(LINK, _link(ALLOWLIST, "HOME/notes.toml")),
    "an arm that is a link": Hostile(LINK, _link(ARM, "HOME/notes.toml")),
    "words that are a link": Hostile(LINK, _link(WORDS, "HOME/notes.toml")),
    "a FIFO among the files": Hostile(KIND, _placed(f"{FILES}/pipe", os.mkfifo)),
    "a socket among the files": Hostile(KIND, _placed(f"{FILES}/socket", _listen)),
    "a FIFO as a script": Hostile(KIND, _placed(WORLD, os.mkfifo)),
    "a FIFO as a scenario": Hostile(KIND, _placed(SCENARIO, os.mkfifo)),
    "a FIFO as instructions": Hostile(KIND, _placed(INSTRUCTIONS, os.mkfifo)),
    "a FIFO as an arm": Hostile(KIND, _placed(ARM, os.mkfifo)),
    "a FIFO as an allow list": Hostile(KIND, _placed(ALLOWLIST, os.mkfifo)),
    "a FIFO as words": Hostile(KIND, _placed(WORDS, os.mkfifo)),
    "a folder as a scenario": Hostile(
        f"{KIND}|Is a directory|no scenario", _placed(SCENARIO, Path.mkdir)
    ),
}

# Nodes of devices, which only root can make; a clone or an archive that root unpacks has them.
ZERO, DISK = _device(stat.S_IFCHR, 1, 5), _device(stat.S_IFBLK, 7, 0)
DEVICES: Final[Mapping[str, Hostile]] = {
    "a device among the files": Hostile(KIND, _placed(f"{FILES}/zero", ZERO)),
    "a disk among the files": Hostile(KIND, _placed(f"{FILES}/disk", DISK)),
    "a device as a script": Hostile(KIND, _placed(WORLD, ZERO)),
    "a disk as a script": Hostile(KIND, _placed(WORLD, DISK)),
    "a device as a scenario": Hostile(KIND, _placed(SCENARIO, ZERO)),
    "a device as instructions": Hostile(KIND, _placed(INSTRUCTIONS, ZERO)),
    "a device as an arm": Hostile(KIND, _placed(ARM, ZERO)),
    "a device as an allow list": Hostile(KIND, _placed(ALLOWLIST, ZERO)),
    "a device as words": Hostile(KIND, _placed(WORDS, ZERO)),
}


def _makes_devices() -> bool:
    """Return True if a device's node can be made where temporary folders are."""
    with temporary_folder() as folder:
        try:
            ZERO(folder / "zero")
        except OSError:  # an ordinary user, or root of a container
            return False
    return True


_TEST = '[[test]]\nname = "t"\npython = "../../../x.py"\n'

# Files without measure, TOML bombs, paths that lead out, names that are lines.
_DEEP = f"[[goal]]\nname = {'[' * 20_000}"
SIZES_AND_NAMES: Final[Mapping[str, Hostile]] = {
    "a sparse file of 10 GB": Hostile(LARGE, _placed(f"{FILES}/sparse", _sparse)),
    "a sparse scenario of 10 GB": Hostile(LARGE, _placed(SCENARIO, _sparse)),
    "a sparse script of 10 GB": Hostile(LARGE, _placed(WORLD, _sparse)),
    "10,001 files": Hostile("more than 10000 files", _placed(f"{FILES}/many", _many)),
    "40 folders, one in the other": Hostile("folders deep", _placed(f"{FILES}/d", _deep)),
    "TOML of 9 MB": Hostile(LARGE, _file(SCENARIO, change=lambda t: t + "# x\n" * 2_300_000)),
    "TOML of 20,000 levels": Hostile("not valid TOML", _file(SCENARIO, change=lambda _: _DEEP)),
    "a key of 20,000 parts": Hostile(
        "more than 64 parts",
        _file(SCENARIO, change=lambda t: f"{'.'.join('a' * 20_000)} = 1\n{t}"),
    ),
    "a number of 99,999 digits": Hostile(
        "not valid TOML", _key("max_turns = 12", f"max_turns = {'9' * 99_999}")
    ),
    "a variable of 30 digits": Hostile(
        f"scenario.toml|{HARMLESS}", _key("to = 900", f"to = {'9' * 30}")
    ),
    "a fixture outside": Hostile(
        "scenario.toml", _key('fixture = "mine-one"', 'fixture = "../../home"')
    ),
    "an allow list outside": Hostile(
        "scenario.toml", _key('policy = "mine-one"', 'policy = "HOME/notes.toml"')
    ),
    "a database outside": Hostile("scenario.toml", _key('database = "data/', 'database = "../../')),
    "a test outside": Hostile(
        "scenario.toml",
        _file(SCENARIO, change=lambda t: t + '[[test]]\nname = "t"\npython = "../../../x.py"\n'),
    ),
    "an allow list that extends itself": Hostile(
        "extend itself", _file(ALLOWLIST, change=lambda _: 'extends = "mine-one"\n')
    ),
    "an allow list that extends a device": Hostile(
        f"{KIND}|leads out of", _text(ALLOWLIST, 'extends = "/dev/zero"\n')
    ),
    "an allow list that extends what lies outside": Hostile(
        "mine-one.toml|notes.toml", _text(ALLOWLIST, 'extends = "../../../home/notes.toml"\n')
    ),
    "a name of two lines": Hostile("not printed", _placed(f"{FILES}/a\n::warning::b", Path.touch)),
    "a name that drives a terminal": Hostile(
        "not printed", _placed(f"{FILES}/a\x1b]0;b\a", Path.touch)
    ),
    "a name that runs backwards": Hostile(
        "not printed", _placed(f"{FILES}/a\u202etxt.py", Path.touch)
    ),
    "a name that is no text": Hostile("not printed", _placed(f"{FILES}/a\udcff", Path.touch)),
}


def hostile_projects() -> Mapping[str, Hostile]:
    devices = DEVICES if _makes_devices() else {}
    spoilt = {**SCRIPTS, **TEMPLATES, **LINKS, **devices, **SIZES_AND_NAMES}
    return {"nothing is spoilt": Hostile(HARMLESS, lambda *_: None), **spoilt}


def write_hostile(hostile: Hostile, folder: Path) -> tuple[Path, Path]:
    """Write the project and the victim's home into a new folder; both."""
    home, project = folder / "home", folder / "project"
    for path, text in _PLANTED.items():
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_text(text, encoding="utf-8")
    with closing(sqlite3.connect(home / "victim.db")) as victim:
        victim.executescript("CREATE TABLE t (secret); INSERT INTO t VALUES ('private words');")
    project.mkdir()
    (project / "agenteval.toml").touch()
    write_skeleton(NAME, root=project)
    hostile.spoil(project, home)
    return project, home


def snapshot(folder: Path) -> Mapping[str, tuple[object, ...]]:
    """Kind, mode, times and content of all that lies in a folder; a large file by its size."""
    entries: dict[str, tuple[object, ...]] = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        content = ""
        if path.is_file() and not path.is_symlink() and status.st_size < 1 << 24:
            content = hashlib.sha256(path.read_bytes()).hexdigest()
        entries[str(path)] = (status.st_mode, status.st_mtime_ns, status.st_size, content)
    return entries


def try_projects() -> list[Tried]:
    """Each that ends at once is written, looked at, and compared with what it was before."""
    return [
        Tried("project", name, came_of(hostile), hostile.expected)
        for name, hostile in hostile_projects().items()
        if not hostile.is_slow
    ]


def came_of(hostile: Hostile) -> str:
    with temporary_folder() as folder:
        project, home = write_hostile(hostile, folder)
        before = snapshot(folder)
        came = look(project, home)
        with suppress(OSError):
            if snapshot(folder) != before:
                return f"it changed something outside; and {came}"
    return came


def look(project: Path, home: Path) -> str:
    """Return what viewing this scenario prints: its task instance, or the line of an error."""
    where = (project, shipped())
    try:
        (scenario,) = load_scenarios([NAME], roots=where)
        load_policy(scenario.policy, roots=where, by_user=False)
        arms(where)
        files = load_fixture(scenario, 0, roots=where)
        rows = list(tables(files[scenario.database]))
    except UsageError as error:
        lines = str(error).splitlines()
        return lines[0] if len(lines) == 1 else f"{len(lines)} lines: {lines[0]}"
    private = any(str(home) in line or "private words" in line for line in rows)
    return "the victim's words" if private else f"a world of {len(files)} files"
