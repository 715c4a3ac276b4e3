"""What to do instead, where several classes say the same or a class's own cure is not near."""

from agenteval.core.shell.facts import RedirectKind
from agenteval.taxonomy.denied import DeniedCall
from agenteval.taxonomy.registry import Seen

ALONE = "Run `{alone}` alone"  # how many cures begin
_WRITE = "Write the file with the write tool."


def with_hint(call: DeniedCall, seen: Seen | None) -> Seen | None:
    """The same, about writing when all that its command does with it is to put it into a file."""
    for command in call.shell.commands:
        if seen and any(redirect.span is seen.span for redirect in command.redirects):
            kinds = {redirect.kind for redirect in command.redirects}
            writes = command.program == "cat" and RedirectKind.FILE in kinds
            return seen._replace(hint=_WRITE) if writes or command.program == "tee" else seen
    return seen
