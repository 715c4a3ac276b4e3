"""Calls written as text: what each dialect reads, and what it tells a model."""

import json
import re
import time
from collections.abc import Iterator

import pytest

from agenteval.replies.text_calls import (
    DIALECTS,
    LONGEST,
    calls_left,
    fences,
    kinds,
    read_calls,
    typed,
)

SCHEMAS = {
    "bash": {"type": "object", "properties": {"command": {"type": "string"}}},
    "todo": {
        "type": "object",
        "properties": {"items": {"type": "array"}, "most": {"type": "integer"}},
    },
}
LS = '{"command": "ls"}'

# dialect, text, [(name, argument text, whole)]
TEXTS = {
    "hermes": ("hermes", f'Hm.\n<tool_call>\n{{"name": "bash", "arguments": {LS}}}\n</tool_call>'),
    "hermes without its end": ("hermes", f'<tool_call>{{"name": "bash", "arguments": {LS}}}'),
    "hermes, called parameters": (
        "hermes",
        f'<tool_call>{{"name": "bash", "parameters": {LS}}}</tool_call>',
    ),
    "hermes, the object as text": (
        "hermes",
        f'<tool_call>{{"name": "bash", "arguments": {json.dumps(LS)}}}</tool_call>',
    ),
    "qwen3_coder": (
        "qwen3_coder",
        "<tool_call>\n<function=bash>\n<parameter=command>\nls\n</parameter></function></tool_call>",
    ),
    "qwen3_coder without tool_call": (
        "qwen3_coder",
        "<function=bash><parameter=command>ls</parameter></function> Done.",
    ),
    "json": ("json", f'{{"name": "bash", "arguments": {LS}}}'),
    "json in a fence": ("json", f'```json\n{{"name": "bash", "arguments": {LS}}}\n```'),
}


@pytest.mark.parametrize(("dialect", "text"), TEXTS.values(), ids=TEXTS)
def test_a_whole_call_is_read(dialect, text) -> None:
    (call,) = read_calls(text, DIALECTS[dialect], SCHEMAS)
    assert (call.name, call.raw, call.whole) == ("bash", LS, True)


BROKEN = {
    "hermes, no end of the object": (
        "hermes",
        '<tool_call>{"name": "bash", "arguments": {',
        "bash",
    ),
    "hermes, closed but broken": (
        "hermes",
        '<tool_call>{"name": "bash", "arguments": {]}</tool_call>',
        "bash",
    ),
    "hermes, no name": ("hermes", '<tool_call>{"tool": 1}</tool_call>', ""),
    "hermes, no arguments": ("hermes", '<tool_call>{"name": "bash"}</tool_call>', "bash"),
    "hermes, the name is no text": ("hermes", '<tool_call>{"name": 1}</tool_call>', ""),
    "qwen3_coder, no end of the function": (
        "qwen3_coder",
        "<function=bash>\n<parameter=command>\nls\n</parameter>",
        "bash",
    ),
    "qwen3_coder, no end of a parameter": (
        "qwen3_coder",
        "<function=bash>\n<parameter=command>\nls\n</function>",
        "bash",
    ),
    "json": ("json", '{"name": "bash", "arguments": {"command": "ls', "bash"),
    "json in a fence": ("json", '```json\n{"name": "bash", "arguments": {]}\n```', "bash"),
}


@pytest.mark.parametrize(("dialect", "text", "name"), BROKEN.values(), ids=BROKEN)
def test_a_broken_call_is_itself_the_argument_text_which_is_no_json(dialect, text, name) -> None:
    (call,) = read_calls(text, DIALECTS[dialect], SCHEMAS)
    assert (call.name, call.whole, call.raw in text) == (name, False, True)
    with pytest.raises(ValueError, match=r"."):
        json.loads(call.raw.removeprefix("<tool_call>").removesuffix("</tool_call>") + "]")


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("<parameter=items>\n[1, 2]\n</parameter>", {"items": [1, 2]}),
        ("<parameter=most>\n5\n</parameter>", {"most": 5}),
        ("<parameter=most>\nfive\n</parameter>", {"most": "five"}),
        ("<parameter=other>\n5\n</parameter>", {"other": "5"}),
        ("<parameter=most>" + "[" * 100_000 + "</parameter>", {"most": "[" * 100_000}),
        ("", {}),
    ],
)
def test_a_value_becomes_what_the_schema_says_where_it_can(written, read) -> None:
    text = f"<function=todo>\n{written}\n</function>"
    (call,) = read_calls(text, DIALECTS["qwen3_coder"], SCHEMAS)
    assert json.loads(call.raw) == read


@pytest.mark.parametrize("dialect", ["hermes", "qwen3_coder"])
def test_what_stands_in_a_fence_is_only_spoken_about(dialect) -> None:
    text = f"So:\n```\n{TEXTS[dialect][1]}\n```\n"
    assert read_calls(text, DIALECTS[dialect], SCHEMAS) == []


def test_json_that_names_no_offered_tool_and_json_inside_a_call_are_no_calls() -> None:
    inner = json.dumps({"command": f'echo \'{{"name": "bash", "arguments": {LS}}}\''})
    other = '{"name": "fly", "arguments": {}}'
    text = f'{other} {{"name": "Ada"}} {{"name": "bash", "arguments": {inner}}}'
    calls = read_calls(text, DIALECTS["json"], SCHEMAS)
    assert [call.raw for call in calls] == [inner]


def test_a_call_left_in_text_is_found_once_though_two_dialects_can_read_it() -> None:
    text = TEXTS["hermes"][1] + "\n```\n" + TEXTS["qwen3_coder"][1]
    found = [(dialect.name, call.name, fence) for dialect, call, fence in calls_left(text, SCHEMAS)]
    assert found == [("hermes", "bash", False), ("qwen3_coder", "bash", True)]


def test_plain_words_hold_no_call() -> None:
    assert list(calls_left("I have done it.", SCHEMAS)) == []


@pytest.mark.parametrize("opening", ["<tool_call>{", "<function=x>", '{"name": "bash", '])
def test_a_hostile_text_takes_no_time(opening) -> None:
    text = opening * (LONGEST // len(opening))
    assert len(list(calls_left(text, SCHEMAS))) <= 3 * 64


def test_fences_pair_and_an_open_one_goes_to_the_end() -> None:
    assert fences("a\n```\nb\n```\nc\n~~~\nd") == [(2, 8), (14, 19)]


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=lambda dialect: dialect.name)
def test_a_dialect_tells_every_tool_and_reads_no_call_in_its_own_results(dialect) -> None:
    told, result = dialect.instructions(SCHEMAS), dialect.result("bash", "a\nb")
    assert (
        all(json.dumps(schema) in told for schema in SCHEMAS.values()),
        dialect.mark in told,
        "b" in result,
        list(calls_left(result, SCHEMAS)),
        dialect.title,
    ) == (True, True, True, [], f"{dialect.name}/1")


# More than is parsed for all its brackets.
LONG_CALL = f"[bash(command='{'x' * 200_000}{')' * 20}']"
KIMI = "<|tool_call_begin|>bash<|tool_call_argument_begin|>{]"
OPEN = '<invoke name="bash">\n<parameter name="command">ls\n</invoke>'
GEMMA = "<|tool_call>call:bash{{command:{}}}<tool_call|>"


@pytest.mark.parametrize(
    ("dialect", "text", "found"),
    [
        ("gemma4", GEMMA.format('<|"|>ls<|"|>'), [("bash", LS, True)]),
        ("gemma4", GEMMA.format(""), [("bash", GEMMA.format(""), False)]),
        ("pythonic", '[bash(command="ls)")]', [("bash", '{"command": "ls)"}', True)]),
        ("pythonic", '[bash(command="ls", *more)]', [("bash", None, False)]),
        ("pythonic", '[now(command="ls")]', []),
        ("pythonic", 'I would call bash(command="ls").', []),
        ("pythonic", LONG_CALL, [("bash", None, False)]),
        ("mistral", "[TOOL_CALLS]bash[ARGS][1]", []),
        ("minimax_m2", OPEN, [("bash", OPEN, False)]),
        (
            "kimi_k2",
            "<|tool_call_begin|>bash<|tool_call_argument_begin|>{]",
            [("bash", None, False)],
        ),
    ],
)
def test_what_a_family_writes_is_read_or_kept_as_it_is(dialect, text, found) -> None:
    seen = read_calls(text, DIALECTS[dialect], SCHEMAS)
    read = [(call.name, call.raw if call.whole else found[0][1], call.whole) for call in seen]
    assert (read, read_calls(text, DIALECTS["pythonic"], {})) == (found, [])


ONE = f'{{"name": "bash", "arguments": {LS}}}'
IN_LISTS = {
    "mistral_json": f"[TOOL_CALLS] [{ONE}, {ONE}]",
    "granite": f"<|tool_call|>[{ONE},{ONE}]",
    "jamba": f"<tool_calls>[\n{ONE},\n{ONE}\n]</tool_calls>",
    "phi4_mini": f"functools[{ONE}, {ONE}]",
    "apertus": f'<|tools_prefix|>[{{"bash": {LS}}}, {{"bash": {LS}}}]<|tools_suffix|>',
}


@pytest.mark.parametrize(("dialect", "text"), IN_LISTS.items(), ids=IN_LISTS)
def test_calls_in_a_list_are_read_to_its_end(dialect, text) -> None:
    calls = read_calls(f"{text} Done.", DIALECTS[dialect], SCHEMAS)
    assert [(call.name, call.raw, call.whole) for call in calls] == [("bash", LS, True)] * 2
    assert (calls[0].start, calls[-1].end) == (0, len(text))


CUT = {
    "mistral_json": ('[TOOL_CALLS][{"name": "bash", "arguments": {"comm', "bash"),
    "internlm": (
        '<|action_start|><|plugin|>{"name": "bash", "parameters": {]<|action_end|>',
        "bash",
    ),
    "longcat": ("<longcat_tool_call>{}</longcat_tool_call>", ""),
    "apertus": ('<|tools_prefix|>[{"bash": {"comm', "bash"),
    "plamo3": (
        (
            "<|plamo:begin_tool_name:plamo|>bash<|plamo:end_tool_name:plamo|>"
            "<|plamo:begin_tool_arguments:plamo|>{"
        ),
        "bash",
    ),
    "minimax_m3": (']<]minimax[>[<invoke name="bash">]<]minimax[>[<command>ls', "bash"),
    "kimi_k3": ('<|open|>call tool="bash" index="1"<|sep|><|open|>argument key="c', "bash"),
    "hunyuan": ("<tool_call>bash<tool_sep>\n<arg_key>comm", "bash"),
}


@pytest.mark.parametrize(("dialect", "text", "name"), [(d, *c) for d, c in CUT.items()], ids=CUT)
def test_a_call_cut_within_the_marks_of_its_family_is_broken(dialect, text, name) -> None:
    (call,) = read_calls(text, DIALECTS[dialect], SCHEMAS)
    assert (call.name, call.whole, call.raw) == (name, False, text)


@pytest.mark.parametrize("held", ["[]", "[1]", '["bash"]'])
def test_a_list_without_calls_is_a_broken_one(held) -> None:
    (call,) = read_calls(f"<|tools_prefix|>{held}", DIALECTS["apertus"], SCHEMAS)
    assert (call.name, call.whole) == ("", False)


def test_a_form_that_two_families_share_is_told_by_its_block() -> None:
    call = '<invoke name="bash">\n<parameter name="command">ls</parameter>\n</invoke>'
    texts = (f"<dots_function_call>{call}</dots_function_call>", f"<minimax:tool_call>{call}")
    found = [[dialect.name for dialect, _, _ in calls_left(text, SCHEMAS)] for text in texts]
    assert found == [["dots"], ["minimax_m2"]]


@pytest.mark.parametrize(
    "text",
    [
        "I dropped two unused imports: itertools and functools [both were dead].",
        "functools {lru_cache}",
        "myfunctools[0]",
        "functools\n\n[1]: https://docs.python.org/3/library/functools.html",
    ],
)
def test_words_about_python_are_no_call_of_phi(text) -> None:
    assert list(calls_left(text, SCHEMAS)) == []


@pytest.mark.parametrize(
    ("dialect", "text", "whole"),
    [
        ("mistral_json", f'[TOOL_CALLS][{ONE}, {{"name": "bash", "argu', [True, False]),
        ("mistral_json", f"[TOOL_CALLS][{ONE} {ONE}]", [True, True]),
        ("llama3_json", f"<|python_tag|>{ONE}; {ONE}", [True, True]),
        ("jamba", f'<tool_calls>[{ONE}, {{"name": "bash"}}]</tool_calls>', [True, False]),
        ("apertus", '<|tools_prefix|>[{"bash": {}}, {"bash": {}}]<|tools_suffix|>', [True, True]),
        ("apertus", '<|tools_prefix|>[{"bash": {}}{"bash": {}}]<|tools_suffix|>', [True, True]),
        ("apertus", '<|tools_prefix|>[{"bash": {}}, {"bash": {"c', [True, False]),
        ("apertus", "<|tools_prefix|>[{}]<|tools_suffix|>", [False]),
    ],
)
def test_every_call_of_a_list_is_told_also_one_that_is_broken(dialect, text, whole) -> None:
    assert [call.whole for call in read_calls(text, DIALECTS[dialect], SCHEMAS)] == whole
    assert [call.whole for _, call, _ in calls_left(text, SCHEMAS)] == whole


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"properties": {"n": {"type": ["string", "null"]}}}, "5"),
        ({"properties": {"n": {"type": ["integer", "null"]}}}, 5),
        ({"properties": {"n": True}}, "5"),
        ({"properties": []}, "5"),
        (True, "5"),
    ],
)
def test_a_type_may_be_a_list_or_missing(schema, value) -> None:
    assert typed("5", kinds(schema).get("n")) == value


def repeated(dialect) -> Iterator[tuple[str, str, str]]:
    """Parts of a dialect's example that a text may hold again and again, and what is around."""
    example = dialect.instructions({}).rpartition("result:\n")[2][-300:]
    cuts = sorted({0, len(example), *(m.end() for m in re.finditer(r'[\]\[{}()<>"`|]', example))})
    for at, cut in enumerate(cuts):
        for unit in (" ", "\n", "a", "[", *(example[cut:to] for to in cuts[at + 1 : at + 5])):
            yield example[:cut], unit, example[cut:]
            yield "", unit, ""


def seconds(dialect, head: str, unit: str, tail: str, size: int) -> float:
    text = head + (unit * (size // len(unit)))[:size] + tail
    spent = []
    for _ in range(3):
        before = time.process_time()
        list(dialect.find(text, {"NAME": {}}))
        spent.append(time.process_time() - before)
    return min(spent)


@pytest.mark.slow
@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
def test_a_text_four_times_as_long_takes_no_sixteen_times_as_long(dialect) -> None:
    """Marks and blanks without end: else a reply of a model could hold up everybody's trials."""
    for head, unit, tail in repeated(dialect):
        around = dialect, head, unit, tail
        if seconds(*around, 4_000) > 0.004:  # a read that is linear takes a tenth of this
            # A busy machine may be slower for one of the two; what grows by squares always is.
            is_linear = (seconds(*around, 16_000) < 9 * seconds(*around, 4_000) for _ in range(4))
            assert any(is_linear), (head, unit, tail)
