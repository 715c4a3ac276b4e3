"""Something for each part of agenteval that takes plug-ins, as somebody else would write it."""
