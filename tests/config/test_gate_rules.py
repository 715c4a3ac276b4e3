"""gate.toml, read and checked."""

import pytest

from agenteval.config.files import shipped
from agenteval.config.gate import load_rules
from agenteval.config.trust import find_rules
from agenteval.errors import UsageError
from agenteval.stats.criteria import Rules
from agenteval.stats.rates import Estimand
from agenteval.workflows.gate import _digest as digest


def written(folder, text):
    path = folder / "gate.toml"
    path.write_text(text)
    return path


def test_the_shipped_rules_ask_for_everything_and_can_be_met_with_their_minimum():
    rules = load_rules(shipped() / "gate.toml")
    assert (rules.margin, rules.completed, rules.looks, rules.about, rules.trials) == (
        0.03,
        0.1,
        5,
        Estimand.THESE,
        30,
    )


def test_a_file_of_the_project_goes_before_the_shipped_one(tmp_path):
    before = find_rules([tmp_path, shipped()])
    own = written(tmp_path, "[margin]\nratio = 2\n")
    assert (before, find_rules([tmp_path, shipped()])) == (shipped() / "gate.toml", own)


def test_a_folder_in_its_place_is_an_error_and_not_the_shipped_one(tmp_path):
    (tmp_path / "gate.toml").mkdir()
    with pytest.raises(UsageError, match=r"gate\.toml: "):
        load_rules(find_rules([tmp_path, shipped()]))


@pytest.mark.parametrize("target", ["nowhere.toml", "gate.toml"])
def test_a_link_to_nothing_in_its_place_is_an_error_and_not_the_shipped_one(tmp_path, target):
    (tmp_path / "gate.toml").symlink_to(target)
    with pytest.raises(UsageError, match=r"gate\.toml: cannot be read"):
        load_rules(find_rules([tmp_path, shipped()]))


def test_figures_per_100_become_fractions(tmp_path):
    path = written(
        tmp_path,
        """
        about = "like-these"
        [margin]
        ratio = 1.5
        [budgets]
        void = 5
        classes = { heredoc = 2.5 }
        [never]
        classes = ["nested-shell"]
        below = 0.5
        [minimum]
        calls = 300
        [plan]
        icc = 0.2
        """,
    )
    assert load_rules(path) == Rules(
        1.5,
        ratio=True,
        completed=0.1,
        budgets={"void": 0.05},
        classes={"heredoc": 0.025},
        never=("nested-shell",),
        never_below=0.005,
        calls=300,
        icc=0.2,
        about=Estimand.LIKE,
    )


def test_a_file_that_names_a_margin_alone_asks_for_that_and_for_work_done(tmp_path):
    read = load_rules(written(tmp_path, "[margin]\npoints = 3\n"))
    assert read == Rules(0.03, completed=0.1)
    assert (read.trials, read.calls, read.looks, read.never) == (0, 0, 1, ())


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "key margin is missing"),
        ("[margin]\n", "margin: give either points or ratio"),
        ("[margin]\npoints = 3\nratio = 2\n", "margin: give either points or ratio"),
        ("[margin]\npoints = 0\n", "margin.points: input should be greater than 0, got 0"),
        ("[margin]\nratio = 0.5\n", "margin.ratio: input should be greater than 1, got 0.5"),
        ("[margin]\npoints = '3'\n", "margin.points: input should be a valid number, got '3'"),
        (
            "[margin]\npoints = 3\n[budget]\n",
            "unknown key budget; known keys: about, budgets, margin",
        ),
        ("[margin]\npoints = 3\n[budgets]\nstall = 3\n", "unknown key budgets.stall"),
        (
            "[margin]\npoints = 3\n[budgets.classes]\npipes = 3\n",
            "budgets.classes: no failure class 'pipes'. Known: malformed-arguments",
        ),
        (
            "[margin]\npoints = 3\n[never]\nclasses = ['pipes']\n",
            "never.classes: no failure class 'pipes'. Known: ",
        ),
        (
            "margin.points = 3\nnever.classes = ['heredoc']\nbudgets.classes.heredoc = 1\n",
            "never.classes: 'heredoc' also has a budget; keep it in one of the two",
        ),
        ("[margin]\npoints = 3\n[plan]\nlooks = 0\n", "plan.looks: input should be greater than"),
        ("about = 'all'\n[margin]\npoints = 3\n", "about: input should be 'these'"),
    ],
)
def test_a_mistake_is_told_in_one_line_with_file_key_and_cure(tmp_path, text, complaint):
    path = written(tmp_path, text)
    with pytest.raises(UsageError) as told:
        load_rules(path)
    assert str(told.value).startswith(f"{path}: {complaint}")
    assert "\n" not in str(told.value)


def test_the_digest_tells_rules_apart_and_not_their_spelling(tmp_path):
    one = load_rules(written(tmp_path, "[margin]\npoints = 3\n"))
    same = load_rules(written(tmp_path, "# three\nmargin = { points = 3.0 }\n"))
    other = load_rules(written(tmp_path, "[margin]\npoints = 4\n"))
    assert (digest(one) == digest(same), digest(one) == digest(other)) == (True, False)
