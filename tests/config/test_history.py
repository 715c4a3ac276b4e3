"""Project files of each form so far (`history`) are read by the agenteval of today, or refused."""

from pathlib import Path

import pytest

from agenteval.config.allowlists import convert
from agenteval.config.files import DROPPED_KEYS, load_toml, read_toml, renew
from agenteval.config.gate import load_rules
from agenteval.config.models import _ProjectFile
from agenteval.config.prompts import _File
from agenteval.config.scenarios import _ScenarioSchema
from agenteval.errors import UsageError

HISTORY = Path(__file__).parent / "history"
READERS = {
    "agenteval": lambda path: load_toml(path, _ProjectFile),
    "allowlist": lambda path: convert(path, read_toml(path)),
    "arm": lambda path: load_toml(path, _File),
    "gate": load_rules,
    "scenario": lambda path: load_toml(path, _ScenarioSchema),
}
OF_ITSELF = (
    "plan.over = 'auto' was dropped on 2026-11-22: nothing chooses any more by itself what figures "
    'are about; write about = "these" or about = "like-these" at the top of the file instead'
)


def answer(path: Path) -> str:
    try:
        READERS[path.name.partition("-")[0]](path)
    except UsageError as error:
        return str(error).removeprefix(f"{path}: ")
    return "read"


def test_a_file_of_each_form_is_read_or_refused_with_its_cure():
    answers = {path.name: answer(path) for path in sorted(HISTORY.glob("*.toml"))}
    assert {name: said for name, said in answers.items() if said != "read"} == {
        name: OF_ITSELF for name in answers if "over = " in (HISTORY / name).read_text()
    }


@pytest.mark.parametrize(("over", "about"), [("trials", "these"), ("scenarios", "like-these")])
def test_a_key_whose_meaning_is_kept_is_read_under_its_new_name_with_a_warning(
    tmp_path, caplog, over, about
):
    file = tmp_path / "gate.toml"
    file.write_text(f'[margin]\npoints = 3.0\n[plan]\nover = "{over}"\n')
    assert (load_rules(file).about, caplog.messages) == (
        about,
        [
            (
                f"agenteval: {file}: plan.over was dropped on 2026-11-22, and is read as about = "
                f'"{about}"; write that at the top of the file instead'
            )
        ],
    )


def test_the_new_key_goes_before_the_old_one():
    tables = {"about": "these", "plan": {"over": "auto", "looks": 2}}
    renewed, _ = renew("gate.toml", Path("gate.toml"), tables)
    assert renewed == {"about": "these", "plan": {"looks": 2}}


def test_no_dropped_key_is_one_of_today(tmp_path):
    file = tmp_path / "gate.toml"
    for dropped in DROPPED_KEYS:
        table, _, key = dropped.key.rpartition(".")
        file.write_text(f"[margin]\npoints = 3.0\n[{table}]\n{key} = 'x'\n")
        with pytest.raises(UsageError, match="was dropped on"):
            load_rules(file)
