"""A run of one model that several servers have: named by options or by agenteval.toml."""

import json
import re
from contextlib import closing
from pathlib import Path
from threading import Barrier

import pytest
from scripted_server import answers, bash, scripted
from test_resume import STORE, seen, stored

from agenteval.store.sql import SqlStore

RUN = ("run", "--trials", "4", "--concurrency", "2", "--max-turns", "2", "data/pantry-audit")


class Scripted:
    """Makes one call and ends; counts the conversations that it began.

    `meets`: the first one goes on when each of that many servers has one.
    """

    def __init__(self, meets: Barrier | None = None) -> None:
        self.begun, self.meets = 0, meets

    def __call__(self, messages):
        begins = messages[0]["role"] == "system"  # the questions before a run have only a user
        if begins and not answers(messages):
            self.begun += 1
            if self.meets and self.begun == 1:
                self.meets.wait(60)
        return "It is done." if answers(messages) else bash("uv run scripts/pantry.py list")


def shared_out(*servers: Scripted) -> bool:
    """All four trials, of which two begin at the same time and the others where one has ended."""
    begun = [server.begun for server in servers]
    return sum(begun) == 4 and min(begun) >= 1


def test_a_run_shares_its_trials_and_names_each_server_and_plays_what_one_would(
    cli, project
) -> None:
    first, second = Scripted(), Scripted()
    with scripted(first) as one, scripted(second) as two:
        cli(*RUN, "-m", "m", "--base-url", one)
        alone, first.begun = seen(stored(project)), 0
        first.meets = second.meets = Barrier(2)
        shared = cli(*RUN, "-m", "m", "--base-url", one, "--base-url", two)
        shown = cli("show", "last", "--details")
        model = json.loads(cli("show", "last", "--json").out)["runs"][0]["model"]
    assert (shared.code, seen(stored(project)) == alone) == (0, True)
    assert shared_out(first, second)
    assert model["base_url"] == f"{one} {two}"
    assert (one in shown.out, two in shown.out) == (True, True)


def test_agenteval_toml_lists_them(cli, project) -> None:
    both = Barrier(2)
    first, second = Scripted(both), Scripted(both)
    with scripted(first) as one, scripted(second) as two:
        entry = {"base_url": [one, two], "model": "m"}
        lines = "\n".join(f"{key} = {json.dumps(value)}" for key, value in entry.items())
        (project / "agenteval.toml").write_text(f"[models.mine]\n{lines}\n")
        code = cli(*RUN, "-m", "mine").code
        listed = cli("models").out
    assert (code, shared_out(first, second)) == (0, True)
    assert (one in listed, two in listed) == (True, True)


@pytest.mark.parametrize(
    ("urls", "said"),
    [
        (["{one}", "{one}"], "each URL once"),
        (["{one}", "{one}/"], "each URL once"),
        (["{one}", "ftp://x"], "no http(s) URL"),
        (["{one}", "http://127.0.0.1:9/v1"], "no OpenAI-compatible server answers at http://127"),
    ],
)
def test_a_server_that_is_none_is_refused_before_the_run(cli, project, urls, said) -> None:
    with scripted(Scripted()) as one:
        words = [word for url in urls for word in ("--base-url", url.format(one=one))]
        refused = cli(*RUN, "-m", "m", *words)
    assert (refused.code, said in refused.err, refused.err.count("\n")) == (2, True, 1)


def broken_off(project: Path) -> None:
    """As if it had been ended before its last trials."""
    with closing(SqlStore(str(project / STORE))) as store, store.connect() as asked:
        asked.exec_driver_sql("UPDATE trial SET replaced = true WHERE number > 1")
        asked.exec_driver_sql("UPDATE run SET complete = false")
        asked.commit()


def test_a_run_is_gone_on_with_where_one_of_its_servers_is_gone(cli, project) -> None:
    with scripted(Scripted()) as one:
        with scripted(Scripted()) as two:
            cli(*RUN, "-m", "m", "--base-url", one, "--base-url", two)
        broken_off(project)
        again = cli("run", "--resume", "last")
    run = stored(project)
    broken_off(project)
    none = cli("run", "--resume", "last")
    assert (again.code, run.complete, len(run.trials)) == (0, True, 4), again.err
    assert re.search(f"answers at {two}.*The others play without it until it does", again.err)
    assert (none.code, f"answers at {one}" in none.err) == (2, True), none.err


def named(cli) -> list[str]:
    return json.loads(cli("show", "last", "--json").out)["runs"][0]["model"]["base_url"].split()


def test_a_run_names_the_servers_that_a_later_start_or_shard_brings(cli, project) -> None:
    with scripted(Scripted()) as one, scripted(Scripted()) as two:
        cli(*RUN, "-m", "m", "--base-url", one)
        broken_off(project)
        cli("run", "--resume", "last", "--base-url", two)
        resumed = named(cli)
        shard = (*RUN, "-m", "m", "--job", "j", "--shard")
        for number, url in ((1, two), (2, one), (2, one)):
            cli(*shard, f"{number}/2", "--base-url", url)
        shared = named(cli)
    assert (resumed, shared) == ([one, two], [two, one])


def test_the_speed_of_servers_is_measured_one_by_one(cli, project) -> None:
    urls = '["http://localhost:1/v1", "http://localhost:2/v1"]'
    (project / "agenteval.toml").write_text(f'[models.mine]\nbase_url = {urls}\nmodel = "m"\n')
    refused = cli("speed", "-m", "mine")
    assert (refused.code, "one server at a time" in refused.err) == (2, True)
