"""Other distributions that install a package `agenteval` too, into the same folder as this one."""

from pathlib import Path

# agent-eval of Allen AI and agent-evaluation of AWS, as their metadata folders are called.
_OTHERS = ("agent_eval-", "agent_evaluation-")


def warning() -> str:
    """One line when another one lies here, else nothing.

    Read from the folder's names alone: importlib.metadata would take a third of a quick start.
    """
    for entry in Path(__file__).parent.parent.iterdir():
        if entry.name.startswith(_OTHERS):
            other = entry.name.partition("-")[0].replace("_", "-")
            return (
                f"{other} has put its own package agenteval into this folder, where the two "
                f"overwrite each other: pip uninstall {other} agenteval-gate, then install "
                "agenteval-gate in an environment of its own"
            )
    return ""
