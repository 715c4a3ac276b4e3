"""What works on this machine, found out by trying it: sandboxes, and the second reader of shell."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from agenteval.core.call import BashRun
from agenteval.engine.second_reader import SecondReader
from agenteval.sandbox.backends import AUTOMATIC, probe_all
from agenteval.sandbox.inside.linux import landlock_version
from agenteval.sandbox.probe import Probe

# A command it reads, with its words; one it cannot read, one it hangs on.
ASKED = (("ls 'a b'", "ls", "a b"), ("echo { }",), ("echo a'${'b",))


@dataclass(frozen=True, slots=True)
class Inspected:
    """`chosen` is the sandbox that a run uses by itself; None where none works.

    `landlock` is the version of the second layer in this kernel, 0 where it has none.
    """

    probes: Sequence[Probe]
    second_reader: Mapping[str, int]
    landlock: int

    @property
    def chosen(self) -> str | None:
        working = {seen.backend for seen in self.probes if seen.works}
        return next((name for name in AUTOMATIC if name in working), None)

    def document(self) -> dict[str, Any]:
        return {
            "chosen": self.chosen,
            "landlock": self.landlock,
            "sandboxes": [asdict(seen) for seen in self.probes],
            "second_reader": dict(self.second_reader),
        }


def inspect() -> Inspected:
    return asyncio.run(_inspect())


async def _inspect() -> Inspected:
    return Inspected(await probe_all(), await _second_reader(), landlock_version())


async def _second_reader() -> Mapping[str, int]:
    """How bashlex answers the commands that it is asked on purpose."""
    async with SecondReader() as reader:
        for text, *words in ASKED:
            argv = tuple(words)
            await reader.objection(BashRun(text, argv, (argv,)))
    return dict(reader.counts)
