"""`agenteval scenarios check` plays cheats against every test, and says which one passes."""

from dataclasses import replace
from functools import partial

import pytest
from suite import PROJECT, SCENARIOS

from agenteval.config.allowlists import load_policy
from agenteval.config.scenarios import load_fixture
from agenteval.protocols import Stage
from agenteval.sandbox.backends import Namespaces
from agenteval.trial.trial import CodeTest
from agenteval.workflows.cheats import cheat_faults

WRITTEN = [each for each in SCENARIOS if each.tests]
IN_PROCESS = """
import json, sys
known = json.loads(sys.argv[1])
module = {}
exec(open("src/slug.py").read(), module)
assert module["slug"]("Plain title") == f"plain{known['mark']}title"
"""


def staged(scenario) -> Stage:
    files = partial(load_fixture, scenario, roots=[PROJECT])
    return Stage(scenario, load_policy(scenario.policy, roots=[PROJECT]), files)


@pytest.fixture(scope="module")
def backend():
    return Namespaces(prefork=True)


@pytest.mark.slow
@pytest.mark.parametrize("scenario", WRITTEN, ids=lambda scenario: scenario.name)
async def test_no_cheat_passes_the_tests_of_a_shipped_scenario_or_sees_them(scenario, backend):
    assert [fault async for fault in cheat_faults(staged(scenario), backend)] == []


async def test_a_test_that_imports_what_was_written_is_told_how_it_is_passed_and_read(backend):
    (slug,) = (each for each in WRITTEN if each.name == "coding/slug-function")
    weak = replace(slug, tests=(CodeTest("it makes slugs", IN_PROCESS),))
    told = [fault async for fault in cheat_faults(staged(weak), backend)]
    assert [fault.partition(":")[0] for fault in told] == ["tests"] * len(told)
    passed = [fault for fault in told if "equals everything" in fault]
    assert (len(passed), "can read what it is tested by" in told[-1]) == (1, True)
