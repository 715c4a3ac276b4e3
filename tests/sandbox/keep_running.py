"""An evaluator in the middle of two calls: says so, and waits to be killed."""

import asyncio
import sys

from agenteval.sandbox.backends import BACKENDS
from agenteval.trial.trial import Limits


async def main(name: str, mark: str) -> None:
    backend = BACKENDS[name]()
    async with (
        backend.open({}, Limits()) as one,
        backend.open({}, Limits()) as other,
        asyncio.TaskGroup() as group,
    ):
        script = f"(setsid sleep {mark} &); trap '' TERM; sleep {mark}"
        group.create_task(one.run(["sh", "-c", script]))
        group.create_task(other.run(["sh", "-c", script]))
        await asyncio.sleep(0.3)
        print("running", flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
