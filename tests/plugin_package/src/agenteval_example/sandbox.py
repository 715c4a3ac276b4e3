"""A sandbox that says it isolates, and does not: only a probe can tell."""

from agenteval.sandbox.backends import Bare


class Plain(Bare):
    name = "plain"
