"""The formats of logs: what each program's files are called, and where they lie."""

import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agenteval.errors import UsageError
from agenteval.logs import chat, claude, codex, gemini, inspect, opencode, spans, trajectories
from agenteval.trial.session import Fact, Session, Skipped

Read = Callable[[Path], Iterator[Session | Skipped]]


@dataclass(frozen=True, slots=True)
class LogFormat:
    """One program's logs. `files` are patterns for what to read in a folder of them.

    A folder in which nothing is named so may have been collected by hand: then the ending counts.

    `homes` are the program's own places: a variable of the environment, what it is without it, and
    the path below it. `hidden` is what such a log cannot show.
    """

    name: str
    title: str
    read: Read
    files: tuple[str, ...]
    homes: tuple[tuple[str, str, str], ...] = ()
    hidden: tuple[Fact, ...] = ()

    def find_files(self, path: Path, *, by_ending: bool = False) -> Iterator[Path]:
        """Yield the files of this format in a folder, or the file itself. Raises UsageError.

        If none has such a name, all with that ending are yielded, if that is wanted. What is no
        regular file comes too: its opener reports it.
        """
        try:
            is_folder = stat.S_ISDIR(path.stat().st_mode)
        except (OSError, ValueError) as error:
            gone = isinstance(error, FileNotFoundError)
            why = "no such file or folder of logs" if gone else error
            raise UsageError(f"{path}: {why}. Name one that is there") from error
        if not is_folder:
            yield path
            return
        endings = sorted({Path(pattern).suffix for pattern in self.files}) if by_ending else ()
        yield from _files(path, self.files) or _files(path, [f"**/*{end}" for end in endings])

    def places(self) -> Iterator[Path]:
        """Yield the folders on this machine in which the program keeps its logs."""
        for variable, usual, below in self.homes:
            base = Path(os.environ.get(variable) or usual).expanduser()
            if (place := base / below).exists():
                yield place


def _files(folder: Path, patterns: Sequence[str]) -> list[Path]:
    found = [file for pattern in patterns for file in sorted(folder.glob(pattern))]
    return [file for file in dict.fromkeys(found) if not file.is_dir()]


_KNOWN = (
    LogFormat(
        "opencode",
        "OpenCode: opencode.db, storage/, `opencode export`, `opencode run --format json`",
        opencode.read,
        (
            *("opencode*.db", "storage*/session/*/*.json", "session/*/*.json"),
            *("export*.json", "run*.jsonl"),
        ),
        (("XDG_DATA_HOME", "~/.local/share", "opencode"),),
    ),
    LogFormat(
        "claude-code",
        "Claude Code: <session>.jsonl, and subagents/agent-*.jsonl beside it",
        claude.read,
        ("**/*.jsonl",),
        (("CLAUDE_CONFIG_DIR", "~/.claude", "projects"),),
        (Fact.MALFORMED,),
    ),
    LogFormat(
        "codex",
        "Codex: sessions/Y/M/D/rollout-*.jsonl",
        codex.read,
        ("**/rollout-*.jsonl",),
        (("CODEX_HOME", "~/.codex", "sessions"), ("CODEX_HOME", "~/.codex", "archived_sessions")),
    ),
    LogFormat(
        "qwen-code",
        "Qwen Code: projects/*/chats/*.jsonl",
        gemini.read_qwen,
        ("**/chats/*.jsonl", "*.jsonl"),
        (("QWEN_HOME", "~/.qwen", "projects"),),
        (Fact.MALFORMED, Fact.EXIT_CODES),
    ),
    LogFormat(
        "gemini-cli",
        "Gemini CLI: tmp/*/chats/session-*.json, or .jsonl",
        gemini.read,
        (
            *("**/chats/*.json", "**/chats/*.jsonl", "*.json", "*.jsonl"),
            *("**/session-*.json", "**/session-*.jsonl"),
        ),
        (("GEMINI_CLI_HOME", "~/.gemini", "tmp"),),
        (Fact.MALFORMED, Fact.EXIT_CODES),
    ),
    LogFormat(
        "openai",
        "chat completions as JSONL: {messages, tools}, or requests with their replies",
        chat.read,
        ("**/*.jsonl",),
        hidden=(Fact.DENIALS, Fact.EXIT_CODES),
    ),
    LogFormat(
        "inspect",
        "Inspect AI: .eval and .json",
        inspect.read,
        ("**/*.eval", "**/*.json"),
        hidden=(Fact.EXIT_CODES,),
    ),
    LogFormat(
        "atif",
        "ATIF trajectories, as of a job of Harbor",
        trajectories.read_atif,
        ("**/trajectory*.json", "**/*.trajectory*.json"),
        hidden=(Fact.DENIALS, Fact.MALFORMED, Fact.EXIT_CODES),
    ),
    LogFormat(
        "swe-agent",
        "SWE-agent's .traj, and mini-swe-agent's .traj.json",
        trajectories.read_swe,
        ("**/*.traj", "**/*.traj.json"),
        (("MSWEA_GLOBAL_CONFIG_DIR", "~/.config/mini-swe-agent", "."),),
        hidden=(Fact.DENIALS,),
    ),
    LogFormat(
        "hook",
        "our own hook: calls.jsonl, and the older ones beside it",
        chat.read_hook_log,
        # Not calls.jsonl.lock
        ("calls.jsonl", "calls.jsonl[.-][!l]*"),
        (("XDG_STATE_HOME", "~/.local/state", "agenteval/hook"),),
        (Fact.MALFORMED, Fact.EXIT_CODES),
    ),
    LogFormat(
        "otel",
        "OpenTelemetry GenAI spans, as OTLP JSON",
        spans.read,
        ("**/*.json", "**/*.jsonl"),
        hidden=(Fact.EXIT_CODES,),
    ),
)
FORMATS: Mapping[str, LogFormat] = {each.name: each for each in _KNOWN}


def format_named(name: str) -> LogFormat:
    """Raises UsageError for a format that is not known."""
    if name not in FORMATS:
        raise UsageError(f"{name!r}: no format of logs. Known: auto, {', '.join(FORMATS)}")
    return FORMATS[name]
