"""A known key is taken out of whatever repeats it."""

from agenteval.trial.redaction import KnownKeys, Redactor, secrets_of

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
