"""`[models.NAME]` of agenteval.toml: the server that plays under a name, and its requests."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from agenteval.config import trust
from agenteval.config.files import PROJECT_FILE, Roots, check, parse, read_content
from agenteval.errors import UsageError
from agenteval.replies.text_calls import DIALECTS
from agenteval.trial.redaction import KEYS, Redactor, shown_url
from agenteval.trial.run import ModelCard, Rule, usual

SIMULATED = "sim/"
# Seconds: clocks and sockets count no further than some centuries.
_LONGEST = 7 * 24 * 3600
_NO_URL = "no http(s) URL such as http://localhost:8000/v1"


def _checked_url(url: str) -> str:
    """Return the URL as it is. Raises ValueError when no server can stand there."""
    # Readers of URLs differ in the host.
    if "\\" in url or not url.isprintable() or " " in url:
        raise ValueError(_NO_URL)
    # Letters look alike, and readers of URLs translate them differently.
    if not url.isascii():
        raise ValueError("a URL in ASCII: a host with other letters begins with xn--")
    try:
        parts = urlsplit(url)
        has_port = parts.port != 0
    # Half an IPv6 address, a port that is none; its words quote the password.
    except ValueError:
        raise ValueError(_NO_URL) from None
    if parts.scheme not in {"http", "https"} or not parts.hostname or not has_port:
        raise ValueError(_NO_URL)
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ValueError(
            "a URL without user, password, ? and #: it is stored and shown. A key is sent as a "
            "header: put it into the variable that api_key_env names"
        )
    return url


def _checked_variable(name: str) -> str:
    """Return the name; empty means that no key is sent. Raises ValueError for a key itself."""
    is_name = re.fullmatch(r"([A-Za-z_]\w{0,99})?", name, re.ASCII)
    if not is_name or Redactor(KEYS).text(name) != name:
        raise ValueError(
            "expected the name of a variable of the environment, such as OPENAI_API_KEY: the key "
            "itself stands in that variable and in no file"
        )
    return name


def _checked_urls(urls: str) -> str:
    """Return URLs, apart by spaces. Raises ValueError for no URL, or the same one twice."""
    checked_urls = [_checked_url(url) for url in urls.split()]
    distinct = {url.rstrip("/") for url in checked_urls}
    if not checked_urls or len(distinct) < len(checked_urls):
        raise ValueError("each URL once, such as http://localhost:8000/v1")
    return " ".join(checked_urls)


def _joined(urls: Any) -> Any:
    if isinstance(urls, list) and all(isinstance(url, str) for url in urls):
        return " ".join(urls)
    return urls


def _known_dialect(name: str) -> str:
    """Return the name as it is. Raises ValueError for one that nothing reads."""
    if name not in DIALECTS:
        raise ValueError(f"no dialect of text calls; there are {', '.join(DIALECTS)}")
    return name


class _StrictModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Sampling(_StrictModel):
    """The sampling settings of each request; the server's default replaces a missing one."""

    temperature: float | None = Field(default=None, ge=0)
    top_p: float | None = Field(
        default=None,
        gt=0,
        le=1,
    )
    top_k: int | None = Field(default=None, ge=-1)
    min_p: float | None = Field(
        default=None,
        ge=0,
        le=1,
    )
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None
    seed: int | None = Field(
        default=None,
        description="sent as it is; without it each turn sends a seed of its own",
    )
    max_tokens: int | None = Field(default=None, gt=0)
    chat_template_kwargs: dict[str, Any] | None = None


class Timeouts(_StrictModel):
    """Seconds."""

    connect: float = Field(
        default=5.0,
        gt=0,
        le=_LONGEST,
    )
    request: float = Field(
        default=300.0,
        gt=0,
        le=_LONGEST,
        description="from request to the last byte; more on a slow server",
    )


class ModelEntry(_StrictModel):
    """One served model. Several URLs are servers that share its trials; see `per_server`."""

    base_url: Annotated[str, BeforeValidator(_joined), AfterValidator(_checked_urls)]
    model: str = Field(min_length=1, description="the id the server knows it by")
    api_key_env: Annotated[str, AfterValidator(_checked_variable)] = trust.USUAL_KEY
    architecture: Literal["dense", "moe", ""] = ""
    total_parameters: float | None = Field(
        default=None,
        gt=0,
        description="billions",
    )
    active_parameters: float | None = Field(
        default=None,
        gt=0,
        description="billions",
    )
    quantization: str = ""
    kv_cache: str = ""
    server: str = ""
    server_version: str = ""
    tool_parser: str = ""
    stream: bool = Field(default=True, description="false for servers that cannot stream tools")
    tools: Literal["native", "text"] = Field(
        default="native",
        description="text: schemas go into the prompt, calls are read from words",
    )
    tool_choice: Literal["auto", "required", ""] = Field(
        default="",
        description="sent as it is; without it the server's default, which is auto",
    )
    dialect: Annotated[str, AfterValidator(_known_dialect)] = Field(
        default="hermes",
        description=f"how a call is written, where tools = text: {', '.join(DIALECTS)}",
    )
    reasoning: Rule | None = Field(
        default=None,
        description="what a model thought is sent back: within the tool loop, always, or dropped; "
        "without it as is usual for its family",
    )
    reasoning_field: Literal["reasoning_content", "reasoning", ""] = Field(
        default="",
        description="where it is sent back; without it where it came",
    )
    ask: bool = Field(
        default=True,
        description="before a run: what does the server do to calls? 6 to 9 requests",
    )
    sampling: Sampling = Sampling()
    timeouts: Timeouts = Timeouts()

    @property
    def per_server(self) -> Sequence["ModelEntry"]:
        """The same model at each of its servers."""
        urls = self.base_url.split()
        return [self.model_copy(update={"base_url": url}) for url in urls]

    @property
    def sends_reasoning(self) -> Rule:
        """Models without native tools read their earlier turns as plain words."""
        if self.tools == "text":
            return "drop"
        return self.reasoning or usual(self.model, self.base_url)

    def card(self, name: str, *, simulated: bool = False) -> ModelCard:
        tools = DIALECTS[self.dialect].title if self.tools == "text" else "native"
        settings = {
            "sampling": self.sampling.model_dump(exclude_none=True),
            "reasoning": self.sends_reasoning,
            "tools": tools,
        }
        stated = self.model_dump(include={part.name for part in fields(ModelCard)})
        return ModelCard(name=name, served_id=self.model, simulated=simulated, **stated | settings)


class _ProjectFile(_StrictModel):
    """agenteval.toml."""

    models: dict[str, ModelEntry] = {}


def load_models(roots: Roots) -> Mapping[str, ModelEntry]:
    """Return the models of the first agenteval.toml found under `roots`.

    The file binds no key to its URLs: `trust.key_for` asks who confirmed it.
    """
    for root in roots:
        path = root / PROJECT_FILE
        if path.is_file():
            return entries_of(root, read_content(path))
    return {}


def entries_of(root: Path, content: bytes) -> Mapping[str, ModelEntry]:
    """Return the models in the content of a project's agenteval.toml. Raises UsageError."""
    path = root / PROJECT_FILE
    entries = check(path, parse(path, content), _ProjectFile).models
    trust.claim(root, content, pairs_of(entries))
    return entries


def pairs_of(entries: Mapping[str, ModelEntry]) -> list[trust.Pair]:
    """Return each origin, with the variable whose key would go there."""
    places = [place for entry in entries.values() for place in entry.per_server]
    return [(trust.origin_of(place.base_url), place.api_key_env) for place in places]


def resolve(name: str, configured: Mapping[str, ModelEntry], base_url: str | None) -> ModelEntry:
    """Return the entry for `name`; `base_url` (flag or environment) goes before the file's.

    Raises UsageError when neither the file nor `base_url` says where the model is served.
    """
    entry = configured.get(name)
    if base_url is not None:
        given_entry = at_url(base_url, name)
        if entry is None:
            return given_entry
        return entry.model_copy(update={"base_url": given_entry.base_url})
    if entry is None:
        known = ", ".join(sorted(configured)) or "none"
        raise UsageError(
            f"no model {name!r} (known: {known}). Say under [models.{name!r}] of an "
            f"{PROJECT_FILE} where it is served, or name a simulated one such as "
            f"{SIMULATED}qwen3.6-35b; `run` and `speed` take --base-url http://HOST:PORT/v1 instead"
        )
    return entry


def at_url(base_url: str, model: str) -> ModelEntry:
    """Return the entry of a model that no file knows. Raises UsageError for no URL."""
    try:
        return ModelEntry(base_url=_checked_urls(base_url), model=model)
    except ValueError as error:
        raise UsageError(f"--base-url {shown_url(base_url)!r}: {error}") from None
