"""The file tools: read, write, edit and search, inside the sandbox."""

import json
import time
from collections.abc import Iterator, Mapping
from io import StringIO

from agenteval.core.call import FileEdit, FileRead, FileSearch, FileWrite
from agenteval.core.policy.more_tools import GLOB
from agenteval.core.policy.patterns import PathRules, path_regex
from agenteval.core.trial import Execution
from agenteval.protocols import Sandbox

FOUND = 100  # files or lines that a search shows
_LONGEST = 400  # characters of a line that was found
# Runs in the sandbox: files below a folder, or their lines in which a pattern is, as JSON.
_WALK = """\
import json, os, re, sys
folder, pattern = sys.argv[1:]
if os.path.realpath(folder) != os.path.abspath(folder):
    sys.exit(folder + ": a link leads to another folder")
wanted = re.compile(pattern) if pattern else None
for base, folders, names in os.walk(folder):
    folders.sort()
    for name in sorted(names):
        path = os.path.normpath(os.path.join(base, name))
        if wanted is None:
            print(json.dumps([path, 0, ""]))
        elif os.path.isfile(path) and not os.path.islink(path):
            try:
                with open(path, encoding="utf-8", errors="replace") as file:
                    for number, line in enumerate(file, 1):
                        if wanted.search(line):
                            print(json.dumps([path, number, line.rstrip("\\n")]))
            except OSError:
                continue  # what cannot be read
"""
FileTask = FileRead | FileWrite | FileEdit | FileSearch


async def carried_out(
    task: FileTask, sandbox: Sandbox, readable: PathRules, saved: Mapping[str, str]
) -> Execution:
    """Carry out the task; a file that cannot be accessed is a failure of the call.

    `readable` are the files that a search may list, `saved` the results kept outside the workspace.
    """
    started = time.perf_counter()
    if isinstance(task, FileSearch):
        return await _searched(task, sandbox, readable)
    try:
        match task:
            case FileRead():
                text, cut = await _read(task, sandbox, saved)
            case FileWrite():
                text, cut = await _written(task, sandbox), False
            case FileEdit():
                text, cut = await _edited(task, sandbox), False
    except OSError as error:
        said = f"{task.path}: {error.strerror or error}"
        return Execution(1, said, time.perf_counter() - started)
    return Execution(0, text, time.perf_counter() - started, cut=cut)


async def _read(task: FileRead, sandbox: Sandbox, saved: Mapping[str, str]) -> tuple[str, bool]:
    """Return the text, and if it was cut: then behind a whole line, where `offset` can go on."""
    if (saved_text := saved.get(task.path)) is not None:
        lines = StringIO(saved_text).readlines()[task.first - 1 :]
        return "".join(lines[: task.lines]), False
    content, cut = await sandbox.read_lines(*task)
    whole = content[: content.rfind(b"\n") + 1] if cut else b""
    return (whole or content).decode("utf-8", "replace"), cut


async def _written(task: FileWrite, sandbox: Sandbox) -> str:
    await sandbox.write(task.path, task.content.encode("utf-8", "surrogatepass"))
    return f"wrote {len(task.content.splitlines())} lines to {task.path}"


async def _edited(task: FileEdit, sandbox: Sandbox) -> str:
    """Raises OSError, also where the old text stands nowhere or in several places."""
    try:
        before = (await sandbox.read(task.path)).decode("utf-8", "replace")
    except FileNotFoundError:
        if task.old:
            raise
        before = ""
    places = before.count(task.old) if task.old else int(not before)
    if places != 1:
        raise OSError(f"the old text stands in {places} places of the file; it must be one")
    after = before.replace(task.old, task.new) if task.old else task.new
    await sandbox.write(task.path, after.encode("utf-8", "surrogatepass"))
    return f"edited {task.path}"


async def _searched(task: FileSearch, sandbox: Sandbox, readable: PathRules) -> Execution:
    pattern = "" if task.tool == GLOB else task.pattern
    # Isolated: modules beside the files are not imported, whoever wrote them.
    ran = await sandbox.run(("python3", "-I", "-S", "-c", _WALK, task.folder, pattern))
    if ran.exit_code != 0:
        return Execution(1, ran.output.strip().rpartition("\n")[2], ran.seconds, ran.limit)
    matches = [*_matching(task, readable, ran.output)]
    more = [f"({len(matches) - FOUND} more are not shown)"] if len(matches) > FOUND else []
    text = "\n".join([*matches[:FOUND], *more]) or "nothing was found"
    return Execution(0, text, ran.seconds)


def _matching(task: FileSearch, readable: PathRules, listed: str) -> Iterator[str]:
    """Yield the entries of the listing that match the task and may be read."""
    named = task.pattern if task.tool == GLOB else task.include or "**"
    below = "" if task.folder == "." else f"{task.folder}/"
    for entry in listed.splitlines():
        try:
            path, number, line = json.loads(entry)
        except ValueError:  # the last one, where the output was cut
            continue
        inner = path.removeprefix(below)
        fits = any(path_regex(each).fullmatch(inner) for each in (named, f"**/{named}"))
        if fits and readable.admits(path):
            yield f"{path}:{number}: {line[:_LONGEST]}" if number else path
