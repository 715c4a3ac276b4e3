"""A plug-in that was made for another version."""

from agenteval.logs import a_module_of_some_other_version  # noqa: F401
