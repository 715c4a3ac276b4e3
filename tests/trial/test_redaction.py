"""What must not leave a machine is taken out of texts, and nothing else is."""

import json

import pytest
from clocks import processor_seconds
from hypothesis import given
from hypothesis import strategies as st

from agenteval.trial.redaction import KnownKeys, Redactor, secrets_of

# Put together here, so that no scanner of repositories takes them for real ones.
KEY = "sk-" + "proj0123456789abcdef"
AWS = "AKIA" + "IOSFODNN7EXAMPLE"
JWT = "eyJ" + "hbGciOiJI.eyJ" + "zdWIiOiIxMjM0.c2lnbmF0dXJl"
OTHERS = [
    *("ASIA" + "B" * 16, "sk_live_" + "a" * 24, "SG." + "a" * 22 + "." + "b" * 43),
    *("ya29." + "a" * 50, "dop_v1_" + "a" * 64, "dckr_pat_" + "a" * 27, "dapi" + "a" * 32),
    *("gsk_" + "a" * 50, "xai-" + "a" * 60, "123456789:AA" + "A" * 33),
]
TAKEN = [
    ("cat /home/ann/notes.txt", "cat /home/redacted-user-1/notes.txt", "user"),
    ("ls /Users/ann.b/x", "ls /Users/redacted-user-1/x", "user"),
    (r"dir C:\Users\ann\x", r"dir C:\Users\redacted-user-1\x", "user"),
    (
        "~/.claude/projects/-Users-ann-work",
        "~/.claude/projects/-Users-redacted-user-1-work",
        "user",
    ),
    (f"export OPENAI={KEY}", "export OPENAI=redacted-key-1", "key"),
    (f"aws configure set id {AWS}", "aws configure set id redacted-key-1", "key"),
    (
        f"curl -H 'Authorization: Bearer {JWT}'",
        "curl -H 'Authorization: Bearer redacted-token-1'",
        "token",
    ),
    (
        "curl -H 'authorization: bearer abcdefgh12'",
        "curl -H 'authorization: bearer redacted-token-1'",
        "token",
    ),
    ("DB_PASSWORD=hunter22 run", "DB_PASSWORD=redacted-secret-1 run", "secret"),
    ('{"api_key": "abcdef123"}', '{"api_key": "redacted-secret-1"}', "secret"),
    (
        "psql postgres://ann:pw@db/x",
        "psql postgres://redacted-password-1@redacted-host-1/x",
        "password",
    ),
    ("git log --author=ann@example.org", "git log --author=redacted-e-mail-1", "e-mail"),
    ("ping 10.1.2.3", "ping redacted-address-1", "address"),
    ("ping6 fe80:1:2:3:4:5:6:7", "ping6 redacted-address-1", "address"),
    ("ip link set 00:1a:2b:3c:4d:5e", "ip link set redacted-address-1", "address"),
    ("curl https://wiki.example.org/x", "curl https://redacted-host-1/x", "host"),
    ("ssh build7.corp", "ssh redacted-host-1", "host"),
    (
        "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----",
        "redacted-private-key-1",
        "private key",
    ),
    *[(f"use {key} now", "use redacted-key-1 now", "key") for key in OTHERS],
    (
        "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG",
        "aws_secret_access_key = redacted-secret-1",
        "secret",
    ),
    ("gh auth --with-token abcdef123", "gh auth --with-token redacted-secret-1", "secret"),
    ("curl -s -u ann:hunter2 x", "curl -s -u redacted-password-1 x", "password"),
    ("cat ~annabel/x", "cat ~redacted-user-1/x", "user"),
    ("ping 2001:db8::ff00:42:8329", "ping redacted-address-1", "address"),
    ("ssh -p 22 ann@build7 ls", "ssh -p 22 ann@redacted-host-1 ls", "host"),
    ("ping wiki.corp.example.org", "ping redacted-host-1", "host"),
    ("nc db.prod.example.com:5432", "nc redacted-host-1:5432", "host"),
    ("-----BEGIN PRIVATE KEY-----\ncut off", "redacted-private-key-1", "private key"),
]
LEFT = [
    "cat /root/x",
    "uv run scripts/notes.py list --limit 5",
    "git diff HEAD~2 -- src/app.py",
    "curl http://localhost:8000/v1/models",
    "curl http://127.0.0.1:8000",
    "pip install numpy==1.26.4",
    "max_tokens: 5",
    "the tokens are counted",
    "10:20:30",
    "std::vector and a::b and 12:30::",
    "cat .claude/settings.local.json src/app.test.py:12",
    "mysqldump --user ann --password --all-databases",
    "npm i left@latest; git diff HEAD~/x ~/x",
    "the password is asked for, the token expires",
]


@pytest.mark.parametrize(("text", "clean", "kind"), TAKEN, ids=[text[:30] for text, _, _ in TAKEN])
def test_what_must_not_leave_is_replaced_and_counted(text: str, clean: str, kind: str) -> None:
    redactor = Redactor()
    assert (redactor.text(text), kind in redactor.counts) == (clean, True)


@pytest.mark.parametrize("text", LEFT)
def test_what_is_no_secret_stays(text: str) -> None:
    assert Redactor().text(text) == text


def test_the_same_thing_has_the_same_mark_everywhere() -> None:
    redactor = Redactor()
    text = redactor.text("ping 10.0.0.1; ping 10.0.0.2; ping 10.0.0.1")
    assert text == "ping redacted-address-1; ping redacted-address-2; ping redacted-address-1"
    assert redactor.listed() == ["3 x address"]


def test_all_texts_of_a_json_value_are_looked_at() -> None:
    value = {"/home/ann": [("ann@example.org", 1, None, True)], "n": 2.5}
    assert Redactor().value(value) == {
        "/home/redacted-user-1": [["redacted-e-mail-1", 1, None, True]],
        "n": 2.5,
    }


def test_a_value_that_is_too_deep_is_cut_off_and_not_let_through() -> None:
    deep: object = "x"
    for _ in range(200):
        deep = [deep]
    assert "x" not in json.dumps(Redactor().value(deep))


@given(st.text())
def test_a_second_look_finds_nothing_more(text: str) -> None:
    once = Redactor().text(f"{text} /home/ann {KEY} a@b.cd 10.1.2.3 https://x.example.org")
    secrets = ("/home/ann", KEY, "a@b.cd", "10.1.2.3")
    assert not [secret for secret in secrets if secret in once]
    assert Redactor().text(once) == once


@pytest.mark.parametrize(
    "run",
    ["1", "a.", "-1", "0f", "a:", "a@", "a@a.", "://", "/home/", "sk-", "eyJ", "-eyJ", "token",
     "token=", "_", "Bearer ", "a.local", "@a.", "AKIA", "://a@",
     "ssh ", "ssh a@", "curl -u a:", "curl ", "-token ", "~a", "a:1", "1:", "a.b.", "SG.a"],
)  # fmt: skip
def test_a_long_text_of_what_begins_like_a_find_takes_no_longer_than_its_length(run) -> None:
    """A tenth of a second; by a pattern that starts again at each place it is a minute."""
    text = run * (120_000 // len(run))
    assert processor_seconds(lambda: Redactor().text(text), enough=2) < 2


# Keys that are known by their value.

KEYS = KnownKeys.of(["a-secret-of-mine"])


class _NamedError(Exception):
    def __init__(self, message: str, url: str) -> None:
        super().__init__(message)
        self.url = url


def test_half_an_address_has_no_password() -> None:
    assert [*secrets_of({"URL": "http://[::1"})] == []


def test_a_value_that_nests_too_deeply_is_dropped() -> None:
    value: object = "a-secret-of-mine"
    for _ in range(2000):
        value = [value]
    try:
        cleaned = repr(KEYS.value(value))
    except RecursionError:
        cleaned = ""
    assert "a-secret-of-mine" not in cleaned


def test_an_error_keeps_no_key_in_its_message_or_attributes() -> None:
    error = _NamedError("refused a-secret-of-mine", "http://x/a-secret-of-mine")
    KEYS.hide(error)
    assert "a-secret-of-mine" not in f"{error} {error.url}"


def test_a_redactor_counts_the_known_keys_that_it_takes_out() -> None:
    redactor = Redactor(known=KEYS)
    assert "a-secret-of-mine" not in redactor.text("echo a-secret-of-mine")
    assert redactor.counts["known key"] == 1
