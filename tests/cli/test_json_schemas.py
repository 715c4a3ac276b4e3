"""What each `--json` prints is what `agenteval schema` publishes of it; anything else is not."""

import copy
import json

import pytest
from json_schemas import DOCUMENTS, PLACE, text
from jsonschema import Draft202012Validator
from pydantic import VERSION
from stored import stored

from agenteval.cli import store as transcript
from agenteval.errors import Cause
from agenteval.testing import card, denied, failing, run, says, sub_agent, tool, trial
from agenteval.trial.call import Ending, Outcome
from agenteval.trial.run import Effort, Look
from agenteval.trial.trial import GoalCheck

CHECK = GoalCheck("the month is written", held=False, expected="5", found=None, said="no file")
STEPS = (("check", True), ("commit", False))


def played(number):
    """Trials that differ in all that a document may say of one."""
    worse = [denied("ls | head", "pipe-to-filter", evidence="| head")] if number % 2 else []
    return trial(
        "uv run notes.py list",
        *worse,
        failing("uv run notes.py show 9"),
        tool("read", path="a", failure_class="bare-binary" if number % 3 else ""),
        says("Done."),
        number=number,
        handshake=STEPS,
        goal=(CHECK,) if number % 2 else (),
        outcome=Outcome.CLAIMED_DONE if number % 2 else Outcome.COMPLETED,
        agents=(sub_agent("helper", denied("ls")),) if number == 4 else (),
    )


BROKEN = trial(number=9, outcome=Outcome.VOID, ending=Ending.BROKEN, cause=next(iter(Cause)))
LOOK = Look(1, 2, 6, 0.05, "FAIL", "r1", "sha256:00", "2026-01-02", "sha256:11")
ONE = run(*map(played, range(1, 7)), BROKEN, model=card("one"), run_id="r1", effort=Effort(30.0))
TWO = run(*map(played, range(2, 9)), model=card("two"), run_id="r2", looks=(LOOK,))
DENSE, MOE = (
    run(*map(played, range(1, 5)), model=card(kind, architecture=kind), run_id=kind)
    for kind in ("dense", "moe")
)
TWO_AND_CANDIDATE = ("--baseline", "r1", "--candidate", "r2")
LOG = (
    "INFO 11-20 10:00:{:02d} loggers.py:116] Engine 000: Avg prompt throughput: 100.0 tokens/s, "
    "Avg generation throughput: 100.0 tokens/s, Running: 2 reqs, Waiting: 0 reqs\n"
)
SESSION = (
    '{"messages": [{"role": "user", "content": "List."}, {"role": "assistant", "content": "OK"}]}'
)
PLAY = ("run", "-m", "sim/qwen3.5-27b", "--trials", "2", "media", "ralf/handshake", "--json")
SLOW = {
    "doctor": ("doctor", "--json"),
    "scenarios-check": ("scenarios", "check", "media/rendered-plot", "--json"),
    "explain": ("gate", "--explain", "--baseline", "r1", "--json"),
    "plan": ("plan", "--baseline", "r1", "--margin", "60", "--json"),
    "plan that no run could keep": ("plan", "--baseline", "r1", "--margin", "0.001", "--json"),
    "report of a table": ("compare", "r1", "counts.csv", "--json"),
    "report of two kinds": ("show", "dense", "moe", "--json"),
    "report of what is played": PLAY,
}
PRINTED = {
    "report": ("show", "r1", "--json"),
    "report of two": ("compare", "r1", "r2", "--json"),
    "runs": ("show", "--json"),
    "transcript": ("transcript", "r1", "notes#4", "--json"),
    "transcript of a void": ("transcript", "r1", "notes#9", "--json"),
    "transcript-agent": ("transcript", "r1", "notes#4", "--agent", "helper/1", "--json"),
    "calls": ("calls", "r1", "--json"),
    "gate": ("gate", *TWO_AND_CANDIDATE, "--json"),
    "ingest": ("ingest", "openai", "sessions.jsonl", "--json"),
    "trend": ("trend", "--json"),
    "speed": ("speed", "r1", "r2", "--json"),
    "speed-log": ("speed", "ingest", "vllm.log", "--json"),
    "scenarios": ("scenarios", "--json"),
    "models": ("models", "--json"),
}
OPTIONAL = {"models": {"sampling"}}  # said where agenteval.toml says it
ANYTHING = {"arguments", "sampling"}  # as a model or an agenteval.toml has it


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return stored(str(tmp_path_factory.mktemp("store") / "runs.db"), ONE, TWO, DENSE, MOE)


@pytest.fixture
def printed(cli, project, store):
    (project / "counts.csv").write_text("model,calls,class,errors\nm,50,bare-binary,5\n")
    (project / "sessions.jsonl").write_text(f"{SESSION}\n{{half")
    (project / "vllm.log").write_text("".join(LOG.format(at) for at in (0, 10, 20)))
    (project / "agenteval.toml").write_text(
        '[models.mine]\nbase_url = "http://127.0.0.1:9/v1"\nmodel = "m"\nsampling.top_k = 3\n'
    )
    without = ("scenarios", "models", "classify", "doctor", "speed ingest")

    def call(*words):
        stored_in = () if " ".join(words).startswith(without) else ("--store", store)
        return json.loads(cli(*words, *stored_in).out)

    return call


@pytest.fixture
def held(cli):
    def by(name):
        schema = json.loads(cli("schema", name).out)
        Draft202012Validator.check_schema(schema)
        return Draft202012Validator(schema)

    return by


def schema_of(name):
    return name.partition(" of ")[0].partition(" that ")[0]


def changed(document):
    """What leads to each place, as it is and with a value of another type, or one key more."""
    for path in places(document):
        yield path, along(document, path), along(document, path, change=True)


def along(document, path, *, change=False):
    """A copy without the objects of lists that this path does not pass, which can't differ."""
    if not path:
        return [["neither"]] if change else copy.deepcopy(document)
    step, *rest = path
    if isinstance(document, list):
        inner = along(document[step], rest, change=change)
        return (
            [inner] if emptied(document) == [] else [*document[:step], inner, *document[step + 1 :]]
        )
    copied = {key: emptied(one) for key, one in document.items() if key != step}
    if change or step in document:
        copied[step] = along(document.get(step), rest, change=change)
    return copied


def emptied(document):
    if isinstance(document, dict):
        return {key: emptied(one) for key, one in document.items()}
    if isinstance(document, list) and all(isinstance(one, dict) for one in document):
        return []
    return document


def places(document):
    """One of each key of each kind of object: a rate is tried once, and not where each stands."""
    seen = set()
    waiting = [((), document)]
    while waiting:
        path, found = waiting.pop()
        if isinstance(found, dict) and (kind := tuple(found)) not in seen:
            seen.add(kind)
            yield (*path, "an unknown key")
            yield from ((*path, key) for key in found)
            waiting += [((*path, key), one) for key, one in found.items() if key not in ANYTHING]
        elif isinstance(found, list):
            yield from ((*path, at) for at in range(len(found[:2])))
            waiting += [((*path, at), one) for at, one in enumerate(found)]


def refuted(held, document):
    assert [f"{list(one.path)}: {one.message}" for one in held.iter_errors(document)] == []
    valid = set()
    for path, as_it_is, broken in changed(document):
        if (printed := json.dumps(as_it_is, sort_keys=True)) not in valid:
            assert held.is_valid(as_it_is), path
            valid.add(printed)
        assert not held.is_valid(broken), path
    for at, one in enumerate(document if isinstance(document, list) else [document]):
        for key in one:
            less = copy.deepcopy(document)
            del (less[at] if isinstance(document, list) else less)[key]
            yield key, held.is_valid(less)


@pytest.mark.skipif(not VERSION.startswith("2.14"), reason="other pydantics word it otherwise")
@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_published_schema_is_what_the_types_say(name):
    assert (PLACE / f"{name}.json").read_text() == text(name)


def test_every_document_has_a_schema_and_every_schema_a_test(cli):
    assert transcript.Document.__origin__.__args__ == tuple(DOCUMENTS)
    tested = {schema_of(name) for name in (*PRINTED, *SLOW)}
    assert tested | {"classify", "whatif"} == set(DOCUMENTS)
    assert {file.stem for file in PLACE.iterdir()} == set(DOCUMENTS)
    assert cli("schema", "nothing").code == 2


@pytest.mark.slow
@pytest.mark.parametrize("name", PRINTED)
def test_a_document_is_as_its_schema_says_and_nothing_else_is(printed, held, name):
    of = held(schema_of(name))
    kept = [key for key, valid in refuted(of, printed(*PRINTED[name])) if valid]
    assert set(kept) <= OPTIONAL.get(name, set())


@pytest.mark.parametrize("command", ["ls", "ls | head", "uv run notes.py list"])
def test_a_line_of_classify_is_as_its_schema_says(printed, held, command):
    line = printed("classify", command, "--json")
    assert not [key for key, valid in refuted(held("classify"), line) if valid]


def test_a_line_of_a_file_of_calls_is_as_its_schema_says(cli, project, held):
    calls = [
        {"id": "a", "name": "bash", "arguments": {"command": "ls"}},
        {"name": "read", "arguments": {"path": "x"}},
        {"name": "bash", "arguments": "{half"},
    ]
    (project / "calls.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in calls))
    lines = cli("classify", "--jsonl", "calls.jsonl", "--json").out.splitlines()
    assert len(lines) == len(calls)
    for line in lines:
        optional = {"id", "name", "arguments"}
        kept = {key for key, valid in refuted(held("classify"), json.loads(line)) if valid}
        assert kept <= optional


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_what_takes_its_time_is_as_its_schema_says(printed, held, name):
    document = printed(*SLOW[name])
    assert not [key for key, valid in refuted(held(schema_of(name)), document) if valid]


@pytest.mark.slow
def test_what_other_rules_would_say_is_as_its_schema_says(printed, held):
    played_run = printed(*PLAY)["runs"][0]["id"]
    document = printed("whatif", played_run, "--json")
    assert document["relaxed"]
    assert not [key for key, valid in refuted(held("whatif"), document) if valid]
