"""What a simulated model calls the tools: its calls in the names of the profile that asks it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from agenteval.core.call import ToolCall
from agenteval.dialects.registry import spoken
from agenteval.models.player import PastCall, Reply
from agenteval.models.slips import Written


class Speech:
    """Between our own tools, which players know, and those that a request offers."""

    def __init__(self, schemas: Sequence[Mapping[str, Any]]) -> None:
        offered = {schema["function"]["name"] for schema in schemas}
        self._profile = spoken(schemas)
        self.tools = tuple(
            tool for tool, form in self._profile.forms.items() if form.name in offered
        )

    def heard(self, past: PastCall) -> PastCall:
        """An earlier call of the conversation, in our own words."""
        call = ToolCall("", past.name, "", past.arguments)
        meant = self._profile.meant(call, self.tools)
        if meant is None:
            return past
        return replace(past, name=meant.name, arguments=meant.arguments)

    def said(self, reply: Reply) -> Reply:
        return replace(reply, calls=tuple(self._said(call) for call in reply.calls))

    def _said(self, call: Written) -> Written:
        if call.name not in self.tools:
            return call
        try:
            arguments = json.loads(call.arguments)
        except json.JSONDecodeError:  # meant to be broken
            return Written(self._profile.forms[call.name].name, call.arguments)
        return Written(*self._profile.written(call.name, arguments))
