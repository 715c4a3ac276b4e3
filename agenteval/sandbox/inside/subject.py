"""Runs what a model wrote, at the word of a test program, of which it knows the inputs alone.

It is a process of its own: what stands here is public, and what it answers proves nothing.
"""

import json
import os
import sqlite3
import sys
from typing import Any

Answer = dict[str, Any]


def serve() -> None:
    """Answer each line of the standard input, a question, by a line on the standard output."""
    answers = os.fdopen(os.dup(1), "w")
    nothing = os.open(os.devnull, os.O_RDWR)
    # What the module prints is no answer.
    os.dup2(nothing, 1)
    questions = os.fdopen(os.dup(0))
    os.dup2(nothing, 0)
    for line in questions:
        answer = _answer(json.loads(line))
        print(answer, file=answers, flush=True)


def _answer(question: Answer) -> str:
    try:
        kind = question.pop("do")
        answer = _call(**question) if kind == "call" else _select(**question)
        return json.dumps(answer)
    except BaseException as error:  # noqa: BLE001 - whatever a module of somebody else's raises
        kinds = [kind.__name__ for kind in type(error).__mro__]
        answer = {"raised": kinds, "said": str(error)}
        return json.dumps(answer)


def _call(
    path: str,
    function: str,
    arguments: list[Any],
    options: Answer,
) -> Answer:
    module = _module(path)
    value = module[function](*arguments, **options)
    return {"value": value, "arguments": arguments}


_LOADED: dict[str, Answer] = {}


def _module(path: str) -> Answer:
    if path not in _LOADED:
        folder, name = os.path.split(os.path.abspath(path))
        name = name.removesuffix(".py")
        module = sys.modules[name] = type(sys)(name)
        module.__file__ = path
        sys.path.insert(0, folder)
        with open(path, encoding="utf-8") as file:
            code = compile(file.read(), path, "exec")
        exec(code, module.__dict__)  # noqa: S102 - that is what is tested
        _LOADED[path] = module.__dict__
    return _LOADED[path]


def _select(database: str, before: list[tuple[str, list[Any]]], sql: str) -> Answer:
    """Query a copy in memory: what the statements change there, nobody else sees."""
    copy = sqlite3.connect(":memory:")
    stored = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
    with stored:
        stored.backup(copy)
    stored.close()
    for statement, values in before:
        copy.execute(statement, values)
    cursor = copy.execute(sql)
    names = [column[0] for column in cursor.description or ()]
    return {"value": [names, cursor.fetchall()]}


if __name__ == "__main__":
    serve()
