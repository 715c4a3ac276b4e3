"""The keys and where each may go, and the projects that the user has confirmed.

A key belongs to an origin: scheme, host and port. `key_for` alone reads a key, and gives it only
for an origin that the user bound it to: on the command line, in the environment, in his own file
(`user_file`), or by confirming the project that names the pair. All else is refused, so that code
that forgets to say where a URL came from sends no key.

The places in which named things are found: the user's project, then what agenteval ships.

A project is a stranger's until the user says otherwise (`config.trust`). The search for one never
uses or crosses a folder that somebody else owns or can write, as git's does since CVE-2022-24765.
"""

import fcntl
import hashlib
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from agenteval.config.beneath import named, printable
from agenteval.config.files import (
    ARMS,
    GATE_FILE,
    LISTS,
    PARTS,
    PROJECT_FILE,
    SCENARIOS,
    Roots,
    announce,
    home,
    is_folder,
    is_hiding,
    note_hidden,
    read_toml,
    shipped,
    stranger,
)
from agenteval.errors import AgentevalError, UntrustedError, UsageError, unwritten
from agenteval.host import read_bytes
from agenteval.trial.text import as_word, is_legible

# Belongs to each URL that the user names himself.
USUAL_KEY = "OPENAI_API_KEY"
URL_VARIABLES = ("AGENTEVAL_BASE_URL", "OPENAI_BASE_URL")
# Digests and absolute paths of projects, for CI.
VARIABLE = "AGENTEVAL_TRUST"
FILE = "trust.toml"
MAX_DIGESTED_FILES = 2000
_PORTS = {"http": 80, "https": 443}
# An origin and a variable.
Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Record:
    """The user's own file."""

    origins: Mapping[str, Sequence[str]] = field(default_factory=dict)  # variables by origin
    projects: Mapping[str, str] = field(default_factory=dict)  # digests by folder
    # Of URLs that a run was given.
    runs: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Claim:
    """A project's file that names an origin and a variable."""

    project: Path
    # Of that file, as it was read.
    content: bytes


# By the user, in this process.
_bound_pairs: set[Pair] = set()
_claims: dict[Pair, _Claim] = {}


def origin_of(url: str) -> str:
    """Return scheme, host and port of a URL, written in one way. Raises ValueError."""
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ValueError(url)
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}:{parts.port or _PORTS[parts.scheme]}"


def bind(urls: str, variable: str = USUAL_KEY) -> None:
    """Note that the user names these URLs, apart by blanks: the variable's key may go there."""
    _bound_pairs.update(_pairs(urls, variable))


def _pairs(urls: str, variable: str) -> set[Pair]:
    return {(origin_of(url), variable) for url in urls.split() if _is_url(url)}


def _is_url(url: str) -> bool:
    try:
        origin_of(url)
    # Which is said where the URL is used.
    except ValueError:
        return False
    return True


def claim(project: Path, content: bytes, pairs: Iterable[Pair]) -> None:
    """Note that a project's file, with this content, names the pairs; that binds nothing yet."""
    _claims.update(dict.fromkeys(pairs, _Claim(project, content)))


def key_for(variable: str, url: str) -> str:
    """Return the key in this variable for this URL; empty if there is none to be sent.

    Raises UntrustedError for a key that a project wants sent and nobody confirmed, and UsageError
    for a server that the user has not named.
    """
    key = os.environ.get(variable, "").strip()
    if not key or may_send(variable, url):
        return key
    origin = origin_of(url)
    if (origin, USUAL_KEY) in _user_pairs() and variable != USUAL_KEY:
        announce(
            f"{variable} is not sent to {origin}: {_whose(variable)} names that variable, and "
            f"nobody confirmed it; `agenteval trust` does"
        )
        return ""
    project_claim = _claims.get((origin, variable))
    if project_claim:
        raise _refusal(project_claim, variable, origin)
    raise UsageError(
        f"{variable} is not sent to {origin}: no configuration of yours names that server. Give "
        f"--base-url {as_word(url)}, or write under [origins] of {user_file()}: "
        f'"{origin}" = ["{variable}"]'
    )


def _refusal(project_claim: _Claim, variable: str, origin: str) -> UntrustedError:
    """One line: what, where, and how to allow it."""
    project = project_claim.project
    folder = as_word(str(project))
    pin = digest(project, project_claim.content)
    return UntrustedError(
        f"{project / PROJECT_FILE}: wants the key in {variable} sent to {origin}, and you have "
        f"not confirmed that; nothing was sent. Look at it: agenteval doctor --project {folder}; "
        f"allow it: agenteval trust {folder}, or in CI {VARIABLE}={pin}",
        str(project),
    )


def may_send(variable: str, url: str) -> bool:
    """Return True if the user bound the variable to the origin of this URL."""
    pair = (origin_of(url), variable)
    if pair in _user_pairs():
        return True
    record = load_record()
    if variable in record.origins.get(pair[0], ()):
        return True
    if project_claim := _claims.get(pair):
        return is_trusted(project_claim.project, project_claim.content)
    if variable in record.runs.get(pair[0], ()):
        return True
    return (pair[0], USUAL_KEY) in _user_pairs() and _is_of_trusted(variable)


def _user_pairs() -> set[Pair]:
    """Return the pairs that the user bound in this process and in its environment."""
    urls = " ".join(os.environ.get(name, "") for name in URL_VARIABLES)
    return _bound_pairs | _pairs(urls, USUAL_KEY)


def _is_of_trusted(variable: str) -> bool:
    """Return True if a confirmed project names the variable, for a URL of the user's."""
    return any(is_trusted(each.project, each.content) for each in _claims_of(variable))


def _whose(variable: str) -> str:
    """Return the file that names the variable."""
    for project_claim in _claims_of(variable):
        return str(project_claim.project / PROJECT_FILE)
    return "no configuration of yours"


def _claims_of(variable: str) -> list[_Claim]:
    return [project_claim for (_, name), project_claim in _claims.items() if name == variable]


def is_trusted(project: Path, content: bytes | None = None) -> bool:
    """Return True if the user confirmed the project as it is, with this agenteval.toml."""
    if project == shipped():
        return True
    pins = _pinned_projects()
    if str(project) in pins:
        return True
    confirmed_digest = load_record().projects.get(str(project))
    digests = {*pins, confirmed_digest} - {None}
    return bool(digests) and digest(project, content) in digests


def _pinned_projects() -> frozenset[str]:
    """Return the digests and folders in AGENTEVAL_TRUST. Raises UsageError for what is neither."""
    words = os.environ.get(VARIABLE, "").replace(",", " ").split()
    for word in words:
        if not word.startswith("sha256:") and not Path(word).is_absolute():
            raise UsageError(
                f"{VARIABLE}={word}: neither a digest (sha256:...) nor an absolute path; "
                "`agenteval doctor --project` prints the digest of a project"
            )
    digests = [word for word in words if not word.startswith("/")]
    folders = [os.path.realpath(word) for word in words if word.startswith("/")]
    return frozenset((*digests, *folders))


def digest(project: Path, content: bytes | None = None) -> str:
    """Return `sha256:` of all that sends or allows.

    That is agenteval.toml, gate.toml, allow lists and arms. `content` stands for that of the first.
    Raises UsageError for more than can be looked at.
    """
    parts = hashlib.sha256()
    for number, path in enumerate(_files(project)):
        if number >= MAX_DIGESTED_FILES:
            raise UsageError(f"{path}: the project is too large to be confirmed: remove this file")
        is_read = content is not None and path == project / PROJECT_FILE
        whole = content if is_read and content is not None else _content(path)
        name = os.fsencode(path.relative_to(project))
        parts.update(b"%d %d " % (len(name), len(whole)) + name + whole)
    return f"sha256:{parts.hexdigest()}"


def _files(project: Path) -> Iterator[Path]:
    for name in (PROJECT_FILE, GATE_FILE):
        if os.path.lexists(project / name):
            yield project / name
    for folder in (project / LISTS, project / ARMS):
        yield from sorted(islice(named(folder, ".toml"), MAX_DIGESTED_FILES + 1))


def _content(path: Path) -> bytes:
    """Return the bytes of a regular file; nothing of a device or a pipe."""
    try:
        return read_bytes(path) if path.is_file() else b""
    except OSError:
        return b""


def user_file() -> Path | None:
    """Return `$XDG_CONFIG_HOME/agenteval/trust.toml`; None if no absolute path is known for it."""
    config_home = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    # XDG: a relative one, which would be a project's, does not count.
    if config_home.is_absolute():
        return Path(config_home, "agenteval", FILE)
    base = home()
    return base / ".config" / "agenteval" / FILE if base else None


def load_record() -> Record:
    """Return the record in the user's own file.

    Empty if there is no such file, or others can write it or lock us out, which is reported.
    """
    path = user_file()
    try:
        if path is None or not path.is_file():
            return Record()
    # As after `su`, where HOME is still another user's.
    except PermissionError:
        announce(f"{path}: not used, as it cannot be read: set HOME to a folder of yours")
        return Record()
    for place in (path.parent, path):
        if reason := stranger(place):
            announce(f"{place}: not used, as it {reason}: chmod go-w {as_word(str(place))}")
            return Record()
    tables = read_toml(path)
    _check(path, tables)
    # A person leaves the usual port away.
    for name in ("origins", "runs"):
        urls = tables.get(name, {})
        tables[name] = {_origin(path, url): variables for url, variables in urls.items()}
    return Record(**tables)


def _origin(path: Path, url: str) -> str:
    try:
        return origin_of(url)
    except ValueError as error:
        raise UsageError(f"{path}: {url!r}: no origin such as https://host:443") from error


def _check(path: Path, tables: Mapping[str, Any]) -> None:
    """Raise UsageError for what is no file of ours."""
    known = tuple(Record.__dataclass_fields__)
    for name, table in tables.items():
        if name not in known or not isinstance(table, dict):
            raise UsageError(f"{path}: {name}: expected tables of {', '.join(known)}")
        for key, value in table.items():
            texts = [value] if name == "projects" else value
            if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
                raise UsageError(f"{path}: {name}.{key}: expected text, in a list but of projects")


@contextmanager
def _changed_record() -> Iterator[dict[str, dict[str, Any]]]:
    """Yield the tables of the user's own file, to be changed, and written behind that.

    One process after the other: of two at once, one would bring back what the other took out.
    Raises UsageError.
    """
    path = user_file()
    if path is None:
        raise UsageError("XDG_CONFIG_HOME: set it, or HOME, to an absolute path of yours")
    try:
        path.parent.mkdir(
            mode=0o700,
            parents=True,
            exist_ok=True,
        )
        with path.with_suffix(".lock").open("ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            record = load_record()
            tables = asdict(record)
            yield tables
            if tables != asdict(record):
                _write(path, tables)
    except OSError as error:
        raise unwritten(str(path), error, "set XDG_CONFIG_HOME to a folder of yours") from error


def _write(path: Path, tables: Mapping[str, Mapping[str, Any]]) -> None:
    """Write the user's own file, mode 600. Raises OSError."""
    import tomli_w  # noqa: PLC0415 -- start-up: few commands write it

    filled_tables = {name: table for name, table in tables.items() if table}
    content = tomli_w.dumps(filled_tables).encode()
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:  # of mode 600
        file.write(content)
    Path(file.name).replace(path)


def confirm(project: Path, pin: str) -> None:
    """Remember that the user confirmed the project as it is by this digest. Raises UsageError."""
    if not is_legible(str(project)):
        raise UsageError(f"{project}: not UTF-8 text, so no file can name it: rename the folder")
    with _changed_record() as tables:
        tables["projects"][str(project)] = pin


def forget(name: str) -> bool:
    """Take back a project or an origin; whether it was there. Raises UsageError."""
    with _changed_record() as tables:
        removals = [table.pop(name, None) for table in tables.values()]
    return any(removal is not None for removal in removals)


def remember_origin(url: str) -> None:
    """Keep that the user put this URL into a file of his, where the usual key is set."""
    if os.environ.get(USUAL_KEY):
        _remember("origins", USUAL_KEY, origin_of(url))


def remember_run(variable: str, url: str) -> None:
    """Keep that the user gave a run this URL, so that it can go on without it."""
    origin = origin_of(url)
    if os.environ.get(variable) and (origin, variable) in _user_pairs():
        _remember("runs", variable, origin)


def _remember(table: str, variable: str, origin: str) -> None:
    """Add a variable to those of an origin; a home that cannot be written keeps nothing."""
    with suppress(AgentevalError), _changed_record() as tables:
        variables = tables[table].get(origin, ())
        tables[table][origin] = list(dict.fromkeys((*variables, variable)))


class Search(NamedTuple):
    """A project, and the nearest one that was passed over."""

    # None where the folder itself is not the user's own.
    project: Path | None
    refused: Path | None = None
    reason: str = ""


def roots(start: Path | None = None) -> tuple[Path, ...]:
    """Return the folders to look in: the project around `start` (default: here), then the shipped.

    One line on standard error names a project above this folder, and one that is passed over.
    """
    here = (start or working_folder()).resolve()
    search = find_project(here)
    if search.refused:
        folder = as_word(str(search.refused))
        announce(
            f"{search.refused}: passed over, as {search.reason}. Look at it: agenteval doctor "
            f"--project {folder}; to use it: agenteval trust {folder}"
        )
    if start is None and search.project not in {None, here}:
        announce(f"the project is {search.project}, whose {PROJECT_FILE} is the nearest upwards")
    return tuple(dict.fromkeys(filter(None, (search.project, shipped()))))


def working_folder() -> Path:
    """Return this folder. Raises UsageError where it was removed."""
    try:
        return Path.cwd()
    except FileNotFoundError as error:
        raise UsageError("the working folder is gone: enter one that is there") from error


def find_project(here: Path) -> Search:
    """Return the nearest folder upwards from `here`, a resolved path, that holds an agenteval.toml.

    Else `here` itself. The search ends at the root of a repository, at the home folder, at another
    file system, and before a folder or file that is another user's.
    """
    shipped_folder, device = shipped(), here.stat().st_dev
    for folder in (here, *here.parents):
        file = folder / PROJECT_FILE
        is_project = _is_file(file)
        if folder == shipped_folder and is_project:
            return Search(folder)
        reason = _foreign(folder, device) or (is_project and _foreign(file)) or ""
        if reason:
            return _passed_over(here, folder, reason)
        if is_project:
            return Search(folder)
        if folder == home() or _is_repository(folder):
            break
    return Search(here)


def _is_repository(folder: Path) -> bool:
    """Return True for the root of a repository, of a work tree or a submodule, or a bare one."""
    is_bare = all(os.path.lexists(folder / name) for name in ("HEAD", "objects", "refs"))
    return is_bare or os.path.lexists(folder / ".git")


def _passed_over(here: Path, folder: Path, reason: str) -> Search:
    """Return the result of a search that ends at a border; a confirmed project there is used."""
    project = None if folder == here else here
    has_parts = folder == here and any(os.path.lexists(here / part) for part in PARTS)
    above = (one for one in (folder, *folder.parents) if _is_file(one / PROJECT_FILE))
    refused = here if has_parts else next(above, None)
    if refused is None:
        return Search(project)
    if refused == shipped() or is_trusted(refused):
        return Search(refused)
    where = "it" if refused == folder else str(folder)
    return Search(project, refused, f"{where} {reason}")


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    # Before Python 3.14, where a folder above cannot be entered.
    except OSError:
        return False


def _foreign(path: Path, device: int | None = None) -> str:
    """Return why a folder or file is not the user's own alone; empty if it is."""
    try:
        if device not in {None, path.stat().st_dev}:
            return "is on another file system"
        return stranger(path)
    except OSError as error:
        return f"cannot be looked at ({error.strerror})"


def find_rules(roots: Roots) -> Path:
    """Return the first gate.toml under `roots`; the last of them is what agenteval ships."""
    path = next(root / GATE_FILE for root in roots if os.path.lexists(root / GATE_FILE))
    note_hidden("the gate's rules", GATE_FILE, path, shipped() / GATE_FILE)
    return path


SCENARIO_FILE = "scenario.toml"


def first(places: Roots) -> Path:
    """Return the first place that is there. Raises UsageError when none is."""
    for place in places:
        if is_folder(place):
            return place
    raise UsageError(f"{_listed(places)}: no folder of scenarios there. Make one, or name a folder")


def find(target: str, places: Roots) -> Iterator[tuple[str, Path]]:
    """Yield name and folder of every scenario that a target means. Raises UsageError for none."""
    starts = _starts(target, places)
    for start in starts:
        if folders := _scenario_folders(start):
            base = _base(start, places)
            scenario_folders = [(_name(folder, base), folder) for folder in sorted(folders)]
            _note_hidden_scenarios(scenario_folders, base)
            yield from scenario_folders
            return
    for start in starts:
        if is_folder(start):
            raise UsageError(
                f"{start}: no {SCENARIO_FILE} in it or below it. Name a folder of scenarios"
            )
    scenario_names = sorted(
        _name(folder, place.resolve()) for place in places for folder in _scenario_folders(place)
    )
    raise UsageError(
        f"no scenario or folder {target!r} in {_listed(places)}. "
        f"Known: {', '.join(scenario_names) or 'none'}"
    )


def _scenario_folders(start: Path) -> set[Path]:
    """Return the folders of the scenarios in a folder or below it."""
    files = named(start, SCENARIO_FILE)
    return {file.parent for file in files if file.name == SCENARIO_FILE}


def _starts(target: str, places: Roots) -> Roots:
    """Return the places of a target; the folder here comes last if it is not the user's own."""
    below = (*(place / target for place in places), *_by_path(target, places))
    path = Path(target)
    is_explicit = path.is_absolute() or target.startswith(".")
    if is_explicit or find_project(working_folder()).project is not None:
        return (path, *below)
    return (*below, path)


def _note_hidden_scenarios(scenario_folders: Sequence[tuple[str, Path]], base: Path) -> None:
    ours = shipped() / SCENARIOS
    hiding_names = [name for name, folder in scenario_folders if is_hiding(folder, ours / name)]
    if not hiding_names:
        return
    names = ", ".join(hiding_names[:3])
    if hiding_names[3:]:
        names += f" and {len(hiding_names) - 3} more"
    announce(f"scenario {names} is of {base}, which hides the shipped ones of these names")


def _by_path(target: str, places: Roots) -> Iterator[Path]:
    """Yield `scenarios/` and what is below it, where the folder here has none."""
    path = Path(target)
    if not is_folder(path) and ".." not in path.parts:
        for place in places:
            if path.parts[:1] == (place.name,):
                yield place.parent / path


def _base(start: Path, places: Roots) -> Path:
    """Return the base of names: the place that holds `start`, else `start` or its parent."""
    start = start.resolve()
    for place in places:
        if start.is_relative_to(place.resolve()):
            return place.resolve()
    return start.parent if (start / SCENARIO_FILE).exists() else start


def _name(folder: Path, base: Path) -> str:
    return printable(folder.resolve().relative_to(base).as_posix(), folder)


def _listed(places: Roots) -> str:
    return " or ".join(f"{place}/" for place in places)
