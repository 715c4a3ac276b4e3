"""A failure class: what the shipped ones call a bare binary, told apart."""

from agenteval.classes.failure_class import DeniedCall, Seen, failure_class


@failure_class(
    bad=["docker run alpine ls"],
    good=["git status", "uv run scripts/notes.py search 'docker run'"],
    cure="Run the listed script itself; it needs no container.",
)
def container_engine(call: DeniedCall) -> Seen | None:
    """A container started for a command.

    The scripts of a workspace run where they are; an engine reaches the whole machine.
    """
    for part in call.parts:
        if part.argv[0] in {"docker", "podman"}:
            return Seen(call.words(part))
    return None


@failure_class(bad=["ls"], good=["git status"], cure="-")
def pipe_to_filter(call: DeniedCall) -> Seen | None:
    """A class whose id is taken.

    It must be left out.
    """
    return Seen(call.whole)
