"""SIGINT, SIGTERM and SIGHUP: each ends a command in one line, with an exit code of its own.

It imports what Python has loaded at its start: until `end_at_once` a signal ends in a traceback.
"""

import _signal  # type: ignore[import-not-found]  # as signal, which loads enum first
import atexit
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn, TypeGuard
ENDING = {_signal.SIGINT: "SIGINT", _signal.SIGTERM: "SIGTERM", _signal.SIGHUP: "SIGHUP"}
CUT_OFF = 128 + _signal.SIGINT  # the exit code of a command that Ctrl-C ended
RAISED_AGAIN = 0.02  # seconds after an interrupt was lost in a finalizer
_received = _signal.SIGINT
_terminals = [stream for stream in (1, 2) if os.isatty(stream)]


def end_at_once() -> None:
    """Until a command begins nothing is held: a signal ends the process where it stands."""
    _answer(_end)


def _end(number: int, _frame: object) -> None:
    try:
        os.write(2, f"agenteval: ended by {ENDING[number]}, before anything began\n".encode())
    finally:
        os._exit(128 + number)


def leave(code: int) -> "NoReturn":
    """End with this code what a signal has ended.

    Python's own end kills the process by SIGINT where a KeyboardInterrupt once came out of exec(),
    as while a dataclass is made, whoever caught it.
    """
    atexit._run_exitfuncs()  # noqa: SLF001 -- nothing public runs them
    for stream in (sys.stdout, sys.stderr):
        try:  # noqa: SIM105 -- contextlib is not loaded yet
            stream.flush()
        except OSError:  # a terminal that hung up
            pass
    os._exit(code)


def end_without_a_word() -> None:
    """Let a signal change only the exit code from here on: all is done and printed."""
    _answer(lambda number, _frame, leave=os._exit: leave(128 + number))  # globals may be gone then


def interrupt() -> list[tuple[int, object]]:
    """Each signal raises KeyboardInterrupt as Ctrl-C does; return what `put_back` takes.

    SIGINT gets Python's own handler, as asyncio cancels its task in good order only then.
    """
    global _received  # noqa: PLW0603 -- signals belong to the process
    _received = _signal.SIGINT
    before = [(number, _signal.getsignal(number)) for number in (*ENDING, _signal.SIGALRM)]
    _answer(_raise)
    if _signal.getsignal(_signal.SIGINT) is not _signal.SIG_IGN:
        _signal.signal(_signal.SIGINT, _signal.default_int_handler)
    sys.unraisablehook = _raise_again
    return before


def put_back(before: list[tuple[int, object]]) -> None:
    _signal.setitimer(_signal.ITIMER_REAL, 0)
    for number, handler in before:
        _signal.signal(number, handler)
    sys.unraisablehook = sys.__unraisablehook__


def cut_off_line() -> str:
    """Return the last line of a command that has no better one."""
    again = "what was stored before is intact; the same command starts again"
    return f"cut off by {ENDING[_received]}: {again}"


def is_of_a_signal(code: object) -> "TypeGuard[int]":
    return isinstance(code, int) and code - 128 in ENDING


def exit_code() -> int:
    return 128 + int(_received)


def _answer(handler: object) -> None:
    """Set the handler, but leave what the user had ignored (`nohup`, `&` in a script) ignored."""
    for number in ENDING:
        if _signal.getsignal(number) is not _signal.SIG_IGN:
            _signal.signal(number, handler)


def _raise(number: int, _frame: object) -> None:
    global _received  # noqa: PLW0603 -- as above
    _received = number
    _leave_terminal()
    if _signal.getsignal(_signal.SIGINT) is _signal.SIG_IGN:  # nothing comes of raising it
        raise KeyboardInterrupt
    _signal.raise_signal(_signal.SIGINT)


def _leave_terminal() -> None:
    """Send what is still to be printed nowhere, once the terminal has hung up."""
    for stream in _terminals:
        if not os.isatty(stream):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream)


def _raise_again(hook_arguments: "sys.UnraisableHookArgs") -> None:
    """An interrupt within a finalizer ends there: it is raised once more, a moment later."""
    if hook_arguments.exc_type is KeyboardInterrupt:
        _signal.signal(_signal.SIGALRM, lambda *_: _raise(_received, None))
        _signal.setitimer(_signal.ITIMER_REAL, RAISED_AGAIN)
    else:
        sys.__unraisablehook__(hook_arguments)
