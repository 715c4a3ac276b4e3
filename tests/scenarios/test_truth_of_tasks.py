"""What a task takes for true is true: causes are causes, months have a season, examples compare.

And who guesses, or never looks, has not done it.
"""

import re
import sqlite3
from contextlib import closing
from dataclasses import dataclass, field

import pytest

from agenteval.config.scenarios import load_fixture, load_scenarios
from agenteval.config.trust import roots
from agenteval.protocols import TrialKey
from agenteval.sandbox.backends import Namespaces
from agenteval.sandbox.maker import database, fill, render, variables
from agenteval.testing import ScriptedModel, says
from agenteval.trial.call import Outcome
from agenteval.trial.trial import Trial
from agenteval.workflows.prove import played
from agenteval.workflows.stages import load_stages

RUN = "uv run scripts/"
# What a person takes for a cause of that figure, by words of its notes.
CAUSES = {
    "burner_starts": "fitter|started over|loose contact",
    "return_temperature": "water came back|straight back to the boiler",
    "gas_use": "heating ran against|heated all day|heated against",
}
COLD = {"heat-pump": ("12", "01", "02"), "ventilation": ("12", "01", "02")}
DARK = ("11", "12", "01")


@dataclass(frozen=True, slots=True)
class World:
    known: dict[str, object]
    image: bytes = field(repr=False)

    def ask(self, query: str) -> list[tuple[object, ...]]:
        with closing(sqlite3.connect(":memory:")) as world:
            world.deserialize(self.image)
            return world.execute(query).fetchall()


def worlds(name: str, seeds: int) -> list[World]:
    (scenario,) = load_scenarios([name], roots=roots())
    return [
        World(dict(variables(scenario, seed)), database(scenario, seed)) for seed in range(seeds)
    ]


def test_the_note_that_is_wanted_explains_the_figure_and_no_other_note_does() -> None:
    for world in worlds("media/rendered-plot", 60):
        notes = world.ask("SELECT id, body FROM notes WHERE tag = 'boiler'")
        causes = CAUSES[str(world.known["quantity"])]
        fitting = [number for number, body in notes if re.search(causes, str(body))]
        assert fitting == [world.known["note"]]


@pytest.mark.parametrize("name", ["ralf/handshake", "ralf/two-stages"])
def test_the_answer_is_a_month_of_which_the_reason_is_true(name) -> None:
    found = [(str(w.known["device"]), str(w.known["answer"])[-2:]) for w in worlds(name, 60)]
    wrong = [one for one in found if one[1] not in COLD.get(one[0], DARK)]
    assert (wrong, len({month for _, month in found}) >= 4) == ([], True)


@pytest.mark.parametrize(
    "name", ["handshake", "two-stages", "second-attempt", "evaluated-by-model"]
)
def test_nothing_tells_of_the_wall_before_it_is_met(name) -> None:
    """The web search is asked for; that there is none, and what to do then, a variant tells."""
    (scenario,) = load_scenarios([f"ralf/{name}"], roots=roots())
    prompt = render(scenario, 5)
    dated = re.compile(r"\b(?:19[89]\d|200\d)\b")
    world = World(dict(prompt.variables), database(scenario, 5))
    told = str(world.ask("SELECT summary FROM attempts UNION SELECT body FROM context_blocks"))
    assert (
        "do a quick web search" in prompt.task,
        "no other tools" in prompt.system or "After a denial" in prompt.system,
        "search" in told,
        [
            source
            for (source,) in world.ask("SELECT source FROM documents")
            if not dated.search(source)
        ],
    ) == (True, False, False, [])


async def play(name: str, seed: int, *turns: str | tuple[str, ...]) -> Trial:
    (stage,) = load_stages([name])
    known = render(stage.scenario, seed).variables
    parts = [
        fill(turn, known) if isinstance(turn, str) else tuple(fill(one, known) for one in turn)
        for turn in turns
    ]
    key = TrialKey(stage.scenario.name, 1, seed)
    model = ScriptedModel(*parts, says("All of it is done."))
    return (await played([stage], [key], model, Namespaces()))[key]


NOTES = [
    f"{RUN}notes.py answer --question {{{{ question }}}} --day {{{{ day }}}} "
    f"--note {{{{ note + {n} }}}}"
    for n in range(-6, 2)
]
CACHE = f"{RUN}context_cache.py --command set --attempt {{{{ attempt }}}} --key findings --value "
CLOSE = (
    (
        f"{RUN}ralf.py update-attempt-outcome --attempt {{{{ attempt }}}} --outcome success "
        f"--answer {{{{ answer }}}} --summary {'a' * 47}"
    ),
    f"{RUN}ralf.py update-stage-status {{{{ stage }}}} awaiting_eval",
    (
        f"{RUN}ralf.py ralf_spawn step_evaluator --attempt {{{{ attempt }}}} --no-attach "
        "--agent evaluator-small"
    ),
)
DISCARD = tuple(
    f"{RUN}pantry_ledger.py discard --lot {{{{ {lot} }}}} --reason expired"
    for lot in ("first", "second")
)


@pytest.mark.parametrize(
    ("name", "turns", "missed"),
    [
        ("media/rendered-plot", NOTES, ["the right note explains it"]),
        (
            "ralf/handshake",
            [f"{CACHE}'{{{{ answer }}}}'", *CLOSE],
            ["the summary has the price of that month", "a stored document was read"],
        ),
        (
            "data/pantry-audit",
            [DISCARD],
            [
                "the first lot was looked at",
                "the second lot was looked at",
                "the recipes were looked up",
            ],
        ),
    ],
)
async def test_who_guesses_until_one_fits_or_never_looked_has_not_done_it(
    name, turns, missed
) -> None:
    trial = await play(name, 5, *turns)
    assert (trial.outcome, [check.name for check in trial.goal if not check.held]) == (
        Outcome.CLAIMED_DONE,
        missed,
    )


async def test_a_look_in_another_way_is_a_look() -> None:
    looks = f"{RUN}pantry_export.py --shelf {{{{ shelf }}}} --expires-before {{{{ day }}}}"
    recipes = f"{RUN}recipe_index.py --ingredient='{{{{ item }}}}'"
    trial = await play("data/pantry-audit", 5, looks, recipes, DISCARD)
    assert (trial.outcome, [check.why for check in trial.goal if not check.held]) == (
        Outcome.COMPLETED,
        [],
    )


@pytest.mark.parametrize(
    ("gone", "ends", "said"),
    [("\0", 0, "1 of 1 passed"), ("kind = '{{ kind }}' AND ", 1, "0 of 1 passed")],
)
def test_the_example_of_a_query_passes_only_for_the_right_rows(
    gone, ends, said, workspace, play
) -> None:
    (scenario,) = load_scenarios(["coding/sql-query"], roots=roots())
    prompt = render(scenario, 3)
    place = workspace(load_fixture(scenario, 3, roots=roots()))
    known = prompt.variables
    step = next(step for step in prompt.solution if step.tool == "write")
    query = step.arguments["content"].replace(fill(gone, known), "")
    (place / step.arguments["path"]).write_text(query)
    done = play(f"uv run scripts/run_tests.py {known['name']}")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (ends, said)
