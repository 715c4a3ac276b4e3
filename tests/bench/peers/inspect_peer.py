"""Inspect AI: a task with its own tool loop; one sample is one trial, its log is written."""

import os

import inspect_ai
from inspect_ai import Task
from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessageSystem, ChatMessageUser
from inspect_ai.solver import generate, use_tools
from inspect_ai.tool import tool
from session import AT_ONCE, Shell, ended, session

TOLD = session()
SHELL = Shell(TOLD)


@tool
def bash():
    async def execute(command: str) -> str:
        """Run a command.

        Args:
            command: The command.
        """
        return await SHELL.run(command)

    return execute


prompt = [ChatMessageSystem(content=TOLD.system), ChatMessageUser(content=TOLD.user)]
os.environ |= {"MOCK_BASE_URL": TOLD.url, "MOCK_API_KEY": "x"}
(log,) = inspect_ai.eval(
    Task([Sample(prompt)], solver=[use_tools(bash()), generate()]),
    model="openai-api/mock/m",
    epochs=TOLD.trials,
    message_limit=2 + 2 * TOLD.turns,
    max_samples=AT_ONCE,
    max_connections=AT_ONCE,
    display="none",
    log_dir=TOLD.folder,
)
if log.status != "success":
    raise SystemExit(log.error)
ended(TOLD, SHELL.ran, "inspect_ai")
