"""Replies that no server should send, and words that no model should write, drawn by chance."""

import json
import random
import string

from agenteval.trial.text import is_legible

HALF, OTHER = "\ud83d", "\ude00"
TEXTS = (
    *("", " ", "ls", "Done. All steps completed.", "x" * 3000, "ab " * 800, "\0", "a\0b", HALF),
    *(OTHER + HALF, f"{HALF}{OTHER}", "🙂 grüße 日本", "\u202e\u2066gpj.exe", "\u200b\ufeff\u00ad"),
    *(
        "\x1b[31mred\x1b]0;t\x07",
        "\x7f\x80\x9b",
        "\ufffe\uffff",
        "\udfff",
        "</script><img onerror=x>",
    ),
    *("<tool_call>", '<tool_call>{"name": "bash", "arguments": {"a": NaN}}</tool_call>'),
    *('<tool_call>{"name": "bash", "arguments": {"command": "\\ud83d"}}', "<function=bash>"),
    *("<function=bash><parameter=command>[[[[</parameter></function>", "<|channel|>", "```json\n"),
    *(
        "{{ x }} %s {0} {tool} {",
        "\\ud83d",
        "\\",
        '"',
        "'",
        "$(",
        "`",
        "<<EOF",
        "a;b|c&&d>e",
        "${x:-",
    ),
    *("NaN", "null", "true", "-0", "\r\n\t\v\f", "a\u2028b\u2029c", "é" * 700, "\u0301" * 600),
)
NAMES = ("bash", "read", "write", "functions.bash", "bash<|channel|>", "ls -la", "now")
NUMBERS = (
    "9" * 4301,
    "-" + "9" * 400,
    "1e999",
    "NaN",
    "-Infinity",
    "0",
    "1.5",
    "4294967296",
    "1e18",
)
DEEP = (50, 150, 990, 5000)


def words(chance: random.Random) -> str:
    """Text, often odd, sometimes of several parts."""
    parts = [chance.choice(TEXTS) for _ in range(chance.randint(1, 3))]
    if chance.random() < 0.1:
        parts.append("".join(map(chr, (chance.randrange(0x3000) for _ in range(20)))))
    return "".join(parts)


def number(chance: random.Random) -> str:
    return chance.choice(NUMBERS)


def deep(chance: random.Random) -> str:
    depth = chance.choice(DEEP)
    opens, closes = chance.choice((("[", "]"), ('{"a":', "}"), ('[{"b":', "}]")))
    return f"{opens * depth}1{closes * depth}"


def command(chance: random.Random) -> str:
    """A command that is nearly right, or was."""
    good = (
        "uv run scripts/notes.py list",
        "uv run scripts/search.py budget",
        "ls notes",
        "cat a | b",
    )
    text = list(chance.choice(good))
    for _ in range(chance.randint(0, 3)):
        text.insert(chance.randint(0, len(text)), words(chance)[:40])
    return "".join(text)


def arguments(chance: random.Random) -> str:
    """The argument text of a call, as a model may write it."""
    key = chance.choice(("command", "command", "path", "content", "filePath", HALF, "a\0"))
    value = chance.choice((command, command, words))(chance)
    text = json.dumps({key: value, "path": value}, ensure_ascii=chance.random() < 0.5)
    match chance.randrange(8):
        case 0:
            return f'{{"{chance.choice(("command", "n"))}": {number(chance)}}}'
        case 1:
            return f'{{"command": {deep(chance)}}}'
        case 2:
            return text[: chance.randrange(len(text))]
        case 3:
            return f'{{"command": "ls", {text[1:]}'  # a key that comes twice
        case 4:
            return words(chance)
        case _:
            return text


def quoted(text: str, chance: random.Random) -> str:
    return json.dumps(text, ensure_ascii=not is_legible(text) or chance.random() < 0.5)


def said(chance: random.Random) -> list[tuple[str, str]]:
    """The fields of a message: names, and their JSON."""
    fields = [("content", quoted(words(chance), chance))]
    if chance.random() < 0.3:
        name = chance.choice(("reasoning", "reasoning_content"))
        fields.append((name, quoted(words(chance), chance)))
    if chance.random() < 0.8:
        calls = ",".join(call(at, chance) for at in range(chance.randint(1, 3)))
        fields.append(("tool_calls", f"[{calls}]"))
    return fields


def call(at: int, chance: random.Random) -> str:
    name = chance.choice(NAMES) if chance.random() < 0.8 else words(chance)
    text = arguments(chance)
    is_object = text.startswith("{") and chance.random() < 0.2 and _is_json(text)
    given = text if is_object else quoted(text, chance)
    function = f'{{"name":{quoted(name, chance)},"arguments":{given}}}'
    ident = quoted(chance.choice(("c", "c", words(chance))), chance)
    return f'{{"index":{at},"id":{ident},"type":"function","function":{function}}}'


def _is_json(text: str) -> bool:
    """Whether a server that parses arguments could have parsed these, and written them again."""
    try:
        json.loads(text.replace("9" * 400, "9"))
    except RecursionError:
        return True
    except ValueError:
        return False
    return True


def obj(fields: list[tuple[str, str]]) -> str:
    return "{" + ",".join(f"{json.dumps(name)}:{value}" for name, value in fields) + "}"


def chunk(kind: str, fields: list[tuple[str, str]], finish: str = "null") -> str:
    return obj(
        [("choices", f'[{{"{kind}":{obj(fields)},"finish_reason":{finish}}}]'), ("model", '"m"')]
    )


def good_wire(chance: random.Random, *, stream: bool) -> bytes:
    """A reply whose wire is as it should be, whatever the model wrote."""
    fields = said(chance)
    end = '"tool_calls"' if fields[-1][0] == "tool_calls" else '"stop"'
    if not stream:
        return _bytes(chunk("message", fields, end))
    events = [chunk("delta", [field]) for field in fields]
    lines = [*events, chunk("delta", [], end), "[DONE]"]
    return _bytes("".join(f"data: {line}\n\n" for line in lines))


def broken_wire(chance: random.Random, *, stream: bool) -> bytes:
    """The same with a few mistakes anywhere: in a type, a field, a byte, its end."""
    body = good_wire(chance, stream=stream)
    for _ in range(chance.randint(1, 3)):
        body = chance.choice(MISTAKES)(body, chance)
    return body


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _cut(body: bytes, chance: random.Random) -> bytes:
    return body[: chance.randint(0, len(body))]


def _flipped(body: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(body) + 1)
    return body[:at] + bytes([chance.randrange(256)]) + body[at + 1 :]


def _strewn(body: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(body) + 1)
    odd = (
        b"\xff",
        b"\xed\xa0\xbd",
        b"\xc3",
        b"\0",
        b'"',
        b"{",
        b"]",
        b"\\ud83d",
        b"\\",
        b"\n",
        b"\r",
    )
    return body[:at] + chance.choice(odd) + body[at:]


def _retyped(body: bytes, chance: random.Random) -> bytes:
    """Another value where one field has its own."""
    fields = (b"content", b"index", b"id", b"name", b"arguments", b"finish_reason", b"model")
    fields += (b"choices", b"tool_calls", b"function", b"delta", b"message")
    field = b'"' + chance.choice(fields) + b'":'
    at = body.find(field)
    if at < 0:
        return body
    return body[: at + len(field)] + _value(chance) + b"," + field + body[at + len(field) :]


def _value(chance: random.Random) -> bytes:
    kinds = ("null", "7", "true", '""', '"0"', "[]", "{}", '[{"text":"a"}]', "[7]", '{"a":[]}')
    odd = (chance.choice(kinds), number(chance), deep(chance), quoted(words(chance), chance))
    return _bytes(chance.choice(odd))


def _added(body: bytes, chance: random.Random) -> bytes:
    """A field that is not asked for, or once more."""
    names = ("error", "usage", "choices", "model", string.ascii_letters)
    value = _value(chance)
    if chance.random() < 0.5:
        count = number(chance).encode()
        value = b'{"prompt_tokens":' + count + b',"completion_tokens":' + value + b"}"
    name = json.dumps(chance.choice(names)).encode()
    return body.replace(b'{"choices"', b"{" + name + b":" + value + b',"choices"', 1)


def _doubled(body: bytes, chance: random.Random) -> bytes:
    at, length = chance.randrange(len(body) + 1), chance.randint(1, 60)
    return body[:at] + body[at : at + length] * chance.randint(2, 40) + body[at:]


MISTAKES = (_cut, _flipped, _strewn, _retyped, _retyped, _retyped, _added, _added, _doubled)
