"""What a simulated model takes as a chat-completions request."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field


class _StreamOptions(BaseModel):
    include_usage: bool = False


class _Function(BaseModel):
    name: str
    arguments: str | dict[str, Any] | None = None


class _Tool(BaseModel):
    id: str | None = None
    function: _Function


class _OfferedFunction(BaseModel):
    model_config = ConfigDict(extra="allow")

    name: str


class _Offered(BaseModel):
    function: _OfferedFunction


class _Message(BaseModel):
    role: str
    content: str | list[dict[str, Any]] | None = None
    tool_calls: list[_Tool] | None = None
    tool_call_id: str | None = None


class ChatRequest(BaseModel):
    """What of a request matters here; everything else is taken and ignored, as servers do."""

    model: str
    messages: Annotated[list[_Message], Field(min_length=1)]
    tools: list[_Offered] = []
    stream: bool = False
    stream_options: _StreamOptions | None = None
    seed: int | None = None
