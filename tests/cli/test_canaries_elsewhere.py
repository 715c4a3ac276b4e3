"""Keys never leave: over a cluster, in containers, by real harnesses, in exports and failures."""

import http.server
import os
import resource
import shutil
import ssl
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from canaries import Place, canaries_in, repeating, texts_of
from process_table import below
from ray_place import PLACE, PROJECT, cluster
from test_canaries import RUN, STORE, played

from agenteval.errors import UsageError
from agenteval.harness.install import installed
from agenteval.trial.redaction import MARK

sys.path.insert(0, str(Path(__file__).parents[1] / "harness"))
from real import cache

EXPORTS = (
    ("export", "calls", "last", "--file", "calls.parquet", *STORE),
    ("export", "trials", "last", "--file", "trials.parquet", *STORE),
    ("export", "trials", "last", "--file", "trials.csv", *STORE),
    ("trend", "--openmetrics", *STORE),
    ("trend", "--json", *STORE),
    ("show", "last", *STORE),
    ("compare", "last-1", "last", *STORE),
    ("gate", "--baseline", "last-1", "--candidate", "last", "--gate", "gate.toml",
     "--junit", "gate.xml", "--markdown", "gate.md", "--report", "gate.html", "--github", *STORE),
)  # fmt: skip


@pytest.mark.slow
def test_no_export_and_no_summary_of_a_ci_step_shows_a_key(tmp_path) -> None:
    summary, junit = tmp_path / "summary.md", tmp_path / "project" / "gate.xml"
    ci = {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(summary)}
    place = Place(tmp_path, ci)
    (tmp_path / "project" / "gate.toml").write_text("[margin]\npoints = 3.0\n")
    with repeating("whole") as url:
        for _ in range(2):
            played(place, url)
        said = [place.call(*words) for words in EXPORTS]
    assert (place.leaks(), summary.exists(), junit.exists()) == ({}, True, True), said


@pytest.fixture
def passable() -> Iterator[Path]:
    """A folder through which any user may go, as that of temporary files: worlds are others."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o711)
    (folder / "tmp").mkdir()
    (folder / "tmp").chmod(0o1777)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.slow
def test_a_run_in_containers_shows_no_key_to_engine_container_or_command(passable) -> None:
    image = os.environ.get("AGENTEVAL_CONTAINER_IMAGE")
    if not image:
        pytest.skip("needs AGENTEVAL_CONTAINER_IMAGE")
    place = Place(passable, {"AGENTEVAL_CONTAINER_IMAGE": image})
    with repeating("whole") as url:
        said = played(place, url, options=("--sandbox", "container"))
    stored = texts_of(passable / "project" / "s.db")
    assert (place.leaks(), b"container" in stored) == ({}, True), said


@pytest.mark.slow
@pytest.mark.parametrize("how", ["whole", "stream"])
@pytest.mark.parametrize("harness", ["claude-code", "codex", "opencode", "qwen-code"])
def test_a_real_harness_is_shown_no_key(passable, monkeypatch, harness, how) -> None:
    monkeypatch.setenv("AGENTEVAL_DATA", str(cache()))
    try:
        installed(harness)
    except UsageError as error:
        pytest.skip(f"{error}; in the tests `make harnesses` gets it")
    place = Place(passable, {"AGENTEVAL_DATA": str(cache())})
    with repeating(how) as url:
        said = played(place, url, options=("--harness", harness))
        place.call("show", *STORE, "--report", "r.html")
    is_stored = MARK.encode() in texts_of(passable / "project" / "s.db")
    is_read = (harness, how) != ("opencode", "whole")  # it asks such a server without end
    assert (place.leaks(), is_stored) == ({}, is_read), said


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.xdist_group("ray")
def test_a_run_over_a_cluster_hands_no_key_to_ray(tmp_path) -> None:
    """The nodes have the keys in their environment, as whoever starts them gave them."""
    if not (PLACE / "bin/ray").exists():
        pytest.skip("Ray is not there: `make ray` gets it")
    place = Place(tmp_path, {"RAY_USAGE_STATS_ENABLED": "0", "PYTHONPATH": str(PROJECT)})
    with repeating("whole") as url, cluster(place.environment) as there:
        table = f'[models.m]\nmodel = "m"\nbase_url = "{url}"\n'
        (tmp_path / "project" / "agenteval.toml").write_text(table)
        place.python = str(PLACE / "bin/python")
        place.variables = {**place.variables, "RAY_ADDRESS": f"127.0.0.1:{there.port}"}
        said = place.call(*RUN, "--executor", "ray", *STORE, timeout=250)
        logs = b"".join(p.read_bytes() for p in there.folder.rglob("*") if p.is_file())
        words = b"".join(_words(node.pid) for node in there.nodes)
    in_rays = sorted({*canaries_in(logs), *canaries_in(words)})
    files = {name for name in place.leaks() if not name.startswith("environ of ")}
    assert ("was asked what it does" in said, in_rays, files) == (True, [], set()), said


def _words(pid: int) -> bytes:
    """The command lines of a process and of all below it."""
    pids = [pid, *(child for child, _, _ in below(pid))]
    paths = [Path(f"/proc/{one}/cmdline") for one in pids]
    return b"\n".join(path.read_bytes() for path in paths if path.exists())


@contextmanager
def serving(folder: Path) -> Iterator[dict[str, str]]:
    """URLs of servers that fail below HTTP: by TLS, by name, by no one there."""
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj",
            "/CN=x", "-keyout", str(folder / "k.pem"), "-out", str(folder / "c.pem")]  # fmt: skip
    subprocess.run(made, check=True, capture_output=True)
    encrypted = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    encrypted.load_cert_chain(folder / "c.pem", folder / "k.pem")
    handler = http.server.SimpleHTTPRequestHandler
    with (
        http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as plain,
        http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as tls,
    ):
        tls.socket = encrypted.wrap_socket(tls.socket, server_side=True)
        for server in (plain, tls):
            threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield {
            "a certificate of nobody": f"https://127.0.0.1:{tls.server_port}/v1",
            "TLS where there is none": f"https://127.0.0.1:{plain.server_port}/v1",
            "no TLS where there is some": f"http://127.0.0.1:{tls.server_port}/v1",
            "a name that is nowhere": "http://nowhere.invalid/v1",
            "a name that is none": f"http://{'a' * 70}.invalid/v1",
            "nobody there": "http://127.0.0.1:1/v1",
        }
        plain.shutdown()
        tls.shutdown()


NO_HEADER = {
    "two lines": "canary2-correct\nhorse-battery",
    "a return": "canary2-correct\rhorse-battery",
    "a control character": "canary2-correct\x01horse-battery",
    "letters of Latin-1": "canary2-cörrect-hörse",
    "other letters": "canary2-correct-\N{GRINNING FACE}-horse",
}


@pytest.mark.slow
def test_a_connection_that_fails_shows_no_key(tmp_path) -> None:
    place = Place(tmp_path)
    with serving(tmp_path / "home") as urls:
        said = {
            name: place.call(*words, "--base-url", url)
            for name, url in urls.items()
            for words in ((*RUN, *STORE), ("speed", "-m", "m", "--requests", "1"))
        }
    one_line = {name: text.count("\n") for name, text in said.items()}
    assert (place.leaks(), one_line) == ({}, dict.fromkeys(said, 1)), said


@pytest.mark.parametrize("name", NO_HEADER)
def test_a_key_that_no_header_carries_is_refused_without_it(tmp_path, name) -> None:
    key = NO_HEADER[name]
    place = Place(tmp_path, {"OPENAI_API_KEY": key})
    said = place.call("speed", "-m", "m", "--base-url", "http://127.0.0.1:1/v1")
    parts = [part for part in key.splitlines() if part in said]
    assert (parts, "OPENAI_API_KEY: the key holds characters" in said) == ([], True), said


@pytest.mark.slow
def test_no_process_below_a_run_may_leave_a_core(tmp_path) -> None:
    """The evaluator may leave its own, where its user lets it."""
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    before = resource.getrlimit(resource.RLIMIT_CORE)
    place = Place(tmp_path)
    resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
    try:
        with repeating("whole") as url:
            said = played(place, url)
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, before)
    assert place.cores == {}, said
