"""Asks the real harnesses again what they say to the calls in the stored tables, and what changed.

    python tests/ask_dialects.py [DIALECT[@VERSION] ...] [--all] [--write]

Each program is got from npm into a cache (`AGENTEVAL_DIALECTS`, or ~/.cache/agenteval/dialects)
and asked by its `tests/dialects/ask_*.py`: the newest, and of an older series that is kept
too (OpenCode 1.0) the one of the table. Asked are the first CALLS of the SESSIONS that have most,
or with --all everything. --write puts what was said, under the version that said it, in the place
of what the table has. The exit code is 1 when a verdict changed.
"""

import json
import os
import runpy
import shutil
import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agenteval import dialects
from agenteval.dialects.registry import Dialect
from agenteval.dialects.registry import dialects as known_dialects

FOLDER = Path(__file__).with_name("dialects")
CALLS, SESSIONS = 60, 5
PATIENCE = {"npm": 600, "ask": 3600}  # seconds
NEWEST = "latest"
Session = dict[str, Any]


class AbsentError(Exception):
    """A program that can't be had or asked here, and why."""


@dataclass(frozen=True)
class Asked:
    """One program, and the version whose verdicts it is held against."""

    dialect: Dialect
    version: str
    kept: str

    @property
    def script(self) -> Path:
        return FOLDER / f"ask_{self._stem}.py"

    @property
    def table_file(self) -> Path:
        return FOLDER / "verdicts" / f"{self._stem}.json"

    @property
    def _stem(self) -> str:
        return self.dialect.name.replace("-", "_")

    @property
    def table(self) -> list[Session]:
        sessions: list[Session] = json.loads(self.table_file.read_text("utf-8"))
        return sessions


def wanted(given: str) -> Iterator[Asked]:
    name, _, version = given.partition("@")
    dialect = known_dialects()[name]
    series = {".".join(kept.split(".")[:2]): kept for kept in reversed(dialect.checked)}
    if version:
        like = series.get(".".join(version.split(".")[:2]), dialect.checked[0])
        yield Asked(dialect, version, like)
        return
    for number, kept in enumerate(dialect.checked):
        yield Asked(dialect, kept if number else NEWEST, kept)


def got(package: str, version: str, binary: str, cache: Path) -> tuple[Path, str]:
    """The program, fetched when it is not there, and which version it is. Raises AbsentError."""
    if version == NEWEST:
        version = run("npm", "view", package, "version").strip()
    root = cache / f"{package.replace('/', '-')}@{version}"
    modules = root / "node_modules"
    if not list(modules.glob(binary)):
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir(parents=True)
        options = ("--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error")
        run("npm", "install", *options, "--prefix", str(root), f"{package}@{version}")
    found = list(modules.glob(binary))
    if not found:
        raise AbsentError(f"npm has {package}@{version}, but no {binary} in it for this machine")
    return found[0].resolve(), version


def run(*command: str) -> str:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=PATIENCE["npm"], check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise AbsentError(f"{' '.join(command[:2])}: {error}") from error
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no reason given"])[0]
        raise AbsentError(f"{' '.join(command[:2])} ends with {done.returncode}: {last}")
    return done.stdout


def sampled(sessions: list[Session]) -> list[Session]:
    """The beginning of those that have most calls: what a session asks later can hang on it."""
    most = sorted(sessions, key=lambda each: -len(each["verdicts"]))[:SESSIONS]
    return [{**each, "verdicts": each["verdicts"][:CALLS]} for each in most]


def answers(asked: Asked, program: Path, sessions: list[Session]) -> list[list[Any]]:
    try:
        done = subprocess.run(
            [sys.executable, str(asked.script), str(program)],
            input=json.dumps(sessions),
            capture_output=True,
            text=True,
            timeout=PATIENCE["ask"],
            check=True,
        )
    except subprocess.CalledProcessError as error:
        last = (error.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise AbsentError(f"{asked.script.name} ends with {error.returncode}: {last}") from error
    rows: list[list[Any]] = json.loads(done.stdout)
    return rows


def differences(sessions: list[Session], said: list[list[Any]]) -> list[str]:
    """A line for each verdict that is another one now; none for what nothing can be said of."""
    return [
        f"  {tool} {json.dumps(arguments)}: {kept} -> {now}, under {rules(session)}"
        for session, rows in zip(sessions, said, strict=True)
        for (tool, arguments, kept), (*_, now) in zip(session["verdicts"], rows, strict=True)
        if now is not None and now != kept
    ]


def rules(session: Session) -> str:
    text = json.dumps({key: session[key] for key in session if key not in {"version", "verdicts"}})
    return text if len(text) < 200 else f"{text[:200]}..."


def written(sessions: list[Session]) -> str:
    """One line for what a session is about, and one for each of its calls."""
    lines = []
    for session in sessions:
        rows = [json.dumps(row) for row in session["verdicts"]]
        head = json.dumps({**session, "verdicts": []}).removesuffix("]}")
        lines.append(head + "\n" + ",\n".join(rows) + "\n]}")
    return "[\n" + ",\n".join(lines) + "\n]\n"


def renew(asked: Asked, version: str, said: list[list[Any]]) -> None:
    table, fresh = asked.table, iter(said)
    for session in table:
        if session["version"] == asked.kept:
            rows = next(fresh)
            session["verdicts"] = [row for row in rows if row[2] is not None]
            session["version"] = version
    asked.table_file.write_text(written(table), "utf-8")


def ask_again(asked: Asked, cache: Path, *, everything: bool, write: bool) -> int:
    """How many verdicts changed. Raises AbsentError."""
    names = runpy.run_path(str(asked.script))
    program, version = got(names["PACKAGE"], asked.version, names["BINARY"], cache)
    kept = [session for session in asked.table if session["version"] == asked.kept]
    sessions = kept if everything else sampled(kept)
    said = answers(asked, program, sessions)
    found = differences(sessions, said)
    asked_of, all_of = (sum(len(each["verdicts"]) for each in some) for some in (sessions, kept))
    silent = sum(row[2] is None for rows in said for row in rows)
    sys.stdout.write(
        f"{asked.dialect.name} {version}: {len(found)} of {asked_of} verdicts differ from "
        f"{asked.kept} ({all_of} are kept, {silent} could not be told)\n"
    )
    sys.stdout.writelines(f"{line}\n" for line in found)
    if write:
        renew(asked, version, said)
    return len(found)


def main() -> int:
    parser = ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("dialect", nargs="*", default=list(dialects.NAMES))
    parser.add_argument("--all", action="store_true", help="ask about every call that is kept")
    parser.add_argument("--write", action="store_true", help="write the tables anew; with --all")
    options = parser.parse_args()
    if options.write and not options.all:
        parser.error("--write needs --all: half a table would be lost")
    if unknown := {name.partition("@")[0] for name in options.dialect} - set(dialects.NAMES):
        parser.error(f"no dialect {', '.join(unknown)}. Known: {', '.join(dialects.NAMES)}")
    default = Path("~/.cache/agenteval/dialects").expanduser()
    cache = Path(os.environ.get("AGENTEVAL_DIALECTS", default))
    changed = 0
    for asked in (each for given in options.dialect for each in wanted(given)):
        try:
            changed += ask_again(asked, cache, everything=options.all, write=options.write)
        except AbsentError as absent:
            sys.stdout.write(f"{asked.dialect.name} {asked.version}: not asked: {absent}\n")
        sys.stdout.flush()
    return int(bool(changed))


if __name__ == "__main__":
    sys.exit(main())
