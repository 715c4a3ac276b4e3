"""The likely mistakes: a shipped solution with one thing done wrong or left out reaches no goal.

And what is right in other words, or written in another way, reaches it.
"""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from alone import holds
from suite import PROJECT, SCENARIOS

from agenteval.config.scenarios import load_fixture
from agenteval.sandbox.maker import fill, render

BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}
SEED = 3

EVERY_DAY = (
    "{% for m in range(1, 13) %}{% for d in range(1, 32) %}"
    "{{ '%s-%02d-%02d ' % (day[:4], m, d) }}{% endfor %}{% endfor %}"
)
# What stands in the solution, and what stands there instead: templates over the trial's variables.
WRONG_WAYS = [
    ("home/lights", "set --lamp {{ lamp }} --level {{ level }}", "list"),
    ("home/lights", "set --lamp {{ second }} --level 0", "list"),
    (
        "home/lights",
        "scenes.py list",
        "device.py send --do close --device {{ room | replace(' ', '-') }}-west #",
    ),
    ("home/heating-plan", '"day":"sat"', '"day":"sun"'),
    ("home/heating-plan", '"day":"wed"', '"day":"thu"'),
    ("home/silent-shutter", "send --do close --device {{ silent }}", "list"),
    ("home/silent-shutter", "relay.py list", "relay.py pulse --relay {{ relay }}"),
    (
        "home/silent-shutter",
        "device.py send --device {{ first }} --do close",
        (
            "relay.py pulse --relay $(uv run scripts/relay.py list"
            " | sed -n 's/^relay \\(.*\\): {{ first }}$/\\1/p')"
        ),
    ),
    ("home/silent-shutter", "closed by relay {{ relay }}", "closed by its relay"),
    (
        "home/silent-shutter",
        "relay.py list",
        'journal.py add --device {{ silent }} --text "Closed by relay 99." #',
    ),
    ("home/energy-note", "now: {{ now }} kWh", "now: more"),
    ("home/energy-note", "circuit: {{ circuit }}", "circuit: all of them"),
    (
        "home/energy-note",
        "circuit: {{ circuit }}",
        "circuit: boiler garden sockets kitchen sockets oven server shelf {{ circuit }}",
    ),
    ("home/energy-note", "before: {{ before }} kWh", "before: 1 2 3 {{ before }} 5"),
    ("mail/search-and-answer", "comes on {{ day }}", "comes soon"),
    ("mail/search-and-answer", "comes on {{ day }}", f"comes on one of {EVERY_DAY}"),
    ("mail/search-and-answer", "reply --id {{ question }}", "reply --id {{ last }}"),
    (
        "mail/search-and-answer",
        "mail.py show --id {{ last }}",
        "outbox.py reply --id {{ last }} --body x",
    ),
    ("mail/draft", "\n", " "),
    ("mail/draft", "\\$", "$"),
    ("mail/draft", "{{ address }}", "{{ sender | lower }}@example.org"),
    ("mail/draft", "mail.py show --id {{ mail }}", "outbox.py reply --id {{ mail }} --body yes"),
    ("mail/triage", "--id {{ first }} --label {{ label_1 }}", "--id {{ first }} --label x"),
    ("mail/triage", "--id {{ fifth }}", "--id {{ fifth + 1 }}"),
    ("mail/corrected-invoice", "--position {{ position }}", "--position {{ position + 1 }}"),
    ("mail/corrected-invoice", "--amount {{ amount }}", "--amount 100"),
    ("mail/corrected-invoice", "attachments.py list", "outbox.py reply --id {{ mail }} --body x"),
    ("calendar/free-slot", "--start {{ start }}", "--start 16:00"),
    ("calendar/free-slot", " --person {{ two }} --person {{ three }}", " --person {{ three }}"),
    ("calendar/move-series", "move --event {{ event_4 }}", "move --event {{ event_3 }}"),
    (
        "calendar/move-series",
        "series.py list",
        "series_admin.py --series {{ series }} --start 20:00",
    ),
    ("calendar/conflicts", "decline --event {{ last }}", "decline --event {{ first }}"),
    ("calendar/conflicts", "cal.py list", "cal.py move --event {{ last }} --start 20:00 #"),
    ("calendar/travel-time", "--start {{ start }}", "--start {{ local }}"),
    ("calendar/travel-time", "--minutes {{ way }} --person", "--minutes 61 --person"),
    ("media/rendered-pages", "--reason size", "--reason blank"),
    ("data/hung-import", "jobs.py list", "jobs.py end --pid {{ waiting }}"),
    ("data/hung-import", "--rejected {{ rejected }}", "--rejected {{ rejected + 1 }}"),
    ("data/hung-import", "jobs.py start --job {{ job }}", "jobs.py list"),
    (
        "media/rendered-pages",
        "image_meta.py list",
        "render_queue.py add --image {{ blank }} --reason size #",
    ),
    (
        "media/rendered-plot",
        "notes.py questions --open",
        "notes.py answer --question 20 --day {{ day }} --note {{ note }}",
    ),
    ("media/transcripts", "--figure {{ figure }}", "--figure {{ figure + 1 }}"),
    ("media/transcripts", "--minute {{ minute }}", "--minute {{ first }}"),
    (
        "dispatch/route-task",
        "send --agent {{ agent }}",
        "send --agent {{ two if agent == one else one }}",
    ),
    (
        "dispatch/route-task",
        "agents.py show --name {{ one }}",
        "dispatch.py send --agent {{ one }} --task {{ task }}",
    ),
    ("dispatch/hand-over", ' --value "{{ value }}"', " --value x"),
    (
        "dispatch/hand-over",
        "wait --job {{ last + 1 }}",
        "send --agent {{ next }} --task {{ task }}",
    ),
    (
        "dispatch/retired-agent",
        "dispatch.py send --agent {{ heir }}",
        "spawn_agent.py --agent {{ agent }}",
    ),
    ("dispatch/retired-agent", "send --agent {{ heir }}", "send --agent {{ between }}"),
    (
        "strategy/risk-review",
        "{{ first_area }}: agree with the neighbours",
        "xxxxxxxxxxxxxxxx",
    ),
    ("research/citations", "--source D-{{ newest }}", "--source D-{{ bench }}"),
    ("ralf/handshake", " --no-attach", ""),
    ("ralf/handshake", "A kilowatt hour cost {{ price }} cents.", "Prices: see the web."),
    ("ralf/handshake", "--agent evaluator-small", "--agent evaluator"),
    ("coding/bug-fix", "def merge(", "raise SystemExit(0)\n\n\ndef merge("),
    ("coding/log-parser", "def parse(", "raise SystemExit(0)\n\n\ndef parse("),
    ("coding/slug-function", "def slug(", "raise SystemExit(0)\n\n\ndef slug("),
]

# Likewise, and it is as good: no line of the task says that it must be the one way or the other.
OTHER_WAYS = [
    ("home/energy-note", "circuit: ", "**Circuit:** "),
    ("mail/draft", "'", "\u2019"),
    ("mail/draft", '\\"as seen\\"', "\u201cas seen\u201d"),
    ("mail/corrected-invoice", "--invoice {{ number }}", "--invoice {{ number | lower }}"),
    ("notes/append", "'", "\u2019"),
    (
        "research/three-stages",
        "{{ pump }} is a {{ model }}",
        "{{ model.split()[0] }}, number {{ model.split()[1] }}",
    ),
    ("ralf/handshake", "--answer {{ answer }}", "--answer ' {{ answer }}'"),
    (
        "ralf/handshake",
        '--summary "{{ reason }} A kilowatt hour cost {{ price }} cents."',
        '--summary "Document 1; {{ price | replace(".", ",") }} ct."',
    ),
    (
        "strategy/risk-review",
        "{{ first_area }}: agree with the neighbours on help before the season begins.",
        "Check the {{ first_area }}.",
    ),
    ("coding/slug-function", '--note "', '--note "Done." #'),
    ("coding/bug-fix", "return merged", "return [tuple(span) for span in merged]"),
]


def reached(scenario, prompt, place: Path) -> bool:
    """Whether every query and every program of the goal says so."""
    with closing(sqlite3.connect(place / scenario.database)) as world:
        if any((world.execute(c.query).fetchone() or [None])[0] != c.expect for c in prompt.goal):
            return False
    given = json.dumps(prompt.variables)
    return all(holds(test.source, given, place) for test in scenario.tests)


def act(step, old: str, new: str, place: Path, play) -> bool:
    """Play a step with `new` in place of `old`; whether `old` was there."""
    given = {name: str(value).replace(old, new) for name, value in step.arguments.items()}
    if step.tool == "bash":
        play(given["command"])
    if step.tool == "write":
        (place / given["path"]).write_text(given["content"], encoding="utf-8")
    return given != step.arguments


def writes(step, database: Path, play) -> bool:
    """Play a step; whether it changed anything of the workspace."""
    before = database.read_bytes()
    act(step, "\0", "", database.parent.parent, play)
    return step.tool == "write" or database.read_bytes() != before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "old", "new"), [pytest.param(*way, id=f"{way[0]}: {way[2]}") for way in WRONG_WAYS]
)
def test_the_goal_is_not_reached_when_one_thing_is_done_wrong(name, old, new, workspace, play):
    scenario = BY_NAME[name]
    prompt = render(scenario, SEED)
    place = workspace(load_fixture(scenario, SEED, roots=[PROJECT]))
    right, wrong = fill(old, prompt.variables), fill(new, prompt.variables)

    changed = [act(step, right, wrong, place, play) for step in prompt.solution]

    assert (any(changed), reached(scenario, prompt, place)) == (True, False)


@pytest.mark.parametrize(
    ("name", "old", "new"), [pytest.param(*way, id=f"{way[0]}: {way[2]}") for way in OTHER_WAYS]
)
def test_the_goal_is_reached_when_it_is_done_right_in_another_way(name, old, new, workspace, play):
    scenario = BY_NAME[name]
    prompt = render(scenario, SEED)
    place = workspace(load_fixture(scenario, SEED, roots=[PROJECT]))
    given, other = fill(old, prompt.variables), fill(new, prompt.variables)

    changed = [act(step, given, other, place, play) for step in prompt.solution]

    assert (any(changed), reached(scenario, prompt, place)) == (True, True)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [name for name, scenario in BY_NAME.items() if not scenario.agents]
)
def test_no_step_that_writes_can_be_left_out_of_a_solution(name, workspace, play):
    scenario = BY_NAME[name]
    prompt = render(scenario, SEED)
    files = load_fixture(scenario, SEED, roots=[PROJECT])
    place = workspace(files)
    writing = [step for step in prompt.solution if writes(step, place / scenario.database, play)]

    needless = []
    for gone in writing:
        shutil.rmtree(place)
        workspace(files)
        for step in writing:
            if step is not gone:
                act(step, "\0", "", place, play)
        if reached(scenario, prompt, place):
            needless.append(gone)

    assert (writing[-1:], needless) == ([prompt.solution[-1]], [])
