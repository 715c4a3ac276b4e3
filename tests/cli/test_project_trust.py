"""What a cloned project can do to who enters its folder: nothing, before he says so."""

import json
import os
import pty
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from agenteval.config import trust
from agenteval.config.beneath import LINK
from agenteval.config.files import shipped

SECRET = "not-a-real-secret"
FILE = '[models.m]\nbase_url = "{url}"\nmodel = "m"\n{more}\n'
Command = Callable[..., subprocess.CompletedProcess[str]]


class Heard:
    """A server that lists one model, and the keys that came to it."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.redirect = ""
        heard = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                heard.keys.append(self.headers.get("Authorization", ""))
                self.send_response(307 if heard.redirect else 200)
                if heard.redirect:
                    self.send_header("Location", heard.redirect)
                body = b'{"data": [{"id": "m"}]}'
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_GET  # noqa: N815 -- the name that http.server calls

            def log_message(self, *_: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/v1"

    @property
    def secrets(self) -> int:
        return sum(SECRET in key for key in self.keys)


@pytest.fixture
def heard() -> Iterator[Heard]:
    heard = Heard()
    threading.Thread(target=heard.server.serve_forever, args=(0.01,), daemon=True).start()
    yield heard
    heard.server.shutdown()
    heard.server.server_close()


@pytest.fixture
def clone(tmp_path, heard) -> Path:
    """Somebody's repository, with a folder below it in which the user works."""
    (tmp_path / "clone" / "src").mkdir(parents=True)
    (tmp_path / "clone" / "agenteval.toml").write_text(
        FILE.format(url=heard.url, more='api_key_env = "DEPLOY_TOKEN"')
    )
    return tmp_path / "clone"


@pytest.fixture
def environment(tmp_path) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "PYTHONPATH") if name in os.environ}
    return kept | {
        "HOME": str(tmp_path / "home"),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "DEPLOY_TOKEN": SECRET,
        "COLUMNS": "200",
    }


@pytest.fixture
def command(clone, environment) -> Command:
    def started(*words: str, at: Path = clone / "src", **more: str):
        return subprocess.run(
            [sys.executable, "-P", "-m", "agenteval", *words],
            check=False,
            cwd=at,
            env=environment | more,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )

    return started


@pytest.mark.parametrize(
    "words",
    [
        ("models",),
        ("models", "--probe"),
        ("run", "--model", "m", "--trials", "1", "mail"),
        ("speed", "--model", "m", "--requests", "1"),
        ("promote", "m", "--over", "sim/qwen3.6-35b"),
        ("run", "--model", "m", "--shard", "1/2", "--job", "j", "mail"),
    ],
    ids=" ".join,
)
def test_a_key_of_a_project_that_nobody_confirmed_goes_nowhere(
    command, clone, heard, words
) -> None:
    done = command(*words, at=clone)
    assert (heard.keys, done.returncode, done.stdout) == ([], 2, ""), done.stderr
    *_, line = done.stderr.splitlines()
    wanted = ("DEPLOY_TOKEN", f"agenteval trust {clone}")
    assert [part for part in wanted if part not in line] == []


def test_a_confirmed_project_is_used_until_one_of_its_files_changes(command, clone, heard) -> None:
    assert command("trust").returncode == 0
    assert (command("models").returncode, heard.keys) == (0, [f"Bearer {SECRET}"])
    with (clone / "agenteval.toml").open("a") as file:
        file.write("# changed\n")
    assert (command("models").returncode, len(heard.keys)) == (2, 1)
    assert "changed, so not trusted any more" in command("trust", "--list").stdout
    assert command("trust", "--remove", str(clone)).returncode == 0
    assert command("trust", "--list").stdout.startswith("nothing was confirmed")


def test_a_folder_that_is_no_project_is_not_confirmed(command, tmp_path) -> None:
    done = command("trust", at=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{tmp_path}: no project" in done.stderr


def test_a_pipeline_pins_the_digest_that_the_refusal_tells(command, heard) -> None:
    pin = command("models").stderr.split("AGENTEVAL_TRUST=")[1].strip()
    assert command("models", AGENTEVAL_TRUST=pin).returncode == 0
    assert command("models", AGENTEVAL_TRUST=f"sha256:{'0' * 64}").returncode == 2
    assert heard.secrets == 1


@pytest.mark.parametrize(("answer", "sent"), [("y", 1), ("n", 0), ("", 0)])
def test_at_a_terminal_the_question_is_asked_once(
    command, clone, environment, heard, answer, sent
) -> None:
    def asked() -> tuple[int, str]:
        here, there = pty.openpty()
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "agenteval", "models"],
            cwd=clone,
            env=environment,
            stdin=there,
            stdout=there,
            stderr=there,
        )
        os.close(there)
        os.write(here, f"{answer}\n".encode())
        shown = b""
        while part := _part(here):
            shown += part
        os.close(here)
        return process.wait(60), shown.decode()

    code, shown = asked()
    assert (code, heard.secrets) == (0 if sent else 2, sent), shown
    assert f"the key in DEPLOY_TOKEN to {heard.url}" in shown
    if sent:
        assert "Trust it" not in asked()[1]


def _part(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # the other end is closed
        return b""


@pytest.mark.parametrize(
    ("words", "more"),
    [
        (("models",), {"DEPLOY_TOKEN": ""}),
        (("models", "--base-url", "{url}"), {"OPENAI_API_KEY": "usual"}),
        (("models",), {"OPENAI_API_KEY": "usual", "OPENAI_BASE_URL": "{url}"}),
    ],
)
def test_without_a_key_or_with_a_url_of_the_user_nothing_is_asked(
    command, heard, words, more
) -> None:
    more = {name: value.format(url=heard.url) for name, value in more.items()}
    done = command(*(word.format(url=heard.url) for word in words), **more)
    wanted = "Bearer usual" if "OPENAI_API_KEY" in more else "Bearer none"
    assert (done.returncode, heard.keys) == (0, [wanted]), done.stderr


def test_the_usual_key_needs_the_users_word_as_any_other(command, clone, heard) -> None:
    (clone / "agenteval.toml").write_text(FILE.format(url=heard.url, more=""))
    assert (command("models", OPENAI_API_KEY=SECRET).returncode, heard.keys) == (2, [])


def test_a_setting_of_the_sdk_is_not_told_to_a_server_of_a_project(command, clone, heard) -> None:
    (clone / "agenteval.toml").write_text(FILE.format(url=heard.url, more=""))
    command(
        "speed", "--model", "m", "--requests", "1", OPENAI_CUSTOM_HEADERS=f"Authorization: {SECRET}"
    )
    assert (heard.secrets, bool(heard.keys)) == (0, True)


def test_a_store_of_a_stranger_names_no_server_for_a_key(command, clone, heard, tmp_path) -> None:
    """As `run --resume` would ask it: only the run's own row has the URL."""
    (clone / "agenteval.toml").unlink()
    made = command("run", "-m", "sim/qwen3.6-35b", "--trials", "1", "mail/draft", at=tmp_path)
    assert made.returncode == 0, made.stderr
    import sqlite3  # noqa: PLC0415 -- for this one alone

    with sqlite3.connect(tmp_path / "reports" / "agenteval.db") as store:
        (text,) = store.execute("SELECT options FROM run").fetchone()
        options: dict[str, Any] = json.loads(text) | {"model": ["m"], "base_url": heard.url}
        store.execute("UPDATE run SET options = ?, complete = 0", [json.dumps(options)])
        store.execute("DELETE FROM trial")
    store.close()
    done = command("run", "--resume", "last", at=tmp_path, OPENAI_API_KEY=SECRET)
    assert (done.returncode, heard.keys) == (2, []), done.stderr
    assert f"--base-url {heard.url}" in done.stderr


@pytest.mark.parametrize("words", [("models",), ("speed", "--model", "x", "--requests", "1")])
def test_a_redirect_does_not_take_the_key_along(command, heard, words) -> None:
    other = Heard()
    threading.Thread(target=other.server.serve_forever, args=(0.01,), daemon=True).start()
    heard.redirect = f"{other.url}/models"
    command(*words, "--base-url", heard.url, OPENAI_API_KEY=SECRET)
    other.server.shutdown()
    other.server.server_close()
    assert (heard.secrets > 0, other.keys) == (True, [])


@pytest.mark.parametrize(
    ("call", "heard_keys"),
    [
        ("agenteval.run('m', ['mail/draft'], trials=1)", []),
        ("agenteval.run('x', ['mail/draft'], trials=1, base_url='{url}')", ["Bearer usual"]),
    ],
    ids=["a file that was found", "an argument"],
)
def test_from_python_an_argument_is_the_users_word_and_a_file_is_not(
    clone, environment, heard, call, heard_keys
) -> None:
    program = f"import agenteval\n{call.format(url=heard.url)}"
    done = subprocess.run(
        [sys.executable, "-P", "-c", program],
        check=False,
        cwd=clone,
        env=environment | {"OPENAI_API_KEY": "usual"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    error = done.stderr.splitlines()[-1].partition(":")[0]
    wanted = "UsageError" if heard_keys else "UntrustedError"
    assert (error, heard.keys) == (f"agenteval.errors.{wanted}", heard_keys), done.stderr


def test_one_place_reads_keys_and_all_that_asks_goes_through_it() -> None:
    """A header with a key is written where `key_of` gives it; nobody else reads the variable."""
    package = Path(trust.__file__).parents[1]
    texts = {
        path: path.read_text() for path in package.rglob("*.py") if "shipped" not in path.parts
    }
    bearers = {path.name for path, text in texts.items() if "Bearer {" in text}
    assert bearers == {"servers.py", "openai_client.py", "simulated.py"}
    askers = {path.name for path, text in texts.items() if "key_for(" in text}
    assert askers == {"trust.py", "servers.py"}


def test_a_name_that_hides_a_shipped_one_says_whose_it_is(command, clone) -> None:
    (clone / "allowlists").mkdir()
    (clone / "allowlists" / "demo.toml").write_text('[bash]\nallow = ["rm *"]\n')
    done = command("classify", "rm x", "--allowlist", "demo", "--json")
    assert json.loads(done.stdout)["verdict"] == "allowed"
    assert done.stderr == (
        f"agenteval: the project is {clone}, whose agenteval.toml is the nearest upwards\n"
        f"agenteval: allow list demo is {clone}/allowlists/demo.toml, which hides the shipped one "
        "of that name\n"
    )


def test_a_link_to_itself_is_one_line(command, clone) -> None:
    (clone / "allowlists").mkdir()
    (clone / "allowlists" / "demo.toml").symlink_to("demo.toml")
    done = command("classify", "ls", "--allowlist", "demo", at=clone)
    assert (done.returncode, done.stderr.splitlines()[1:]) == (
        2,
        [f"agenteval: {clone}/allowlists/demo.toml: {LINK}"],
    )
    listed = command("doctor", "--project", "--json", at=clone)
    assert json.loads(listed.stdout)["unusual"] == [["link to demo.toml", "allowlists/demo.toml"]]


@pytest.mark.parametrize("name", ["http://[::1", "://", "http://x:99999"])
def test_an_origin_that_is_none_is_one_line(command, tmp_path, name) -> None:
    done = command("trust", "--remove", name, at=tmp_path)
    complaint = f"agenteval: {name}: no origin such as https://host:443\n"
    assert (done.returncode, done.stderr) == (2, complaint)


def test_a_copy_of_a_shipped_one_hides_nothing(command, clone) -> None:
    (clone / "allowlists").mkdir()
    demo = (shipped() / "allowlists" / "demo.toml").read_bytes()
    (clone / "allowlists" / "demo.toml").write_bytes(demo)
    assert command("classify", "rm x", "--allowlist", "demo", at=clone).stderr == ""


def test_doctor_lists_what_a_folder_would_do_and_does_none_of_it(command, clone, heard) -> None:
    fixture = clone / "fixtures" / "notes" / "files"
    fixture.mkdir(parents=True)
    (fixture / "environ").symlink_to("/proc/self/environ")
    os.mkfifo(fixture / "pipe")
    (fixture.parent / "world.sql").write_text("ATTACH 'x' AS y;")
    (clone / "allowlists").mkdir()
    (clone / "allowlists" / "demo.toml").write_text('[bash]\nallow = ["rm *"]\n')
    metadata = clone / "evil-1.dist-info"
    metadata.mkdir()
    (metadata / "entry_points.txt").write_text("[agenteval.criteria]\nx = evil:run\n")
    before = sorted(str(path) for path in clone.rglob("*"))
    done = command("doctor", "--project", "--json")
    found = json.loads(done.stdout)
    assert (done.stderr, heard.keys, before) == ("", [], sorted(map(str, clone.rglob("*"))))
    assert found == {
        "folder": str(clone),
        "refused": "",
        "digest": trust.digest(clone),
        "is_trusted": False,
        "problem": "",
        "models": [
            {"name": "m", "url": heard.url, "variable": "DEPLOY_TOKEN", "is_set": True}
            | {"may_send": False}
        ],
        "brings": {"allowlists": ["demo"], "fixtures": ["notes"]},
        "hides": {"allowlists": ["demo"], "fixtures": ["notes"]},
        "unusual": [
            ["script", "fixtures/notes/world.sql"],
            ["link to /proc/self/environ", "fixtures/notes/files/environ"],
            ["pipe", "fixtures/notes/files/pipe"],
            ["plug-in", "x (agenteval.criteria): evil:run"],
        ],
    }


@pytest.mark.parametrize("target", ["", "/dev/zero"])
def test_entry_points_without_an_end_hold_nothing_up(command, clone, target) -> None:
    place = clone / "evil-1.dist-info" / "entry_points.txt"
    place.parent.mkdir()
    place.symlink_to(target) if target else os.mkfifo(place)
    done = [
        command("doctor", "--project", at=clone),
        command("classify", "ls", "--allowlist", "demo", at=clone, PYTHONPATH=str(clone)),
    ]
    assert [one.returncode for one in done] == [0, 0]


def test_a_plug_in_of_the_working_folder_is_named_and_not_imported(command, clone) -> None:
    metadata = clone / "evil-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text("[agenteval.failure_classes]\nx = evil:run\n")
    (clone / "evil.py").write_text("open('imported', 'w')\n")
    path = os.pathsep.join(filter(None, [str(clone), os.environ.get("PYTHONPATH", "")]))
    done = command("classify", "ls", "--allowlist", "demo", at=clone, PYTHONPATH=path)
    assert (done.returncode, (clone / "imported").exists()) == (0, False)
    assert f"evil:run of {clone}: a project's; install it to trust it" in done.stderr


def test_a_module_of_the_working_folder_is_not_imported_by_python_m(clone, environment) -> None:
    for name in ("numpy", "yaml", "typer", "pydantic", "msgspec", "tomllib", "json"):
        (clone / f"{name}.py").write_text("open('imported', 'w')\n")
    done = subprocess.run(
        [sys.executable, "-m", "agenteval", "classify", "ls", "--allowlist", "demo"],
        check=False,
        cwd=clone,
        env=environment,
        capture_output=True,
        timeout=60,
    )
    assert (done.returncode, (clone / "imported").exists()) == (0, False), done.stderr
