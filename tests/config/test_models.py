from pathlib import Path

import pytest

from agenteval.config.files import shipped
from agenteval.config.models import ModelEntry, load_models, resolve
from agenteval.config.trust import roots
from agenteval.errors import UsageError

ENTRY = ModelEntry(base_url="http://a:1/v1", model="org/m")


def project(tmp_path: Path, text: str) -> Path:
    (tmp_path / "agenteval.toml").write_text(text)
    return tmp_path


def test_the_shipped_entries_are_the_articles_models_on_localhost() -> None:
    models = load_models([shipped()])
    assert {
        name: (entry.architecture, entry.active_parameters, "localhost" in entry.base_url)
        for name, entry in models.items()
    } == {
        "qwen3.6-35b": ("moe", 3, True),
        "qwen3.5-27b": ("dense", 27, True),
        "qwen3.5-122b": ("moe", 10, True),
    }


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[models.x\n", r"agenteval\.toml: not valid TOML"),
        ("[models.x]\nmodel = 'm'", r"agenteval\.toml: models\.x\.base_url is missing"),
        ("[models.x]\nbase_url = 'ftp://x'\nmodel = 'm'", r"models\.x\.base_url: .*'ftp://x'"),
        (
            "[models.x]\nbase_url = 'http://x'\nmodel = 'm'\nsize = 3",
            r"unknown key models\.x\.size",
        ),
        (
            "[models.x]\nbase_url = 'http://x'\nmodel = 'm'\nsampling = {temperature = 'hot'}",
            r"models\.x\.sampling\.temperature: .*'hot'",
        ),
        (
            "[models.x]\nbase_url = 'http://x'\nmodel = 'm'\narchitecture = 'sparse'",
            r"models\.x\.architecture: .*'dense'.*'sparse'",
        ),
        *(
            (
                f"[models.x]\nbase_url = 'http://x'\nmodel = 'm'\ntimeouts = {{{key} = {value}}}",
                rf"timeouts\.{key}: input should be less than or equal to 604800",
            )
            for key in ("connect", "request")
            for value in ("inf", "1e18")
        ),
    ],
)
def test_a_broken_file_is_one_line_with_file_and_key(tmp_path, text, complaint) -> None:
    with pytest.raises(UsageError, match=complaint):
        load_models([project(tmp_path, text)])


def test_without_a_file_there_are_no_models(tmp_path) -> None:
    assert load_models([tmp_path]) == {}


def test_a_base_url_goes_before_the_files(tmp_path) -> None:
    found = resolve("m", {"m": ENTRY}, "http://b:2/v1")
    assert (found.base_url, found.model) == ("http://b:2/v1", "org/m")


def test_a_base_url_and_a_name_are_enough() -> None:
    assert resolve("x", {}, "http://b:2/v1") == ModelEntry(base_url="http://b:2/v1", model="x")


def test_an_unknown_model_names_the_known_and_the_ways_out() -> None:
    with pytest.raises(UsageError) as caught:
        resolve("x", {"m": ENTRY}, None)
    assert str(caught.value) == (
        "no model 'x' (known: m). Say under [models.'x'] of an agenteval.toml where it is served, "
        "or name a simulated one such as sim/qwen3.6-35b; `run` and `speed` take "
        "--base-url http://HOST:PORT/v1 instead"
    )


def test_a_base_url_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match="'localhost:8000': no http"):
        resolve("x", {}, "localhost:8000")


def test_the_project_is_the_nearest_folder_upwards_with_a_file(tmp_path) -> None:
    inner = project(tmp_path, "") / "a" / "b"
    inner.mkdir(parents=True)
    assert roots(inner) == (tmp_path, shipped())


def test_without_a_project_the_folder_itself_is_looked_in(tmp_path) -> None:
    assert roots(tmp_path) == (tmp_path, shipped())
