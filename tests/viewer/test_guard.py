"""Who may ask the viewer what: hosts, tokens, origins, and what a page may load."""

import asyncio
import re
import socket

import pytest
from stored import stored
from two_runs import FIRST, GUARD, client

from agenteval.errors import UsageError
from agenteval.store.search import reviews
from agenteval.store.sql import opened
from agenteval.viewer.application import Guard, serve


@pytest.fixture
def store(tmp_path) -> str:
    return stored(str(tmp_path / "runs.db"), FIRST)


@pytest.mark.parametrize(
    ("host", "known"),
    [
        ("127.0.0.1:8765", True),
        ("localhost:8765", True),
        ("[::1]:8765", True),
        ("LOCALHOST:8765", True),
        ("evil.example:8765", False),
        ("127.0.0.1.evil.example:8765", False),
        ("127.0.0.1", False),
        ("127.0.0.1:80", False),
        ("127.0.0.1:8765@evil.example", False),
        ("127.0.0.1:8765/x", False),
        ("192.168.1.7:8765", False),
        ("127.0.0.1:x", False),
        ("", False),
    ],
)
def test_only_names_of_this_machine_are_answered(reader, host, known) -> None:
    answer = reader.get("/", headers={"Host": host})
    assert answer.status_code == (200 if known else 421)
    assert "model-a" in answer.text if known else "model-a" not in answer.text


@pytest.mark.parametrize(
    ("host", "known"),
    [("192.168.1.7:8765", True), ("[2001:db8::1]:8765", True), ("evil.example:8765", False)],
)
def test_who_listens_for_others_is_asked_by_addresses_and_by_no_name(host, known) -> None:
    assert Guard("0.0.0.0", 8765, "t").is_known(host) is known


FORM = {"call": "2", "label": "bare-binary", "note": "no pipe", "key": GUARD.key}
OWN = {"Origin": "http://127.0.0.1:8765", "Sec-Fetch-Site": "same-origin"}


def kept(store: str) -> list[tuple[int, str, str]]:
    with opened(store) as query:
        return [(one.call, one.label, one.note) for one in reviews(query)]


def test_who_opens_the_printed_address_may_write_and_sees_it_at_once(store) -> None:
    writer = client(store, writes=True)
    page = writer.get("/call", params={"id": 2}).text
    assert GUARD.token not in page
    assert re.search('name="key" value="([^"]+)"', page)[1] == GUARD.key
    answer = writer.post("/review", data=FORM, headers=OWN)
    assert (answer.status_code, "no pipe" in answer.text) == (200, True)
    assert kept(store) == [(2, "bare-binary", "no pipe")]


@pytest.mark.parametrize(
    ("writes", "form", "headers"),
    [
        (False, FORM, OWN),
        (True, FORM | {"key": "guessed"}, OWN),
        (True, {name: FORM[name] for name in ("call", "label", "note")}, OWN),
        (True, FORM, {}),
        (True, FORM, {"Origin": "null"}),
        (True, FORM, {"Origin": "http://evil.example"}),
        (True, FORM, {"Origin": "http://127.0.0.1:9999"}),
        (True, FORM, {"Origin": "https://127.0.0.1:8765"}),
        (True, FORM, OWN | {"Sec-Fetch-Site": "cross-site"}),
        (True, FORM, OWN | {"Sec-Fetch-Site": "same-site"}),
        (True, FORM, {**OWN, "Cookie": "agenteval-8765=guessed"}),
    ],
)
def test_nothing_is_written_without_token_key_and_origin(store, writes, form, headers) -> None:
    asking = client(store, writes=writes)
    if "Cookie" in headers:
        asking.cookies.clear()
    assert asking.post("/review", data=form, headers=headers).status_code == 403
    assert kept(store) == []


@pytest.mark.parametrize(("writes", "status", "read"), [(False, 403, 0), (True, 413, 17)])
def test_of_a_form_is_read_what_it_may_have_and_nothing_of_a_stranger(
    store, writes, status, read
) -> None:
    taken = []

    def parts():
        for number in range(100):
            taken.append(number)
            yield b"x" * (1 << 16)

    cookie = f"agenteval-8765={GUARD.token}" if writes else ""
    told = {"host": "127.0.0.1:8765", "cookie": cookie, "origin": OWN["Origin"]}
    headers = [(name.encode(), value.encode()) for name, value in told.items()]
    assert (posted(client(store).app, headers, parts()), len(taken)) == (status, read)


def posted(app, headers, parts) -> int:
    """The status of a form that comes in parts."""
    told = []
    scope = {
        "type": "http", "method": "POST", "path": "/review", "query_string": b"",
        "headers": headers, "client": ("1.2.3.4", 1), "server": ("127.0.0.1", 8765),
        "scheme": "http", "http_version": "1.1", "root_path": "",
    }  # fmt: skip

    async def receive():
        body = next(parts, b"")
        return {"type": "http.request", "body": body, "more_body": bool(body)}

    async def send(message):
        told.append(message)

    asyncio.run(app(scope, receive, send))
    return told[0]["status"]


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ({"label": "my own"}, "no failure class"),
        ({"call": "99"}, "no call 99"),
        ({"call": "x"}, "names no call"),
        ({"note": "x" * 20_001}, "20000 characters"),
    ],
)
def test_a_review_that_says_nothing_known_is_refused(store, form, said) -> None:
    answer = client(store, writes=True).post("/review", data=FORM | form, headers=OWN)
    assert (answer.status_code, said in answer.text, kept(store)) == (400, True, [])


def test_reading_writes_nothing_and_a_wrong_token_opens_nothing(store) -> None:
    asking = client(store)
    assert asking.get("/", params={"token": "guessed"}).status_code == 400
    assert not asking.cookies
    assert asking.get("/review").status_code == 405


ADDRESSES = ("/", "/run?id=first", "/calls", "/call?id=2", "/nothing", "/static/viewer.js")


@pytest.mark.parametrize("address", ADDRESSES)
def test_every_answer_forbids_inline_script_and_all_that_is_not_of_this_server(
    reader, address
) -> None:
    answer = reader.get(address)
    rules = dict(
        rule.split(" ", 1) for rule in answer.headers["content-security-policy"].split("; ")
    )
    assert rules["default-src"] == "'none'"
    assert {rules[name] for name in ("script-src", "style-src", "form-action")} == {"'self'"}
    assert answer.headers["x-content-type-options"] == "nosniff"
    if "html" in answer.headers["content-type"]:
        assert not re.search(r"<style|\sstyle=|\son[a-z]+=|<script(?! src)", answer.text)


def test_a_cookie_is_of_this_port_and_no_script_reads_it(store) -> None:
    answer = client(store).get("/", params={"token": GUARD.token}, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    told = answer.headers["set-cookie"]
    assert told.startswith("agenteval-8765=the-token;")
    assert "HttpOnly" in told
    assert "SameSite=strict" in told


def test_a_port_that_is_taken_and_a_name_that_is_nobodys_are_told_in_a_line(store) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=r"cannot listen there \(Address already in use\);"):
            serve(store, "127.0.0.1", port, print)
    with pytest.raises(UsageError, match="--port 0: cannot listen there"):
        serve(store, "nowhere.invalid", 0, print)
