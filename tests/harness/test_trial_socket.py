"""Who may ask the model, in a real sandbox: the program itself, and nobody that it starts."""

import asyncio
from dataclasses import replace

import pytest

from agenteval.errors import InfrastructureError
from agenteval.harness import http
from agenteval.harness.forwarder import LONGEST
from agenteval.harness.play import FORWARDER, INSIDE, MOST_REQUESTS, opened
from agenteval.harness.recipes import PORT, SetUp
from agenteval.protocols import HostedProgram
from agenteval.sandbox.backends import Bubblewrap
from agenteval.trial.trial import Limits

ASK = f"""\
import socket, sys
def ask(word):
    with socket.create_connection(("127.0.0.1", {PORT})) as s:
        body = word.encode()
        s.sendall(b"POST /v1/x HTTP/1.1\\r\\ncontent-length: %d\\r\\n\\r\\n" % len(body) + body)
        said = b""
        while part := s.recv(4096):
            said += part
    return said.partition(b"\\r\\n\\r\\n")[2].decode() or said.split()[1].decode()
def direct(path):
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(path)
        try:
            s.sendall(b"POST /v1/x HTTP/1.1\\r\\ncontent-length: 6\\r\\n\\r\\nsneaky")
            return s.recv(4096).decode() or "nothing"
        except ConnectionError:
            return "nothing"
"""
PROGRAM = f"""\
{ASK}
import os, subprocess
print(ask("program"), flush=True)
print(subprocess.run([sys.executable, "-c", os.environ["ASK"] + "print(ask('command'))"],
                     capture_output=True, text=True).stdout.strip(), flush=True)
print(subprocess.run([sys.executable, "-c", os.environ["ASK"] + "print(direct('{INSIDE}'))"],
                     capture_output=True, text=True).stdout.strip(), flush=True)
print(ask("program again"), open("/home/agent/note").read(), sys.stdin.read(), flush=True)
sys.stderr.write("last words")
sys.exit(3)
"""
LIMITS = replace(Limits(), loopback=True, trial_seconds=20.0)


def order(code: str) -> SetUp:
    argv = ("/run/bin/python3", "-c", code)
    return SetUp(argv, {"ASK": ASK}, {"/home/agent/note": "set up"}, "the task")


async def play(code: str, *, end_at: str = "") -> tuple[list[str], list[dict[str, object]], int]:
    """What was asked, what was told, and how many strangers came."""
    asked: list[str] = []
    news: list[dict[str, object]] = []

    async def serve(request, answer) -> None:
        asked.append(request.body.decode())
        await answer.whole(f"heard {asked[-1]}".encode())

    async with opened() as way:
        guest = HostedProgram({INSIDE: way.path}, {"/home/agent": 1 << 20})

        def tell(told) -> None:
            news.append(dict(told))
            if end_at and end_at in str(told.get("line")):
                way.end()

        async with (
            Bubblewrap().open_with(guest, {}, LIMITS) as sandbox,
            asyncio.TaskGroup() as group,
        ):
            ran = group.create_task(sandbox.run(FORWARDER, seconds=LIMITS.trial_seconds))
            await way.order(order(code), serve)
            await way.listen(tell)
            assert (await ran).exit_code == 0
        return asked, news, way.strangers


async def test_the_program_is_heard_and_what_it_starts_is_refused_and_told_of() -> None:
    asked, news, strangers = await play(PROGRAM)
    lines = [told["line"] for told in news if "line" in told]
    refused = [str(told["refused"]) for told in news if "refused" in told]
    assert asked == ["program", "program again"]
    assert lines == ["heard program", "403", "nothing", "heard program again set up the task"]
    assert ["print(ask('command'))" in one or "python" in one for one in refused] == [True]
    assert strangers == 1
    assert (news[-1]["ended"], news[-1]["said"]) == (3, "last words")


@pytest.mark.parametrize("letter", ["я", "\x01", "\udcff"], ids=["cyrillic", "control", "no-utf-8"])
async def test_a_line_as_long_as_any_is_told_whatever_it_is_made_of(letter) -> None:
    written = letter.encode("utf-8", "surrogateescape")
    length = (LONGEST - 1) // len(written)
    _, news, _ = await play(f"import sys; sys.stdout.buffer.write({written!r} * {length} + b'\\n')")
    (told,) = [str(one["line"]) for one in news if "line" in one]
    assert (len(told), {*told}) == (length, {letter.replace("\udcff", "\ufffd")})
    assert news[-1]["ended"] == 0


async def test_a_program_that_does_not_want_to_end_is_made_to() -> None:
    deaf = "import signal, time; signal.signal(15, signal.SIG_IGN); print('up', flush=True)"
    _, news, _ = await play(f"{deaf}; time.sleep(600)", end_at="up")
    assert news[-1]["ended"] == -9


async def test_a_program_that_is_not_there_is_told_by_its_name() -> None:
    async with opened() as way:
        guest = HostedProgram({INSIDE: way.path}, {"/home/agent": 1 << 20})
        news: list[object] = []
        async with (
            Bubblewrap().open_with(guest, {}, LIMITS) as sandbox,
            asyncio.TaskGroup() as group,
        ):
            group.create_task(sandbox.run(FORWARDER, seconds=9.0))
            await way.order(SetUp(("/opt/gone",), {}, {}), None)
            await way.listen(news.append)
        assert news == [{"ended": 127, "said": "/opt/gone: No such file or directory", "cpu": 0.0}]


async def test_a_forwarder_that_does_not_come_is_the_machines_fault(monkeypatch) -> None:
    monkeypatch.setattr("agenteval.harness.play.COMES_SECONDS", 0.05)
    async with opened() as way:
        with pytest.raises(InfrastructureError, match="did not come up"):
            await way.order(SetUp((), {}, {}), None)


async def ask_half(path: str, sent: bytes = b"POST /v1/x HTTP/1.1\r\ncontent-le"):
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(sent)
    return reader, writer


async def test_half_requests_of_a_program_are_counted_and_have_an_end(monkeypatch) -> None:
    monkeypatch.setattr(http, "REQUEST_SECONDS", 1.0)

    async def serve(request, answer) -> None:
        await answer.whole(b"heard")

    async with opened() as way:
        peers = [await ask_half(way.path, b"")]  # as the forwarder's own
        await way.order(order(""), serve)
        peers += [await ask_half(way.path) for _ in range(MOST_REQUESTS)]
        more = await ask_half(way.path)
        refused = await more[0].read()
        late = [await reader.read() for reader, _ in peers[1:]]
        again = await ask_half(way.path, b"POST /v1/x HTTP/1.1\r\ncontent-length: 0\r\n\r\n")
        heard = await again[0].read()
        for _, writer in (*peers, more, again):
            writer.close()
    begins = {answer.split(b" ")[1] for answer in late}
    assert (refused.split(b" ")[1], begins, heard[-5:]) == (b"503", {b"400"}, b"heard")
