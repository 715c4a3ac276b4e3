"""What arrives of a model, and what it is from then on."""

import json

import pytest

from agenteval.trial import text as plain
from agenteval.trial.call import LONGEST_NAME, Received, ReceivedCall, arrived
from agenteval.trial.text import decoded, is_legible, legible, paired, shortened, visible

HALF, OTHER = "\ud83d", "\ude00"


@pytest.mark.parametrize(
    ("came", "together", "shown"),
    [
        ("plain", "plain", "plain"),
        ("grüße 🙂", "grüße 🙂", "grüße 🙂"),
        (HALF + OTHER, "😀", "😀"),
        (f"a{HALF}", f"a{HALF}", "a\ufffd"),
        (OTHER + HALF, OTHER + HALF, "\ufffd\ufffd"),
        (decoded(b"a\xff\xc3\xa4"), "a\udcffä", "a\ufffdä"),
        ("a\0b", "a\0b", "a\0b"),
    ],
)
def test_halves_are_put_together_and_what_is_left_of_them_is_no_text(came, together, shown) -> None:
    assert (paired(came), legible(paired(came)), is_legible(legible(came))) == (
        together,
        shown,
        True,
    )


NOT_PLAIN = {
    "half a character": ('{"a": "\\ud83d"}', "half a character"),
    "half a character in a name": ('{"\\ud83d": 1}', "half a character"),
    "a half as it is": (f'{{"a": "{HALF}"}}', "half a character"),
    "5,000 digits": (
        f'{{"a": {"9" * 5000}}}',
        "a number beyond all bounds: 99999999999999999999...",
    ),
    "an exponent": ('{"a": 1e999}', "a number beyond all bounds"),
    "NaN": ('{"a": NaN}', "NaN is no JSON"),
    "Infinity": ('{"a": -Infinity}', "-Infinity is no JSON"),
    "101 levels": ("[" * 101 + "]" * 101, "nested deeper than 100 levels"),
    "101 levels of both": ('{"a":[' * 51 + "]}" * 51, "nested deeper than 100 levels"),
    "100,000 levels": ("[" * 100_000, "nested without end"),
    "a rest": ('{"a": 1} x', "Extra data"),
    "nothing": ("", "Expecting value"),
}


@pytest.mark.parametrize(("text", "why"), NOT_PLAIN.values(), ids=NOT_PLAIN)
def test_what_not_every_program_reads_is_no_json(text, why) -> None:
    with pytest.raises(ValueError, match=why.replace(".", r"\.")):
        plain.read(text)


@pytest.mark.parametrize(
    "value",
    [
        {"a": "\0\x1b ü 🙂 \u202e"},
        {"a": 10**308, "b": -1.5e300, "c": None, "d": True},
        json.loads("[" * 100 + "]" * 100),
        [{}] * 300,
        "ls",
    ],
)
def test_all_else_is_read_with_or_without_escapes(value) -> None:
    texts = [json.dumps(value), json.dumps(value, ensure_ascii=False), f" {json.dumps(value)}\n"]
    assert [plain.read(text) for text in texts] == [value] * 3


def test_a_reply_is_text_in_each_of_its_parts_and_says_which_were_not() -> None:
    odd = f"x{HALF}"
    received = Received(
        text=odd,
        reasoning="fine",
        calls=(
            ReceivedCall(odd, "{}", odd),
            ReceivedCall("bash", odd),
            ReceivedCall("n" * 9999, ""),
        ),
        finish_reason=odd,
        refusal=odd,
        repeats=odd,
        model=odd,
    )
    assert arrived(received) == Received(
        text="x\ufffd",
        reasoning="fine",
        calls=(
            ReceivedCall("x\ufffd", "{}", "x\ufffd", broken=True),
            ReceivedCall("bash", "x\ufffd", broken=True),
            ReceivedCall("n" * LONGEST_NAME, ""),
        ),
        finish_reason="x\ufffd",
        refusal="x\ufffd",
        repeats="x\ufffd",
        model="x\ufffd",
        broken=True,
    )


def test_a_reply_of_text_stays_as_it_is() -> None:
    received = Received("ü", "🙂", (ReceivedCall("bash", '{"a": "\\ud83d"}', "c"),), "stop")
    assert arrived(received) == received


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("ls -la\n\tü 🙂", "ls -la\n\tü 🙂"),
        ("a\0b\x1b[31m\r\x7f", "a\u2400b\u241b[31m\u240d\u2421"),
        ("\u202egpj.exe\u2066", "⟨U+202E⟩gpj.exe⟨U+2066⟩"),
        ("a\u200bb\ufeff\x9b", "a⟨U+200B⟩b⟨U+FEFF⟩⟨U+009B⟩"),
        ("\ud83d", "⟨U+D83D⟩"),
    ],
)
def test_what_would_hide_is_a_sign(text, shown) -> None:
    assert visible(text) == shown


def test_whatever_a_text_has_it_is_printable_then_and_does_not_fill_the_memory() -> None:
    every = [chr(code) for code in range(0, 0x110000, 7)]
    shown = [visible(one) for one in every]
    told = visible("".join(every))
    assert told == "".join(shown)
    assert {one for one in told if not one.isprintable()} <= {"\n", "\t"}
    assert len(plain._SIGNS) <= 0x3000


@pytest.mark.parametrize(("text", "shown"), [("abc", "abc"), ("abcde", "abc (2 more characters)")])
def test_a_long_text_is_cut_and_says_so(text, shown) -> None:
    assert shortened(text, 3) == shown
