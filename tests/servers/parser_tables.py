"""Makes parser_table.json: reply, parser, whole or streamed, and the message that came of it.

`make parsers` runs this in an environment that has the wheels of vLLM and SGLang unpacked.
"""

import json
import logging
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import parse_reasoning
import parse_replies

SECONDS = 10  # of the processor, for one reply
FIELDS = {parse_replies: ("content", "calls"), parse_reasoning: ("reasoning", "content", "calls")}
Parse = Callable[[str, str, bool], tuple[Any, ...]]


def outcome(parse: Parse, name: str, text: str, fields: tuple[str, ...], way: str) -> Mapping:
    """The message, or how the parser failed: a server then answers with an error."""
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        return dict(zip(fields, parse(name, text, way == "streamed"), strict=True))
    except Exception as error:  # noqa: BLE001 -- of somebody else's code, and a finding
        return {"error": type(error).__name__}
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def table(server: str, kind: ModuleType) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """By reply the messages that came, each with the parsers and ways that gave it."""
    parse = getattr(kind, server)
    for reply, text in kind.REPLIES.items():
        seen: dict[str, list[str]] = {}
        for name in kind.names(server):
            for way in ("whole", "streamed"):
                message = outcome(parse, name, text, FIELDS[kind], way)
                seen.setdefault(json.dumps(message, ensure_ascii=False), []).append(f"{name} {way}")
        yield reply, [{**json.loads(message), "by": by} for message, by in seen.items()]


def _late(*_: object) -> None:
    raise TimeoutError


def main(wheels: Path, versions: Mapping[str, str], target: Path) -> None:
    logging.disable(logging.CRITICAL)
    signal.signal(signal.SIGPROF, _late)
    parse_replies.open_packages(wheels)
    made: dict[str, Any] = {"versions": versions}
    for title, kind in (("tools", parse_replies), ("reasoning", parse_reasoning)):
        messages = {server: dict(table(server, kind)) for server in ("vllm", "sglang")}
        made[title] = {"replies": kind.REPLIES, "messages": messages}
    target.write_text(_on_lines(made) + "\n", encoding="utf-8")


def _on_lines(value: object, deep: int = 5) -> str:
    """JSON with a line for each message, so that a version which moves shows what it moved."""
    if not isinstance(value, dict) or not deep:
        rows = value if isinstance(value, list) and deep else [value]
        parts = [json.dumps(row, ensure_ascii=False) for row in rows]
        return "[\n" + ",\n".join(parts) + "\n]" if rows is value else parts[0]
    parts = [f"{json.dumps(key)}: {_on_lines(each, deep - 1)}" for key, each in value.items()]
    return "{\n" + ",\n".join(parts) + "\n}"


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]), Path(sys.argv[3]))
