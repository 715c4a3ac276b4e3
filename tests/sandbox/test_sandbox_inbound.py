"""What doctor gives to the judges does no harm on any backend, as any user; and would be seen."""

import json
import shutil
import subprocess
import sys
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest
from users import USERS, start

from agenteval.sandbox.backends import Namespaces
from agenteval.sandbox.maker import declared
from agenteval.workflows import hostile
from agenteval.workflows.hostile import _try_judge, _try_tests

# The top level of each library that the attempts import.
NEEDED = """
import sys
import agenteval.workflows.hostile
files = {name.split(".")[0] for name, module in sys.modules.items()
         if "site-packages" in (getattr(module, "__file__", None) or "")}
print(*files)
"""


@pytest.fixture(scope="module")
def with_libraries(shared_copy):
    names = subprocess.run(
        [sys.executable, "-c", NEEDED], capture_output=True, text=True, check=True
    )
    for name in names.stdout.split():
        origin = Path(find_spec(name).origin)
        if origin.name == "__init__.py":
            shutil.copytree(origin.parent, shared_copy / name, dirs_exist_ok=True)
        else:
            shutil.copy(origin, shared_copy)
    return shared_copy


@pytest.mark.slow
@pytest.mark.parametrize("user", USERS)
def test_no_hostile_world_or_module_does_harm(backend_name, user, with_libraries):
    with start(user, with_libraries, "inbound.py", backend_name) as process:
        output, complaints = process.communicate(timeout=250)
    assert process.returncode == 0, complaints
    said = json.loads(output)
    assert (said["harm"], said["tried"] >= 40) == ([], True)


class Credulous:
    """A backend whose judge takes the schema that is there for that of the fixture."""

    name = "credulous"

    @asynccontextmanager
    async def open(self, files, limits):
        async with Namespaces().open(files, limits) as sandbox:
            ask = sandbox.ask

            async def asked(path, questions, _schema):
                try:
                    known = declared(await sandbox.read(path))
                except OSError:
                    known = ()
                return await ask(path, questions, known)

            sandbox.ask = asked
            yield sandbox


@pytest.mark.slow
async def test_a_judge_that_believes_any_schema_is_found_out():
    harm = {one.attempt: one.came for one in await _try_judge(Credulous()) if not one.is_as_wanted}
    assert harm["a view in the table's place"] == "4"
    assert "a trigger" in harm


IN_PROCESS = """
import json, sys
known = json.loads(sys.argv[1])
module = {}
exec(open("work.py").read(), module)
assert module["double"](known["number"]) == known["right"], 'it is wrong'
"""


async def test_a_test_that_runs_the_model_in_its_own_process_is_found_out(monkeypatch):
    monkeypatch.setattr(hostile, "PROGRAM", IN_PROCESS)
    harm = {one.attempt: one.came for one in await _try_tests(Namespaces()) if not one.is_as_wanted}
    assert harm["a module that equals everything"] == ""
    assert "it read" in harm["a module that looks around"]
