"""Published tables of counts, read."""

import pytest

from agenteval.errors import UsageError
from agenteval.logs.counts_csv import _read_counts, load_counts

HEAD = "model,trial,scenario,calls,class,errors"


def read(*lines, head=HEAD):
    return _read_counts([head, *lines], where="t.csv")


def test_lines_of_one_trial_add_up_to_its_errors():
    tables = read("m,1,s,8,a,2", "m,1,s,8,b,1", "m,2,s,5,,0", "n,1,s,4,a,4")
    assert list(tables) == ["m", "n"]
    counts = tables["m"].counts
    assert (counts.calls, counts.by_trial) == ((8, 5), True)
    assert counts.by_class == {"a": (2, 0), "b": (1, 0)}
    assert tables["m"].trials == (("s", "1"), ("s", "2"))


def test_the_same_trial_of_two_scenarios_is_two():
    assert read("m,1,s,8,a,2", "m,1,t,9,a,2")["m"].counts.calls == (8, 9)


def test_without_trials_nothing_is_known_to_belong_together():
    table = read("m,158,a,10", "m,158,b,9", head="model,calls,class,errors")["m"]
    assert (table.counts.calls, table.counts.by_trial) == ((158,), False)
    assert table.counts.errors == (19,)


def test_errors_without_a_class_are_counted_as_not_named():
    assert read("m,1,s,8,,3")["m"].counts.by_class == {"not named": (3,)}


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["m,1,s,8,a,2", "m,1,s,9,b,1"], "t.csv:3: calls: 9, but 8 in a line above"),
        (["m,1,s,8,a,7", "m,1,s,8,b,2"], "t.csv:3: errors: 9 by now, of 8 calls"),
        (["m,1,s,eight,a,7"], "t.csv:2: calls: expected a count, only digits, no separators, got"),
        (["m,1,s,100000000000000000000,a,1"], "t.csv:2: calls: expected a count, only digits"),
        (["m,1,s,8,a,-1"], "t.csv:2: errors: expected a count, from 0 to 10,000,000, got '-1'"),
        (["m,1,s,8,a,12.5%"], "t.csv:2: errors: expected a count, no rate"),
        (["m,1,s,8,a,0.12"], "t.csv:2: errors: expected a count, no rate"),
        (['m,1,s,"1,234",a,2'], "t.csv:2: calls: expected a count, only digits, no separators"),
        (["m,1,s,1 234,a,2"], "t.csv:2: calls: expected a count, only digits, no separators"),
        (["m,1,s,8,a,"], "t.csv:2: errors: expected a count, only digits, no separators, got noth"),
        ([",1,s,8,a,1"], "t.csv:2: model: expected a name, got nothing"),
        (["m,1,s,8,a,1,9"], "t.csv:2: 7 cells, but 6 columns: quote what holds the delimiter"),
        (
            ["m,1,s,8,pip,1", "m,1,s,8,heredoc,1"],
            "t.csv:2: class: 'pip' is none of ours; did you mean pipe?",
        ),
        (["m,1,s"], "t.csv:2: calls: expected a count"),
        (["m,1,s,8,a,1", "", "m,1,s,8,Total,1"], "t.csv:4: class: 'Total' seems to be a sum"),
        (["m,1,s,8,a,1", "Total,1,s,8,a,1"], "t.csv:3: model: 'Total' seems to be a sum"),
        (["m,1,s,8,a," + "1" * 200_000], "t.csv:2: no CSV: field larger"),
        ([], "t.csv: no counts. The columns are model, calls, class, errors"),
    ],
)
def test_a_line_that_cannot_be_meant_is_told_with_its_number(lines, said):
    with pytest.raises(UsageError) as error:
        read(*lines)
    assert str(error.value).startswith(said)


def test_classes_of_others_may_resemble_ours_where_none_is_ours():
    theirs = ("pipes", "subshells", "backgrounding")
    table = read(*(f"m,1,s,8,{one},1" for one in theirs))["m"]
    assert table.counts.by_class == dict.fromkeys(theirs, (1,))


def test_a_column_that_is_not_known_is_named():
    with pytest.raises(UsageError, match=r"t\.csv: unknown column 'colour'\. The columns are"):
        read("m,8,a,1,red", head="model,calls,class,errors,colour")


def test_a_column_that_is_missing_is_named_beside_those_that_are_there():
    with pytest.raises(UsageError, match="no column calls, but 'model', 'class', 'errors per 100'"):
        read("m,a,1.2", head="model,class,errors per 100")


@pytest.mark.parametrize(
    "lines",
    [
        ("Model;Calls;Class;Errors", "m;158;pipe;19", ";;;"),
        ("model\tcalls\tclass\terrors", "m\t158\tpipe\t19"),
        ('"MODEL" , "CALLS" , "CLASS" , "ERRORS"', '"m" , "158" , "pipe" , "19"', "", ",,,"),
        ("sep=;", "errors;model;class;calls;;", "19;m;pipe;158;;"),
        ("", "model,calls,class,errors", "m,158.0,pipe,19.0"),
        ("model,calls,errors,class", "m,158,19,pipe", "m,158,0"),
    ],
)
def test_what_spreadsheets_make_of_a_table_is_read(lines):
    (table,) = _read_counts(lines, where="t.csv").values()
    assert (table.counts.calls, table.counts.by_class) == ((158,), {"pipe": (19,)})


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_file_in_any_unicode_is_read(tmp_path, encoding):
    (tmp_path / "t.csv").write_text("model,calls,errors\r\nmüller,8,1\r\n", encoding=encoding)
    assert list(load_counts(tmp_path / "t.csv")) == ["müller"]


def test_a_spreadsheet_is_told_from_a_csv_file(tmp_path):
    (tmp_path / "t.csv").write_bytes(b"PK\x03\x04rest")
    with pytest.raises(UsageError, match=r"t\.csv: a spreadsheet or an archive, no CSV: save it"):
        load_counts(tmp_path / "t.csv")


def test_a_file_that_cannot_be_read_is_one_line(tmp_path):
    (tmp_path / "latin.csv").write_bytes(b"model\nM\xfcller\n")
    for name, problem in (
        ("latin.csv", "cannot be read"),
        ("none.csv", "cannot be read"),
        (".", "is a folder"),
    ):
        with pytest.raises(UsageError, match=problem):
            load_counts(tmp_path / name)
