"""A key goes where the user said, and a project counts until one of its files changes."""

import os
import struct
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agenteval.config import trust
from agenteval.config.files import shipped
from agenteval.config.models import ModelEntry, load_models
from agenteval.errors import UntrustedError, UsageError
from agenteval.workflows.projects import examine

URL = "http://models.example:8000/v1"
FILE = f'[models.m]\nbase_url = "{URL}"\nmodel = "m"\napi_key_env = "MINE"\n'


@pytest.fixture
def clone(project, monkeypatch) -> Path:
    """A project with a key variable that is set, and nothing that the user bound so far."""
    (project / "agenteval.toml").write_text(FILE)
    monkeypatch.setenv("MINE", "secret")
    monkeypatch.setattr(trust, "_bound_pairs", set())
    monkeypatch.setattr(trust, "_claims", {})
    load_models([project])
    return project


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("http://HOST/v1", "http://host:80"),
        ("https://host:443/v1", "https://host:443"),
        ("http://a@host:8000", "http://host:8000"),
        ("http://good@evil:1/good", "http://evil:1"),
        ("http://[::1]:8000/v1", "http://[::1]:8000"),
    ],
)
def test_an_origin_is_scheme_host_and_port(url, origin) -> None:
    assert trust.origin_of(url) == origin


@pytest.mark.parametrize("url", [r"http://evil\@good/v1", "http://go\nod/v1", "http://a b/v1"])
def test_a_url_whose_host_is_a_matter_of_its_reader_is_none(url) -> None:
    with pytest.raises(ValueError, match=r"no http\(s\) URL|each URL once"):
        ModelEntry(base_url=[url], model="m")


@pytest.mark.parametrize("host", ["\u0430pi.openai.com", "127\u30020.0.1", "fa\xdf.de", "\uff11.1"])
def test_a_host_that_two_readers_translate_differently_is_none(host) -> None:
    with pytest.raises(ValueError, match="a URL in ASCII"):
        ModelEntry(base_url=[f"https://{host}/v1"], model="m")


def test_a_project_that_nobody_confirmed_gets_no_key(clone) -> None:
    with pytest.raises(UntrustedError) as refused:
        trust.key_for("MINE", URL)
    assert str(refused.value) == (
        f"{clone}/agenteval.toml: wants the key in MINE sent to http://models.example:8000, and "
        "you have not confirmed that; nothing was sent. Look at it: agenteval doctor --project "
        f"{clone}; allow it: agenteval trust {clone}, or in CI "
        f"AGENTEVAL_TRUST={trust.digest(clone)}"
    )


def test_where_no_key_is_set_nothing_is_asked(clone, monkeypatch) -> None:
    monkeypatch.setenv("MINE", " ")
    assert trust.key_for("MINE", URL) == ""


def test_a_confirmed_project_gets_its_key_at_its_own_origins_alone(clone) -> None:
    trust.confirm(clone, trust.digest(clone))
    assert trust.key_for("MINE", URL) == "secret"
    assert not trust.may_send("MINE", "http://models.example:8001/v1")
    assert not trust.may_send("MINE", "https://models.example:8000/v1")
    assert not trust.may_send("HOME", URL)


@pytest.mark.parametrize(
    "file", ["agenteval.toml", "gate.toml", "allowlists/demo.toml", "arms/taught/own.toml"]
)
def test_a_project_of_which_a_file_changed_is_confirmed_no_more(clone, file) -> None:
    trust.confirm(clone, trust.digest(clone))
    path = clone / file
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as opened:
        opened.write("# more\n")
    load_models([clone])
    assert not trust.may_send("MINE", URL)


def test_what_was_read_counts_and_not_what_lies_there_later(clone) -> None:
    trust.confirm(clone, trust.digest(clone))
    (clone / "agenteval.toml").write_text(FILE.replace("models.example", "evil.example"))
    load_models([clone])
    (clone / "agenteval.toml").write_text(FILE)
    assert not trust.may_send("MINE", "http://evil.example:8000/v1")


@pytest.mark.parametrize("pin", ["digest", "path"])
def test_a_pipeline_confirms_by_digest_or_by_path(clone, monkeypatch, pin) -> None:
    word = trust.digest(clone) if pin == "digest" else str(clone)
    monkeypatch.setenv("AGENTEVAL_TRUST", f"/elsewhere,{word}")
    assert trust.key_for("MINE", URL) == "secret"


@pytest.mark.parametrize("word", ["1", ".", "clone", "true"])
def test_a_word_that_pins_nothing_is_an_error(clone, monkeypatch, word) -> None:
    monkeypatch.setenv("AGENTEVAL_TRUST", word)
    with pytest.raises(UsageError, match="neither a digest"):
        trust.key_for("MINE", URL)


def test_a_variable_of_a_project_does_not_go_to_a_url_of_the_command_line(clone, capsys) -> None:
    trust.bind("http://mine.example/v1")
    assert trust.key_for("MINE", "http://mine.example/v1") == ""
    assert "MINE is not sent to http://mine.example:80" in capsys.readouterr().err
    trust.confirm(clone, trust.digest(clone))
    assert trust.key_for("MINE", "http://mine.example/v1") == "secret"


def test_the_usual_key_goes_where_the_environment_says(clone, monkeypatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "usual")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://one.example/v1 http://two.example/v1")
    assert trust.key_for("OPENAI_API_KEY", "http://two.example:80/v1") == "usual"
    with pytest.raises(UsageError, match=r"no configuration of yours names that server"):
        trust.key_for("OPENAI_API_KEY", "http://three.example/v1")


def _user_file(clone: Path) -> Path:
    """The user's own file, in which another project is confirmed."""
    trust.confirm(clone.parent, "sha256:0")
    file = trust.user_file()
    assert file
    assert file.stat().st_mode & 0o777 == 0o600
    return file


def test_the_users_own_file_binds_a_key_to_an_origin(clone) -> None:
    file = _user_file(clone)
    with file.open("a") as opened:
        opened.write('[origins]\n"HTTP://models.example:8000/v1" = ["MINE"]\n')
    assert trust.key_for("MINE", URL) == "secret"
    file.chmod(0o666)
    assert not trust.may_send("MINE", URL)


def test_a_file_of_the_user_that_an_access_list_opens_to_others_is_not_used(clone) -> None:
    file = _user_file(clone)
    entries = [(1, 6, -1), (2, 6, 65534), (4, 4, -1), (16, 6, -1), (32, 4, -1)]
    access = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *entry) for entry in entries)
    try:
        os.setxattr(file, "system.posix_acl_access", access)
    except (AttributeError, OSError) as error:
        pytest.skip(f"no access lists here: {error}")
    assert trust.load_record() == trust.Record()


def test_of_projects_that_are_confirmed_at_once_none_is_lost(clone) -> None:
    folders = [clone / str(number) for number in range(40)]
    with ThreadPoolExecutor(8) as pool:
        [*pool.map(lambda folder: trust.confirm(folder, "sha256:0"), folders)]
    assert trust.load_record().projects == {str(folder): "sha256:0" for folder in folders}


def test_a_folder_whose_name_is_no_text_is_not_confirmed_and_leaves_nothing(clone) -> None:
    file = _user_file(clone)
    before = sorted(file.parent.iterdir())
    with pytest.raises(UsageError, match="not UTF-8 text, so no file can name it: rename"):
        trust.confirm(Path(os.fsdecode(b"/a\xff")), "sha256:0")
    assert sorted(file.parent.iterdir()) == before


def test_a_relative_folder_of_settings_is_a_projects_and_counts_for_nothing(
    clone, monkeypatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", ".config")
    monkeypatch.setenv("HOME", str(clone / "home"))
    (clone / ".config" / "agenteval").mkdir(parents=True)
    (clone / ".config" / "agenteval" / "trust.toml").write_text(
        '[origins]\n"http://models.example:8000" = ["MINE"]\n'
    )
    assert not trust.may_send("MINE", URL)


@pytest.mark.parametrize(
    "content",
    [
        "[origins]\na = 1\n",
        "[origins]\nhost = []\n",
        "[projects]\na = []\n",
        "origins = 3\n",
        "[other]\n",
        "x =",
    ],
)
def test_a_file_of_the_user_that_is_none_is_an_error_with_its_place(clone, content) -> None:
    _user_file(clone).write_text(content)
    with pytest.raises(UsageError, match=r"trust\.toml"):
        trust.may_send("MINE", URL)


def test_a_run_goes_on_where_the_user_sent_it_and_no_project_may_go_there(
    clone, monkeypatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "usual")
    trust.bind("http://rig.example/v1")
    trust.remember_run("OPENAI_API_KEY", "http://rig.example/v1")
    monkeypatch.setattr(trust, "_bound_pairs", set())
    assert trust.key_for("OPENAI_API_KEY", "http://rig.example/v1") == "usual"
    trust.claim(clone, b"", [("http://rig.example:80", "OPENAI_API_KEY")])
    assert not trust.may_send("OPENAI_API_KEY", "http://rig.example/v1")


def test_what_is_shipped_is_the_users_own_installation(clone, monkeypatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "usual")
    load_models([shipped()])
    assert trust.key_for("OPENAI_API_KEY", "http://localhost:8000/v1") == "usual"


def test_a_pipe_among_the_files_holds_nothing_up(clone) -> None:
    (clone / "allowlists").mkdir()
    os.mkfifo(clone / "allowlists" / "a.toml")
    assert trust.digest(clone) != trust.digest(shipped())


def test_folders_one_in_the_other_without_end_are_looked_into_as_far_as_arms_are(clone) -> None:
    before = trust.digest(clone)
    folder = os.open(clone, os.O_RDONLY)
    for name in ("arms", *["a"] * 1500):
        os.mkdir(name, dir_fd=folder)
        inner = os.open(name, os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.close(folder)
    try:
        assert (examine(clone).problem, trust.digest(clone)) == ("", before)
    finally:  # pytest cannot take them away: shutil calls itself for each
        subprocess.run(["rm", "-rf", clone / "arms"], check=True)


def test_a_file_that_no_rules_need_is_not_confirmed(clone) -> None:
    with (clone / "gate.toml").open("wb") as opened:
        opened.truncate(5 << 20)
    with pytest.raises(UsageError, match=r"gate.toml: is larger than 4 MB"):
        trust.digest(clone)
