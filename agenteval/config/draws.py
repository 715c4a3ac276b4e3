"""`[draw]` of a scenario, and the word lists it may draw from."""

from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, model_validator

from agenteval.config.toml import check, read_toml
from agenteval.core.chance import Day, Draw, Pick, Whole

WORDS = "words.toml"
_STRICT = ConfigDict(extra="forbid", strict=True, frozen=True)
_Name = Annotated[str, Field(min_length=1)]


class DrawSchema(BaseModel):
    """`{ from, to }` of whole numbers or days, or `{ of }` with an optional `count`."""

    model_config = _STRICT

    low: int | str | None = Field(default=None, alias="from")
    high: int | str | None = Field(default=None, alias="to")
    of: list[str | int] | _Name | None = None
    count: PositiveInt | None = None

    @model_validator(mode="after")
    def _is_one_kind(self) -> Self:
        ranged = self.low is not None and self.high is not None and self.of is None
        if ranged and self.count is None:
            self._check_range()
        elif self.of is None or self.low is not None or self.high is not None:
            raise ValueError(
                "give `from` and `to` (whole numbers, or days as YYYY-MM-DD), or `of` (a list, or "
                "the name of a word list), with `count` for a list of different ones"
            )
        return self

    def _check_range(self) -> None:
        low, high = self.low, self.high
        if isinstance(low, str) and isinstance(high, str):
            low, high = date.fromisoformat(low).toordinal(), date.fromisoformat(high).toordinal()
        if not isinstance(low, int) or not isinstance(high, int):
            raise ValueError("`from` and `to` are two whole numbers or two days")  # noqa: TRY004 -- pydantic's way
        if low > high:
            raise ValueError("`from` is above `to`")


class _Words(BaseModel):
    model_config = _STRICT

    words: dict[str, Annotated[list[_Name], Field(min_length=1)]]


def load_words(places: Sequence[Path]) -> Mapping[str, tuple[str, ...]]:
    """The lists of every words.toml in `places`; the first place that has a list wins.

    Raises UsageError.
    """
    found: dict[str, tuple[str, ...]] = {}
    for path in (place / WORDS for place in places):
        if path.is_file():
            lists = check(path, {"words": read_toml(path)}, _Words).words
            found = {name: tuple(words) for name, words in lists.items()} | found
    return found


def draw(schema: DrawSchema, words: Mapping[str, tuple[str, ...]]) -> Draw:
    """Raises ValueError when a word list is unknown or shorter than the count."""
    if schema.of is None:
        low, high = schema.low, schema.high
        return (
            Whole(low, high)
            if isinstance(low, int) and isinstance(high, int)
            else Day(str(low), str(high))
        )
    if isinstance(schema.of, str) and schema.of not in words:
        raise ValueError(f"no word list {schema.of!r}. Known: {', '.join(sorted(words)) or 'none'}")
    items = words[schema.of] if isinstance(schema.of, str) else tuple(schema.of)
    if len(items) < (schema.count or 1):
        raise ValueError(f"{schema.count or 1} of a list of {len(items)}")
    return Pick(items, schema.count or 0)
