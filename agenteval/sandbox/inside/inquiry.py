"""Queries of the trial's database, which a model may have made: opened as a stranger's file.

It runs in a process of its own that may crash, hang or grow: the runner's limits end it.
"""

from __future__ import annotations

import _sqlite3 as sqlite  # sqlite3 itself loads more than it needs
import os
import resource
import stat
import sys

from agenteval.sandbox.inside import kernel, wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Row = tuple[Any, ...]
WALL_SECONDS, CPU_SECONDS = 10.0, 2  # on a busy machine the first is long before the second
MEMORY = 384 << 20  # of address space, beyond what the runner has
HEAP = 128 << 20  # of it SQLite's, in which a database of the largest size has room
LARGEST = 64 << 20  # of a database
OBJECTS = 500  # tables, indexes, views: no world has as many, and each is to be compared
PRAGMAS = """
PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON; PRAGMA query_only=ON;
PRAGMA temp_store=MEMORY; PRAGMA mmap_size=0;
"""
HEAPS = f"PRAGMA soft_heap_limit={HEAP // 2}; PRAGMA hard_heap_limit={HEAP};"
LOGGED = "PRAGMA locking_mode=EXCLUSIVE;"
LIMITS = {
    sqlite.SQLITE_LIMIT_LENGTH: 1 << 20,
    sqlite.SQLITE_LIMIT_SQL_LENGTH: 100_000,
    sqlite.SQLITE_LIMIT_COLUMN: 200,
    sqlite.SQLITE_LIMIT_EXPR_DEPTH: 200,
    sqlite.SQLITE_LIMIT_COMPOUND_SELECT: 50,
    sqlite.SQLITE_LIMIT_VDBE_OP: 25_000,
    sqlite.SQLITE_LIMIT_FUNCTION_ARG: 32,
    sqlite.SQLITE_LIMIT_ATTACHED: 0,
    sqlite.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 1_000,
    sqlite.SQLITE_LIMIT_VARIABLE_NUMBER: 0,
    sqlite.SQLITE_LIMIT_TRIGGER_DEPTH: 0,
    sqlite.SQLITE_LIMIT_WORKER_THREADS: 0,
}
DEFENSIVE, NO_EXTENSION = (1010, True), (1005, False)  # of sqlite3_db_config
# Looked up once; a connection of Python 3.12 has `setconfig`. Elsewhere than on Linux such a
# function may take its arguments otherwise: what is opened to be read only is safe without it.
_OWN = hasattr(sqlite.Connection, "setconfig")
_CONFIGURE = (
    kernel.foreign(sqlite.__file__, "sqlite3_db_config")
    if not _OWN and sys.platform == "linux"
    else None
)
OK = sqlite.SQLITE_OK
DENY = sqlite.SQLITE_DENY
IGNORE = sqlite.SQLITE_IGNORE
READS = {sqlite.SQLITE_SELECT, sqlite.SQLITE_READ, sqlite.SQLITE_RECURSIVE}
# Scalar; of dates; aggregate and window; of numbers; of JSON.
KNOWN = """
abs char coalesce concat concat_ws format glob hex if ifnull iif instr length like likelihood likely
lower ltrim max min nullif octet_length printf quote replace round rtrim sign soundex substr
substring trim typeof unhex unicode unlikely upper zeroblob
date datetime julianday strftime time timediff unixepoch
avg count group_concat string_agg sum total median percentile cume_dist dense_rank first_value lag
last_value lead nth_value ntile percent_rank rank row_number
acos acosh asin asinh atan atan2 atanh ceil ceiling cos cosh degrees exp floor ln log log10 log2 mod
pi pow power radians sin sinh sqrt tan tanh trunc
json json_array json_array_length json_each json_error_position json_extract json_group_array
json_group_object json_insert json_object json_patch json_pretty json_quote json_remove json_replace
json_set json_tree json_type json_valid -> ->>
"""
FUNCTIONS = frozenset(KNOWN.split())
# Errors that end a question and not the process.
FAULTS = (sqlite.Error, sqlite.Warning, MemoryError, OverflowError, ValueError)


def act(order: wire.Message) -> tuple[int, bytes]:
    _bound()
    return 0, wire.json(_run_order(order)).encode()


def prepare() -> None:
    """Make what each fork of this process then has: a connection, and what bounds it."""
    if not _READY:
        _READY.append(defended(":memory:", LIMITS))
        space = address_space() + MEMORY
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        space = space if hard == resource.RLIM_INFINITY else min(space, hard)
        _BOUNDS[resource.RLIMIT_AS] = (space, space)


def address_space() -> int:
    """Return the bytes of address space that this process has. Raises OSError outside of Linux."""
    with open("/proc/self/statm", "rb") as file:
        pages = file.read().split()[0]
    return int(pages) * resource.getpagesize()


_READY: list[Any] = []
_BOUNDS = {
    resource.RLIMIT_CPU: (CPU_SECONDS, CPU_SECONDS + 1),
    resource.RLIMIT_FSIZE: (0, 0),
    resource.RLIMIT_NPROC: (0, 0),
}


def _bound() -> None:
    prepare()
    for limit, most in _BOUNDS.items():
        resource.setrlimit(limit, most)


def _run_order(order: wire.Message) -> wire.Message:
    path: str = order["database"]
    try:
        connection = opened(path)
        objects = schema(connection)
    except OSError as error:
        return {"broken": f"{path}: {error.strerror}"}
    except FAULTS as error:
        return {"broken": f"{path} cannot be read: {error}"}
    if strange := deviation(objects, order["schema"]):
        return {"broken": f"{path}: {strange}"}
    answers = [_run_query(connection, *question) for question in order["questions"]]
    return {"answers": answers}


def opened(path: str) -> Any:
    """Return the database, to be read only. Raises OSError, and what is among FAULTS."""
    image = bytearray(wire.read_file(path, LARGEST))
    if _is_log(f"{path}-wal"):
        # Read without locks and with its index in memory, so that no file is made beside it.
        # Of a URI, these three have a meaning.
        named = path.replace("%", "%25")
        named = named.replace("?", "%3f").replace("#", "%23")
        connection = defended(f"file:{named}?mode=ro&vfs=unix-none", LIMITS)
        connection.executescript(LOGGED)
    else:
        connection = _READY.pop()
        # Bytes 18 and 19 of the header say that there may be a log; without one, there is none.
        image[18:20] = b"\x01\x01"
        connection.deserialize(image)
    connection.executescript(HEAPS)
    connection.set_authorizer(allowed)
    return connection


def defended(name: str, limits: dict[int, int]) -> Any:
    """Open a stranger's database; the authorizer `allowed` is to be set before it is queried."""
    connection = sqlite.connect(name, uri=True, isolation_level=None)
    try:
        _defend(connection)
        connection.executescript(PRAGMAS)
    except FAULTS:
        connection.close()
        raise
    for limit, most in limits.items():
        connection.setlimit(limit, most)
    return connection


def _is_log(path: str) -> bool:
    try:
        status = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_size > 0


def _defend(connection: Any) -> None:
    for option, value in (DEFENSIVE, NO_EXTENSION):
        if _OWN:
            connection.setconfig(option, value)
        elif _CONFIGURE is not None:
            kernel.configure_sqlite(_CONFIGURE, connection, option, value)


def allowed(action: int, first: str, second: str, *_where: str) -> int:
    if action in READS:
        return OK
    if action == sqlite.SQLITE_FUNCTION and second.lower() in FUNCTIONS:
        return OK
    # json_each and json_tree declare their columns so; nothing is changed by what is ignored
    is_declaration = action == sqlite.SQLITE_UPDATE and first == "sqlite_master"
    return IGNORE if is_declaration else DENY


def schema(connection: Any) -> list[Row]:
    """Return type, name, table and SQL of the objects that the database declares, in order."""
    query = "SELECT type, name, tbl_name, sql FROM sqlite_master"
    rows: list[Row] = connection.execute(query).fetchmany(OBJECTS + 1)
    return rows


def deviation(objects: list[Row], declared: list[Row]) -> str:
    """Return how the objects differ from the fixture's; "" if only tables and indexes came."""
    if len(objects) > OBJECTS:
        return f"it holds more than {OBJECTS} tables, indexes and views"
    there = set(objects)
    expected = set(declared)
    changed = sorted(str(name) for _, name, *_ in expected - there)
    if changed:
        return f"{changed[0]} is not as it was declared"
    own = {str(row[1]).lower() for row in expected}
    for row in objects:
        is_own_name = str(row[1]).lower() in own
        if row not in expected and (is_own_name or not _is_plain(*row)):
            return f"{row[0]} {row[1]} was not there at first"
    return "" if len(objects) == len(there) else "an object of it is there twice"


def _is_plain(kind: object, name: object, _table: object, sql: object) -> bool:
    """Return True for an additional table or index, which no query of a scenario uses."""
    if sql is None:
        return kind == "index" and str(name).startswith("sqlite_autoindex_")
    words = str(sql).upper().split(None, 3)
    start = " ".join((*words[:3], ""))
    return start.startswith(("CREATE TABLE ", "CREATE INDEX ", "CREATE UNIQUE INDEX "))


def _run_query(connection: Any, query: str, most: int) -> wire.Message:
    try:
        cursor = connection.execute(query)
        names = [column[0] for column in cursor.description or ()]
        return {"names": names, "rows": cursor.fetchmany(most)}
    except FAULTS as error:
        return {"error": str(error) or type(error).__name__}
