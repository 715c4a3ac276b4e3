"""Two runs of the same worlds, as the viewer's tests look at them."""

from starlette.testclient import TestClient

from agenteval.errors import Cause
from agenteval.testing import card, denied, failing, run, says, sub_agent, tool, trial
from agenteval.trial.call import Ending, Outcome
from agenteval.trial.trial import GoalCheck
from agenteval.viewer.application import Guard, application

FIRST = run(
    trial(
        "uv run notes.py list",
        denied("uv run notes.py list | head -5", "pipe-to-filter", evidence="| head -5"),
        "uv run notes.py show 1",
        says("The note says: <b>buy</b> milk."),
        agents=(sub_agent("checker", denied("cat notes.db"), says("It is so.")),),
        handshake=(("list", True), ("show", False)),
        goal=(GoalCheck("the note is read", held=False, expected="1", found="0"),),
        outcome=Outcome.CLAIMED_DONE,
        scenario="notes/read",
    ),
    trial(failing("uv run notes.py show 9"), says("Done."), number=2, scenario="notes/read"),
    trial(
        denied("ls"),
        scenario="mail/draft",
        outcome=Outcome.VOID,
        ending=Ending.BROKEN,
        cause=Cause.CRASHED,
        reason="the server went away\nTraceback: ...",
    ),
    run_id="first",
    model=card("model-a"),
)
SECOND = run(
    trial(
        "uv run notes.py list",
        tool("read", path="notes.md"),
        says("It is read."),
        scenario="notes/read",
    ),
    run_id="second",
    started="2026-01-03T00:00:00Z",
    model=card("model-b", simulated=True),
)
GUARD = Guard("127.0.0.1", 8765, "the-token")


def client(store: str, *, writes: bool = False) -> TestClient:
    asking = TestClient(application(store, GUARD), base_url="http://127.0.0.1:8765")
    if writes:
        asking.get("/", params={"token": GUARD.token})
    return asking
