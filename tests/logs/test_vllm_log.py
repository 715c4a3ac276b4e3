"""vLLM's log as its versions write it, and as nobody should."""

import bz2
import gzip
import io
import lzma
from collections.abc import Iterator
from pathlib import Path

import pytest
from clocks import processor_seconds

from agenteval.errors import UsageError
from agenteval.logs.counts_csv import LONGEST, VllmLog, bounded_lines, log_lines
from agenteval.trial.recovery import Access, EngineLine

THROUGHPUT = "Avg prompt throughput: 5.1 tokens/s, Avg generation throughput: 120.3 tokens/s, "
V1 = THROUGHPUT + (
    "Running: 3 reqs, Waiting: 2 reqs, GPU KV cache usage: 1.2%, Prefix cache hit rate: 87.0%"
)
V0 = THROUGHPUT + (
    "Running: 3 reqs, Swapped: 0 reqs, Pending: 2 reqs, GPU KV cache usage: 1.2%, "
    "CPU KV cache usage: 0.0%."
)
DEFERRED = THROUGHPUT + (
    "Running: 3 reqs, Waiting: 2 reqs, Deferred: 1 reqs, Preemptions: 4, GPU KV cache usage: 95.9%,"
    " Prefix cache hit rate: 0.0%, External prefix cache hit rate: 1.2%"
)
STAMP = 86_400.0 * 121 + 7 * 86_400 + 4 * 3_600 + 56 * 60 + 17  # 7 May in a leap year, 04:56:17
ASKED = 'INFO:     10.0.0.5:53422 - "POST /v1/chat/completions HTTP/1.1" 200 OK'


def line(at: float | None = STAMP, engine: str = "") -> EngineLine:
    return EngineLine(at, engine, 5.1, 120.3, 3, 2)


def read(text: str | bytes):
    raw = text.encode() if isinstance(text, str) else text
    log = VllmLog()
    return list(log.entries(bounded_lines(io.BytesIO(raw)))), log


def versions() -> Iterator[tuple[str, EngineLine]]:
    """The lines in vllm_lines.tsv, behind the engine that each names."""
    for row in Path(__file__).with_name("vllm_lines.tsv").read_text().splitlines():
        engine, text = row.split("\t")
        for name, figures in {"{V0}": V0, "{V1}": V1, "{DEFERRED}": DEFERRED}.items():
            text = text.replace(name, figures)
        yield text, line(engine=engine)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *versions(),
        (f"INFO 05-07 04:56:17 [loggers.py:80] {V1.replace('Running', '# Running')}", line()),
        (f"(APIServer pid=7) Engine 000: {V1}", line(None, "Engine 000")),
        (f"\x1b[1;36m(pid=1)\x1b[0;0m INFO 05-07 04:56:17 [loggers.py:1] {V1}", line()),
        (f"Loading: 99%|##|\rINFO 05-07 04:56:17 [loggers.py:1] {V1}\r\n", line()),
        (f"INFO 05-07 04:56:17 [loggers.py:1] {V1}".encode("utf-16"), line()),
        (f"INFO 99-07 04:56:17 [loggers.py:1] {V1}", line(None)),
        (ASKED, Access(200)),
        (ASKED.replace("200 OK", "\x1b[32m200 OK\x1b[0m"), Access(200)),
        (ASKED.replace("200 OK", "500 Internal Server Error"), Access(500)),
        (f"(APIServer pid=1) {ASKED}", Access(200)),
        (ASKED.replace("10.0.0.5:53422", ""), Access(200)),  # a unix socket
        (ASKED.replace("chat/completions", "completions?user=me"), Access(200)),
        (ASKED.replace("/v1/", "/llm/v1/"), Access(200)),
        ('{"log": "' + ASKED.replace('"', '\\"') + '\\n", "stream": "stdout"}', Access(200)),
    ],
)
def test_a_line_is_read_as_its_version_wrote_it(text, expected) -> None:
    assert read(text)[0] == [expected]


@pytest.mark.parametrize(
    "text",
    [
        "",
        'INFO:     10.0.0.5:53422 - "GET /v1/models HTTP/1.1" 200 OK',
        'INFO:     10.0.0.5:53422 - "POST /tokenize HTTP/1.1" 200 OK',
        f"INFO 05-07 04:56:17 [logger.py:43] Received request chatcmpl-1: prompt: '{ASKED}'",
        (
            "INFO 05-07 04:56:17 [logger.py:43] Received request chatcmpl-1: prompt: "
            f"'INFO 05-07 04:56:17 [loggers.py:1] Engine 000: {V1}'"
        ),
        "INFO 05-07 04:56:17 [metrics.py:101] SpecDecoding metrics: Mean acceptance length: 2.49",
        "\x00\xff\xfe\x1b[",
    ],
)
def test_what_is_no_line_of_an_engine_or_a_completion_is_passed_over(text) -> None:
    found, log = read(text)
    assert (found, log.unread) == ([], 0)


def test_what_was_read_is_counted_and_so_is_what_was_not() -> None:
    unknown = "INFO 05-07 04:56:17 [loggers.py:1] Avg prompt throughput: 5 tok/s"
    other = "INFO 05-07 04:56:17 [loggers.py:1] Engine 000: Avg prompt throughput: nan tokens/s"
    json = '{"message": "Avg prompt throughput"}'
    text = "\n".join([ASKED, ASKED.replace("200", "400"), V1, "hello", "", unknown, other, json])
    assert read(text)[1] == VllmLog(lines=7, engine_lines=1, completions=1, failed=1, unread=3)


def test_of_a_huge_line_the_start_is_read_and_the_next_line_is_whole() -> None:
    huge = b"x" * (3 * LONGEST) + ASKED.encode() + b"\n" + ASKED.encode()
    assert read(huge)[0] == [Access(200)]


@pytest.mark.parametrize("part", ["INFO ", 'INFO: x - "POST /', "\x1b[0", "Avg prompt ", "\r"])
def test_a_hostile_line_takes_no_longer_than_it_is_long(part) -> None:
    line = part * (LONGEST // len(part))
    assert processor_seconds(lambda: read(line), enough=2.0) < 2.0


def test_rotated_files_are_one_log_packed_or_not(tmp_path) -> None:
    (tmp_path / "vllm.log.1.gz").write_bytes(gzip.compress(b"first\n", mtime=0))
    (tmp_path / "vllm.log.2").write_bytes(bz2.compress(b"second\n"))
    (tmp_path / "vllm.log-xz").write_bytes(lzma.compress(b"third\n"))
    (tmp_path / "vllm.log").write_bytes(b"fourth\nfifth")
    names = ("vllm.log.1.gz", "vllm.log.2", "vllm.log-xz", "vllm.log")
    read_lines = list(log_lines([str(tmp_path / name) for name in names]))
    assert read_lines == [b"first\n", b"second\n", b"third\n", b"fourth\n", b"fifth"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("missing.log", None),
        ("cut.gz", gzip.compress(b"line\n" * 9, mtime=0)[:-9]),
        ("bad.gz", gzip.compress(b"line\n" * 9, mtime=0)[:10] + b"\xff" * 20),
    ],
)
def test_a_file_that_cannot_be_read_is_said_in_one_line(tmp_path, name, content) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match=f"{name}: cannot be read"):
        list(log_lines([str(path)]))
