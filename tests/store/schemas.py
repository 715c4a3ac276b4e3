"""Every schema that there was, from the oldest that was released, with the same run in each."""

import re
from pathlib import Path

from agenteval.store.location import SCHEMA

OLDEST = 2
_TEXT, _LIST, _OBJECT = (
    "TEXT NOT NULL DEFAULT ''",
    "JSON NOT NULL DEFAULT '[]'",
    "JSON NOT NULL DEFAULT '{}'",
)
_NUMBER = "INTEGER NOT NULL DEFAULT 0"
_SECONDS = "FLOAT NOT NULL DEFAULT 0"
# What each brought: the columns by their tables.
BROUGHT: dict[int, dict[str, dict[str, str]]] = {
    3: {
        "turn": {
            **dict.fromkeys(("reasoning_tokens", "cached_tokens", "pieces"), _NUMBER),
            "first_piece": "FLOAT",
            **{f"gap_{name}": _SECONDS for name in ("mean", "median", "p95", "longest")},
            **dict.fromkeys(("garbles", "repairs"), _LIST),
        }
    },
    4: {"turn": {"agent": _TEXT}, "call": {"agent": _TEXT}, "trial": {"agents": _LIST}},
    5: {
        "trial": {"cause": _TEXT, "retries": _NUMBER},
        "turn": {"repeats": _TEXT},
        "run": {"seconds": "FLOAT", "joules": "FLOAT"},
    },
    6: {
        "run": {"options": _OBJECT, "scenarios": _OBJECT, "per_token": "FLOAT NOT NULL DEFAULT 4"},
        "trial": {"replaced": "BOOLEAN NOT NULL DEFAULT FALSE"},
        "turn": {"model": _TEXT},
    },
    7: {"trial": {"stretched": "FLOAT NOT NULL DEFAULT 1"}, "turn": {"ended": "FLOAT"}},
    8: {
        "trial": {
            **dict.fromkeys(("calls", "executed", "crashed", "prompt_tokens"), _NUMBER),
            **dict.fromkeys(("errors", "agent_calls"), _OBJECT),
            "recovery": "JSON",
        }
    },
    9: {"trial": {"counting": _NUMBER}, "look": {"at": _TEXT, "data": _TEXT}},
    10: {"trial": {"goal": _LIST, "goal_turn": "INTEGER"}},
    11: {"run": {"arm": _OBJECT}, "turn": {"reasoning": _TEXT}, "call": {"harness": _TEXT}},
    12: {"trial": {"prompts": _OBJECT}},
    13: {"trial": {"shard": "INTEGER"}},
    14: {
        "run": {"source": _OBJECT},
        "call": dict.fromkeys(("derived", "offending", "shape"), _TEXT),
    },
    15: {},
    16: {"shard": {"came": _SECONDS}},
    17: {"run": {"judged": _OBJECT}},
    18: {},  # two indexes
}
VERSIONS = tuple(range(OLDEST, SCHEMA))
_LOOKS = """CREATE TABLE look (
    id INTEGER NOT NULL,
    run_id VARCHAR NOT NULL,
    number INTEGER NOT NULL,
    planned INTEGER NOT NULL,
    trials INTEGER NOT NULL,
    level FLOAT NOT NULL,
    verdict VARCHAR NOT NULL,
    baseline VARCHAR NOT NULL,
    rules VARCHAR NOT NULL,
    PRIMARY KEY (id),
    UNIQUE (run_id, number)
);
"""
_SHARDS = """CREATE TABLE shard (
    id INTEGER NOT NULL,
    run_id VARCHAR NOT NULL,
    number INTEGER NOT NULL,
    shards INTEGER NOT NULL,
    job VARCHAR NOT NULL,
    host VARCHAR NOT NULL,
    version VARCHAR NOT NULL,
    lease FLOAT NOT NULL,
    seen FLOAT NOT NULL,
    PRIMARY KEY (id)
);
"""
_ONCE = "    UNIQUE (run_id, scenario, number),\n"  # until trials could be played again


def sqlite_schema(version: int) -> str:
    """SQL that makes such a database."""
    made = (Path(__file__).parent / "schema2.sql").read_text()
    if version >= 6:
        made = made.replace(_ONCE, "")
    if version >= 8:
        made += _LOOKS
    if version >= 13:
        made += _SHARDS
    for brought in range(OLDEST + 1, version + 1):
        for table, columns in BROUGHT[brought].items():
            for name, kind in columns.items():
                made += f"ALTER TABLE {table} ADD COLUMN {name} {kind};\n"
    return made + f"PRAGMA user_version = {version};\n"


def postgres_schema(version: int) -> str:
    made = sqlite_schema(version)
    made = re.sub(r"^    id INTEGER NOT NULL", "    id SERIAL NOT NULL", made, flags=re.MULTILINE)
    made = re.sub(r"^PRAGMA .*\n", "", made, flags=re.MULTILINE)
    for table in ("trial", "turn", "call"):
        made += f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), 1);\n"
    return made
