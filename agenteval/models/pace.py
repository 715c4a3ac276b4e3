"""How slow a server is, by its replies: those that came, and those that are coming."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from agenteval.core.pace import generated, stretch
from agenteval.core.trial import Turn
from agenteval.models.stream import StreamReader


@dataclass(slots=True)
class ServerPace:
    """Implements `protocols.Pace`. A request that is only waited for says nothing yet."""

    tokens: int = 0
    seconds: float = 0.0
    _coming: dict[int, tuple[float, StreamReader]] = field(default_factory=dict)

    @contextmanager
    def reading(self, began: float) -> Iterator[StreamReader]:
        """A reader for the reply to a request that was begun then; it may never be used."""
        reader = StreamReader()
        self._coming[id(reader)] = began, reader
        try:
            yield reader
        finally:
            del self._coming[id(reader)]

    def took(self, turn: Turn) -> None:
        self.tokens += generated(turn)
        self.seconds += turn.seconds

    def stretch(self) -> float:
        now, tokens, seconds = time.perf_counter(), self.tokens, self.seconds
        for began, reader in self._coming.values():
            if reader.pieces:
                tokens += reader.pieces
                seconds += now - began
        return stretch(tokens, seconds)
