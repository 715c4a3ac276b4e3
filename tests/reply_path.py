"""The whole way of one reply without a server: bytes, turn, verdict, next request, store, pages."""

import io
import json
import math
import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

from rich.console import Console
from sqlalchemy.dialects import postgresql, sqlite

from agenteval.classes.judge import judge
from agenteval.config.allowlists import load_policy
from agenteval.config.models import ModelEntry
from agenteval.config.prompts import arms
from agenteval.config.trust import roots
from agenteval.models.failures import RefusedError, refused_call
from agenteval.models.request import asked_of, read_reply, request_body, turn_of
from agenteval.models.stream import StreamReader
from agenteval.play import tools
from agenteval.policy.policy import World
from agenteval.replies.arrival import ReplyError
from agenteval.report import console, files, html
from agenteval.report import json as json_report
from agenteval.report.build import build_view
from agenteval.store import read
from agenteval.store.migration import METADATA
from agenteval.testing import run, trial
from agenteval.trial.call import Ending, ToolCall, outcome
from agenteval.trial.claims import claims_done
from agenteval.trial.intents import intent_of, likeness, same_intent
from agenteval.trial.recovery import looped, trial_recovery
from agenteval.trial.trial import CallRecord, Message, Trial, Turn, Usage

BEGIN = (Message("system", "You keep notes."), Message("user", "List them."))
WORLD = World(frozenset(("scripts/notes.py",)))
ENTRIES = (
    ModelEntry(base_url="http://127.0.0.1/v1", model="m"),
    ModelEntry(base_url="http://127.0.0.1/v1", model="m", tool_parser="qwen3_coder"),
    *(
        ModelEntry(base_url="http://127.0.0.1/v1", model="m", tools="text", dialect=name)
        for name in ("hermes", "qwen3_coder", "json")
    ),
)
ARMS = arms()
DIALECTS = (postgresql.dialect(), sqlite.dialect())
UNSHOWN = {*range(32), 127, *range(128, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A)}
UNSHOWN -= {ord("\n"), ord("\t")}


class ReplyPath:
    def __init__(self) -> None:
        self.policy = load_policy("notes", roots=roots())

    def turn(self, body: bytes, chance: random.Random, *, stream: bool) -> Turn | None:
        """The turn in a reply; None for one that is the server's fault."""
        arm = ARMS[chance.choice(sorted(ARMS))]
        schemas = tools.schemas(arm.profile, tuple(self.policy.tools))
        entry = chance.choice(ENTRIES)
        asked = asked_of(entry, BEGIN, schemas)
        try:
            received, usage = _streamed(body, chance) if stream else read_reply(body)
        except ReplyError as error:
            str(error).encode()
            return None
        except RefusedError as error:
            if (received := refused_call(error.said)) is None:
                return None
            usage = Usage()
        turn = turn_of(received, asked, usage=usage, raw="{}", seconds=1.0)
        records = [self._handled(at, call, arm, chance) for at, call in enumerate(turn.calls)]
        said = [Message("tool", one.reply, call_id=one.call.id) for one in records]
        messages = [*BEGIN, Message("assistant", turn.text, turn.calls), *said]
        json.loads(request_body(entry, messages, schemas, 1).decode())
        _compared(turn, records)
        self._stored(turn, records)
        return turn

    def _handled(self, at: int, call: ToolCall, arm, chance: random.Random) -> CallRecord:
        """As `engine.hands` does, up to the sandbox."""
        policy, meant = self.policy, arm.profile.as_own_call(call, tuple(self.policy.tools))
        if meant is None:
            policy, meant = replace(policy, tools={}), call
        verdict = judge(meant, policy, WORLD)
        reply = "ok" if verdict.allowed else tools.denial(meant, verdict, arm, policy)
        return CallRecord(0, at, meant, verdict, reply)

    def _stored(self, turn: Turn, records: Sequence[CallRecord]) -> None:
        _bound("turn", read.turn_values(1, 0, turn, agent=""))
        for record in records:
            values = read.call_values(1, record, agent="", policy="p", taxonomy="t")
            _bound("call", values)

    def played(self, turns: Sequence[Turn], number: int) -> Trial:
        """A trial of these turns, its calls judged."""
        arm, chance = ARMS["strict"], random.Random(1)
        calls = tuple(
            replace(self._handled(at, call, arm, chance), turn=which)
            for which, turn in enumerate(turns)
            for at, call in enumerate(turn.calls)
        )
        return replace(trial(number=number), turns=tuple(turns), calls=calls)


def _streamed(body: bytes, chance: random.Random):
    reader = StreamReader()
    size = chance.choice((1 << 20, 1 << 20, 100, 7))
    for at in range(0, len(body), size):
        reader.feed(body[at : at + size], float(at))
    reader.raw().encode()
    received = reader.received()
    reader.timing()
    return received


def _compared(turn: Turn, records: Sequence[CallRecord]) -> None:
    """What reads the calls of a trial once it is played."""
    played = replace(trial(), turns=(turn,), calls=tuple(records))
    trial_recovery(played)
    str(looped(list(records) * 5))
    intents = [intent_of(one.call) for one in records]
    for one, other in product(intents, intents):
        likeness(one, other)
        same_intent(one, other)
    outcome(Ending.STOPPED, goal_met=False, last_denied=False, claimed=claims_done(turn.text))


def _bound(table: str, values) -> None:
    """Every value is one that SQLite and PostgreSQL take, and comes back as it was."""
    for name, value in values.items():
        kind = METADATA.tables[table].c[name].type
        for dialect in DIALECTS:
            given, taken = kind.bind_processor(dialect), kind.result_processor(dialect, None)
            stored = given(value) if given else value
            back = taken(stored) if taken else stored
            if dialect.name == "postgresql" and not isinstance(stored, str | None | int | float):
                stored = json.dumps(stored, allow_nan=False)
            _storable(name, stored)
            if isinstance(stored, str) and isinstance(back, str):
                assert back == value, name


def _storable(name: str, stored: object) -> None:
    if isinstance(stored, str):
        stored.encode()
        assert "\0" not in stored, name
        assert "NaN" not in stored or "NaN" in json.dumps(stored), name
    elif isinstance(stored, float):
        assert math.isfinite(stored), name
    elif isinstance(stored, int):
        assert -(1 << 31) <= stored < 1 << 31, name


def drawn(trials: Sequence[Trial]) -> None:
    """Every page of a run of these trials can be written, and shows nothing that hides."""
    view = build_view([run(*trials)])
    page = html.page(view)
    page.encode()
    hidden = {hex(ord(one)) for one in page if ord(one) in UNSHOWN}
    assert not hidden, hidden
    assert len(page) < 40_000_000
    json.loads(json_report.dumps(view))
    files.markdown_text(view).encode()
    out = Console(file=io.StringIO(), width=100, color_system=None)
    console.render(view, out)
    out.file.getvalue().encode()  # type: ignore[attr-defined] -- a StringIO
