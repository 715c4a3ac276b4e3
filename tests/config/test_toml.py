from pathlib import Path

import pytest
from pydantic import BaseModel, ConfigDict, field_validator

from agenteval.config.files import check, load_toml, read_toml
from agenteval.errors import UsageError


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid")
    url: str
    port: int = 80


class Outer(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: str
    models: dict[str, Inner] = {}
    more: list[Inner] | None = None
    odd: int = 1

    @field_validator("odd")
    @classmethod
    def is_odd(cls, value: int) -> int:
        if value % 2 == 0:
            raise ValueError("An odd number is wanted")
        return value


def test_a_good_file_becomes_the_schema(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text('name = "x"\n[models.m]\nurl = "http://h"\n')
    assert load_toml(file, Outer) == Outer(name="x", models={"m": Inner(url="http://h")})


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("name = ", "not valid TOML: Invalid value (at end of document)"),
        ("", "key name is missing"),
        ("name = 1", "name: input should be a valid string, got 1"),
        ('name = "x"\n[models.m]\n', "models.m.url is missing"),
        (
            'name = "x"\nnam = 1',
            "unknown key nam; known keys: models, more, name, odd; did you mean name?",
        ),
        (
            'name = "x"\n[models.m]\nurl = "u"\nprot = 1',
            "unknown key models.m.prot; known keys: port, url; did you mean port?",
        ),
        ('name = "x"\n[models.name]\nurl = "u"\nx = 1', "models.name.x; known keys: port, url"),
        ('name = "x"\n[[more]]\nurl = "u"\nulr = 1', "more.0.ulr; known keys: port, url; did you"),
        ('name = "x"\nodd = 2', "odd: an odd number is wanted, got 2"),
        (f"a = {'[' * 3000}", "not valid TOML: it nests too deeply"),
        (f"a = {'{b = ' * 2000}", "not valid TOML: it nests too deeply"),
        (f"odd = {'1' * 5000}", "not valid TOML: Exceeds the limit"),
        (f'name = "x"\nodd = "{"y" * 99}"', f"got '{'y' * 56}..."),
    ],
)
def test_what_is_wrong_is_one_line_with_file_key_and_expectation(
    tmp_path: Path, text: str, complaint: str
) -> None:
    file = tmp_path / "a.toml"
    file.write_text(text)
    with pytest.raises(UsageError) as caught:
        load_toml(file, Outer)
    message = str(caught.value)
    assert message.startswith(f"{file}: ")
    assert complaint in message
    assert "\n" not in message


def test_all_that_is_wrong_is_told_a_line_each(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text('nam = "x"\nodd = "a"\n[models.m]\nport = "b"')
    with pytest.raises(UsageError) as caught:
        load_toml(file, Outer)
    lines = str(caught.value).splitlines()
    no_number = "input should be a valid integer, unable to parse string as an integer"
    assert [line.startswith(f"{file}: ") for line in lines] == [True] * 5
    assert [line.removeprefix(f"{file}: ").split(";")[0] for line in lines] == [
        "unknown key nam",
        "key name is missing",
        "models.m.url is missing",
        f"models.m.port: {no_number}, got 'b'",
        f"odd: {no_number}, got 'a'",
    ]


def test_tables_that_are_no_mapping_are_named_as_the_top_level() -> None:
    with pytest.raises(UsageError, match=r"^here: \(top level\): "):
        check("here", [], Outer)  # type: ignore[arg-type]


def test_a_file_that_is_missing_or_no_text_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        read_toml(tmp_path / "none.toml")
    with pytest.raises(UsageError, match=r"/a\\x00b': no file can be named so"):
        read_toml(tmp_path / "a\0b")
    (tmp_path / "latin.toml").write_bytes(b'a = "\xe9"')
    with pytest.raises(UsageError, match=r"not UTF-8 text \(byte 5\)"):
        read_toml(tmp_path / "latin.toml")
