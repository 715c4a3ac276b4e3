"""What a terminal or a CI runner obeys comes out as a sign, whoever wrote it."""

import pytest
from hostile_names import obeyed
from stored import stored

from agenteval.testing import card, denied, run, says, tool, trial
from agenteval.trial.call import Outcome

# ESC, BEL, C1, what turns the writing round; and lines that a runner would obey.
NAME = "a\x1b]0;pwn\x07b\x9b31mc\u202ed\x7fe\n::add-mask::y\r::error::z\u2028##[group]g"
HIDING = f"{NAME}\udc00"  # of a model's text only: a name with half a character is no UTF-8
SHOWN = "⟨U+202E⟩d"
RULES = "[margin]\npoints = 20\n[minimum]\ntrials = 2\ncalls = 2\n"
GATE = ("gate", "--baseline", "one", "--candidate", "two")


def raw(text: str) -> list[str]:
    return [hex(ord(one)) for one in text if not one.isprintable() and one not in "\n\t"]


def hostile(number):
    return trial(
        says(HIDING),
        denied(f"uv run scripts/{HIDING}.py list | head", "pipe-to-filter", evidence="| head"),
        denied(f"{HIDING} --{HIDING}", "hallucinated-flag", evidence=f"--{HIDING}"),
        tool(HIDING, failure_class="hallucinated-tool", path=HIDING),
        tool(HIDING * 5000, failure_class="hallucinated-tool"),
        "ls '\u202ed'",  # other control characters are ambiguous to any rule, so never let through
        number=number,
        outcome=Outcome.GAVE_UP,
        reason=HIDING,
    )


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Two runs whose models, servers, tools, commands and ends are called so."""
    trials = [hostile(number) for number in (1, 2, 3)]
    runs = [
        run(*trials, model=card(f"{name} {NAME}", server=NAME, quantization=name), run_id=name)
        for name in ("one", "two")
    ]
    return stored(str(tmp_path_factory.mktemp("store") / "runs.db"), *runs)


@pytest.mark.parametrize(
    "words",
    [
        ("show",),
        ("show", "one", "two"),
        ("show", "one", "--details"),
        ("show", "one", "--report", "show.md"),
        ("compare", "one", "two"),
        ("compare", "one", "two", "--report", "compare.md"),
        ("compare", "one", "two", "--stacks"),
        ("calls", "one"),
        ("calls", "one", "--json"),
        ("transcript", "one", "notes#1"),
        ("suggest", "one", "--allowlist", "demo"),
        ("whatif", "one", "--allowlist", "demo"),
        ("trend",),
        ("trend", "--openmetrics"),
        ("show", NAME),
        GATE,
        (*GATE, "--json"),
        (*GATE, "--markdown", "verdict.md", "--junit", "verdict.xml", "--out", "out"),
    ],
    ids=" ".join,
)
def test_what_a_terminal_obeys_comes_out_as_a_sign(words, cli, store, project, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    (project / "gate.toml").write_text(RULES)
    (project / "out").mkdir()
    said = cli(*words, "--store", store)
    assert "Traceback" not in said.err
    files = [*project.glob("*.md"), *project.glob("*.xml"), *project.glob("out/*")]
    texts = [said.out, said.err, *(file.read_text(encoding="utf-8") for file in files)]
    assert ([*map(raw, texts)], len(files)) == ([[]] * len(texts), _files(words))
    assert (obeyed(said.out), obeyed(said.err)) == ([], [])
    assert "--json" in words or any(SHOWN in text for text in texts), said.out


def _files(words):
    return 5 if "--out" in words else int("--report" in words)


def test_a_long_name_is_cut_by_suggest(cli, store):
    lines = cli("suggest", "one", "--store", store).out.splitlines()
    assert "more characters)" in lines[3]
    assert max(map(len, lines)) < 1000
