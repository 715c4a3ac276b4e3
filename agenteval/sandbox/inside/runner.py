"""The runner: first process of a trial's sandbox, at the evaluator's call until it hangs up."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # as signal, which loads enum first
import errno
import os
import resource

from agenteval.sandbox.inside import kernel, process, wire


def serve(inlet: int, outlet: int) -> None:
    """Answer requests until the peer closes.

    Never returns: the process ends, and its sandbox with it.
    """
    spec: wire.Message = {}
    try:
        first = wire.receive(inlet)
        if first is None:
            return
        spec = first[0]
        _set_up(inlet, outlet, spec)
        runner = process.Runner(inlet, spec)
        wire.reply(outlet, {"ready": True})
        while (frame := wire.receive(inlet)) is not None:
            wire.reply(outlet, *_answer(runner, *frame))
    except (BrokenPipeError, ConnectionResetError):
        pass  # the evaluator hung up while we spoke
    except OSError as error:
        wire.reply(outlet, {"errno": error.errno, "error": str(error)})
    finally:
        _remove(spec.get("folder", ""))
        os._exit(0)


def _remove(folder: str) -> None:
    """Remove the folder, if no filesystem ends with us: its maker may have been killed."""
    if folder:
        os.chdir("/")
        os.spawnv(os.P_WAIT, "/bin/rm", ["rm", "-rf", folder])


def _set_up(inlet: int, outlet: int, spec: wire.Message) -> None:
    # Else a command could write our memory through /proc/1/mem.
    kernel.prctl(kernel.DUMPABLE, 0)
    os.set_inheritable(inlet, False)
    os.set_inheritable(outlet, False)
    os.umask(0o022)
    # A handler would let commands signal us.
    _signal.signal(_signal.SIGINT, _signal.SIG_IGN)
    os.chdir(spec["workspace"])
    # Only in a container: elsewhere the builder of the sandbox has installed one.
    if "filters" in spec:
        kernel.install_filter(spec["filters"][kernel.MACHINE])
    if spec["rules"]:
        kernel.landlock(spec["rules"], loopback=spec["limits"]["loopback"])
    for name, value in spec["rlimits"].items():
        resource.setrlimit(getattr(resource, name), (value, value))


def _answer(
    runner: process.Runner, request: wire.Message, body: bytes
) -> tuple[wire.Message, bytes]:
    try:
        return _act(runner, request, body)
    except OSError as error:
        reason = {"errno": error.errno or 5, "error": error.strerror or str(error)}
        return reason | {"path": error.filename or ""}, b""
    except ValueError as error:  # a NUL byte or a lone surrogate: no file can be called so
        return {"errno": errno.EINVAL, "error": str(error), "path": ""}, b""


def _act(runner: process.Runner, request: wire.Message, body: bytes) -> tuple[wire.Message, bytes]:
    reply: wire.Message = {}
    content = b""
    match request["do"]:
        case "run":
            reply, content = runner.run(request["argv"], request["seconds"])
            reply |= _stamp_at_end(reply, request["watched"])
        case "ask":
            reply, content = runner.ask(request["size"])
        case "judge":
            reply, content = runner.judge(request["size"])
        case "write":
            _write_all(runner, request, body)
        case "read":
            content = wire.read_file(request["path"], runner.limits["file_size"])
        case "read lines":
            reply, content = _read_lines(runner, request)
        case "stamp":
            reply = {"stamp": wire.stamp(request["paths"])}
        case other:
            reply = {"error": f"no request {other!r}"}
    return reply, content


def _stamp_at_end(reply: wire.Message, watched: list[str]) -> wire.Message:
    """Return the stamp of these files, if nothing can change them before the next request.

    What a command leaves running is dead. Only where no namespace of processes is ours may it have
    asked somebody else to go on.
    """
    is_last = bool(watched) and reply.get("clean", True) and os.getpid() == 1
    return {"stamp": wire.stamp(watched)} if is_last else {}


def _read_lines(runner: process.Runner, request: wire.Message) -> tuple[wire.Message, bytes]:
    content, cut = wire.read_lines(
        request["path"],
        request["first"],
        request["count"],
        keep=runner.limits["output_kept"],
        most=runner.limits["file_size"],
    )
    return {"cut": cut}, content


def _write_all(runner: process.Runner, request: wire.Message, body: bytes) -> None:
    start = 0
    for path, size in request["files"]:
        content = body[start : start + size]
        wire.write_file(".", path, content)
        if request["fixture"] and runner.prefork:
            runner.scripts.pin(path, content)
        start += size
