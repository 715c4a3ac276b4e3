"""The runner: first process of a trial's world, at the evaluator's call until he hangs up."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # as signal, which loads enum first
import os
import resource

from agenteval.sandbox.inside import call, files, linux, wire


def serve(peer: int) -> None:
    """Answer requests until the peer closes. Never returns: the process ends, its world with it."""
    try:
        first = wire.receive(peer)
        if first is None:
            return
        spec = first[0]
        _set_up(peer, spec)
        runner = call.Runner(peer, spec["env"], spec["limits"], spec["places"])
        wire.reply(peer, {"ready": True})
        while (frame := wire.receive(peer)) is not None:
            wire.reply(peer, *_answer(runner, *frame))
    except (BrokenPipeError, ConnectionResetError):
        pass  # the evaluator hung up while we spoke
    except OSError as error:
        wire.reply(peer, {"errno": error.errno, "error": str(error)})
    finally:
        os._exit(0)


def _set_up(peer: int, spec: wire.Message) -> None:
    linux.prctl(linux.DUMPABLE, 0)  # else a command could write our memory through /proc/1/mem
    os.set_inheritable(peer, False)
    os.umask(0o022)
    _signal.signal(_signal.SIGINT, _signal.SIG_IGN)  # a handler would let commands signal us
    os.chdir(spec["workspace"])
    for name, value in spec["rlimits"].items():
        resource.setrlimit(getattr(resource, name), (value, value))


def _answer(runner: call.Runner, request: wire.Message, body: bytes) -> tuple[wire.Message, bytes]:
    try:
        match request["do"]:
            case "run":
                return runner.run(request["argv"])
            case "read":
                return {}, files.read(str(request["path"]), int(runner.limits["file_size"]))
            case "write":
                return _write_all(request["files"], body), b""
            case other:
                return {"error": f"no request {other!r}"}, b""
    except OSError as error:
        reason = {"errno": error.errno or 5, "error": error.strerror or str(error)}
        return reason | {"path": error.filename or ""}, b""


def _write_all(sizes: list[tuple[str, int]], body: bytes) -> wire.Message:
    start = 0
    for path, size in sizes:
        files.write(".", path, body[start : start + size])
        start += size
    return {}
