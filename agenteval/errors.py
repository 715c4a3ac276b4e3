"""The errors agenteval raises on purpose.

A model's mistake is never an exception: it is a measurement (`trial.call.Finding`). What remains:

    AgentevalError
     +-- UsageError            the user's: one line that says what, where and how to fix it; exit 2
     |    +-- UnansweredError  no server is there
     |    +-- UntrustedError   a project's file wants a key sent that nobody confirmed
     +-- CutOffError           Ctrl-C, or another signal: one line; exit 128 and its number
     +-- InfrastructureError   the machine's or the server's: the trial it struck becomes void
     +-- HostError             the machine's, and nothing can go on: one line; exit 4
     +-- OutgrownError         the conversation outgrew the model's context: how its trial ends

Anything else is a defect of ours: within a trial it makes that one void, elsewhere it crashes
loudly.
"""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import TypeVar

Failed = TypeVar("Failed", bound=Exception)


class Cause(StrEnum):
    """The cause that made a trial void; the text next to it says more."""

    UNREACHABLE = "unreachable"  # the connection was refused, or never came about
    LOST = "connection-lost"
    TIMEOUT = "timeout"
    BUSY = "busy"  # 429, 502, 503, 504
    SERVER_ERROR = "server-error"
    REFUSED = "request-refused"  # ours, or the model's template: the server does not take it
    OUT_OF_MEMORY = "out-of-memory"
    CRASHED = "crashed"  # the engine died, or was started anew
    MODEL_CHANGED = "model-changed"
    CONTEXT_CUT = "context-cut"
    BAD_REPLY = "bad-reply"  # no chat completion, or only a part of one
    HARNESS = "harness"  # the program that played: it hung, crashed, or asked no model
    OURS = "ours"  # the sandbox, or another part of this machine
    SCENARIO = "scenario"  # its author's slip, in the world of this seed
    AGENTEVAL = "agenteval"  # a defect of ours, with its traceback
    INTERRUPTED = "interrupted"  # the run was ended while the trial was in flight


# Neither the server's nor the machine's: to be fixed before the next run.
FAULTS = (Cause.SCENARIO, Cause.AGENTEVAL)


class AgentevalError(Exception):
    """The base of every deliberate error of this package."""


class UsageError(AgentevalError):
    """An error that the user can fix. Each fault is a line for the user: what, where, the fix."""

    def __init__(self, *faults: str) -> None:
        super().__init__("\n".join(faults))
        self.faults = faults


class UnansweredError(UsageError):
    """No working server answers at this URL."""


class UntrustedError(UsageError):
    """A file of `project` wants a key sent, and the user has not confirmed it."""

    def __init__(self, message: str, project: str) -> None:
        super().__init__(message)
        self.project = project


class CutOffError(AgentevalError):
    """A signal; what was played is stored, the text says how to go on. Exit 128 + its number."""


class InfrastructureError(AgentevalError):
    """Our machine or the model's server failed; no verdict about the model may follow from it."""

    def __init__(self, message: str, cause: Cause = Cause.OURS) -> None:
        super().__init__(message)
        self.cause = cause
        # The URL of the server, of a model that has several.
        self.endpoint = ""


class HostError(AgentevalError):
    """This machine keeps us from going on: its disk is full, its database is gone.

    The message is the whole line that the user reads. What was stored before is intact.
    """


_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}


def is_of_the_host(error: OSError) -> bool:
    """Return True if a disk is full, or fails: no other name of a file would help."""
    return error.errno in _FULL


def unwritten(what: str, error: OSError, cure: str = "") -> AgentevalError:
    """Return one line about a file that cannot be written: a HostError if the disk is full."""
    message = f"{what}: cannot be written ({error.strerror})"
    if is_of_the_host(error):
        return HostError(f"{message}; make room there, and ask again")
    return UsageError(f"{message}; {cure}" if cure else message)


_DAMAGED = (
    *("is malformed", "Could not decode", "codec can't decode", "is no text of ours"),
    "user-defined function raised",  # ours, which counts the calls of an older store
)


def is_damage(message: str) -> bool:
    """Return True if a database reports that its file is damaged."""
    return any(words in message for words in _DAMAGED)


# Characters: SQLite repeats the whole of a text that it cannot read.
_LONGEST_REASON = 500


def fault(store: str, message: str) -> HostError:
    """Return one line about damage, a full disk or a lost connection, which no store can fix."""
    what = " ".join(message.split())[:_LONGEST_REASON]
    if is_damage(what):
        return HostError(
            f"--store {store}: the file is damaged ({what}). Bring a copy of it back, or save what "
            "can be read: sqlite3 OLD .recover | sqlite3 NEW; `agenteval store check` looks through"
        )
    return HostError(
        f"--store {store}: {what}. What was stored before is intact: "
        "make room or bring the database back, and a run goes on with --resume"
    )


class OutgrownError(AgentevalError):
    """The conversation does not fit into the model's context any more: its trial ends so."""


class UnservedError(InfrastructureError):
    """The server did not accept the request, so that nothing was generated: it may be sent again.

    `after` is how many seconds the server wants no request; None if it did not say. `works` is
    False if it may be that it accepts no request at all.
    """

    def __init__(
        self,
        message: str,
        cause: Cause,
        *,
        after: float | None = None,
        works: bool = True,
    ) -> None:
        super().__init__(message, cause)
        self.after = after
        self.works = works


@contextmanager
def unwrapped(*kinds: type[AgentevalError]) -> Iterator[None]:
    """Raise the first error of these kinds by itself, in place of a TaskGroup's group of them.

    A group that holds any other error goes on as it is. No `except*`: before Python 3.11.4 what is
    raised within one is wrapped in a group again (python/cpython#103590).
    """
    try:
        yield
    except ExceptionGroup as group:
        expected, unforeseen = group.split(kinds)
        if expected is None or unforeseen is not None:
            raise
        raise first_error(expected) from None


def first_error(group: ExceptionGroup[Failed]) -> Failed:
    """Return the error of the task that failed first, however deeply groups are nested."""
    error = group.exceptions[0]
    return first_error(error) if isinstance(error, ExceptionGroup) else error
