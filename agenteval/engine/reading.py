"""How the server of one run counts prompts, by all that was seen of it."""

from collections.abc import Sequence
from dataclasses import dataclass

from agenteval.core.reading import Counted, Sent, counted, cut
from agenteval.errors import Cause, InfrastructureError
from agenteval.protocols import Health

PROOF = 20  # requests that were counted as whole; caches that forget can look so for a few


@dataclass(slots=True)
class Reading:
    """`whole` counts requests seen to be counted as a whole; `partly` that one was not, once."""

    whole: int = 0
    partly: bool = False

    async def check(self, requests: Sequence[Sent], health: Health) -> None:
        """Raises InfrastructureError when the last request of a conversation was cut."""
        found = counted(requests)
        self.whole += found is Counted.WHOLE
        if found not in {Counted.SHORT, Counted.NEW}:
            return
        context = await health.context()
        proved = self.whole >= PROOF and not self.partly and found is Counted.SHORT
        if why := cut(requests, context=context, whole=proved):
            raise InfrastructureError(why, Cause.CONTEXT_CUT)
        self.partly = True
