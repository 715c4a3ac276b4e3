"""Gives a backend's judges what a hostile model leaves; prints each attempt that did harm."""

import asyncio
import json
import sys
from dataclasses import asdict

from agenteval.sandbox.backends import BACKENDS
from agenteval.workflows.hostile import try_worlds

if __name__ == "__main__":
    tried = asyncio.run(try_worlds(BACKENDS[sys.argv[1]]()))
    harm = [asdict(one) for one in tried if not one.is_as_wanted]
    print(json.dumps({"tried": len(tried), "harm": harm}))
