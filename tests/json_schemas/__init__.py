"""The JSON Schema of every document that `--json` prints, out of the types that say what is in it.

A key that a type does not name is not printed, and each that it names is there, unless it says that
it may be missing. `PYTHONPATH=tests python -m json_schemas` writes them where `agenteval schema`
reads them: `agenteval/report/schemas`.
"""

import json
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter, create_model
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from agenteval.config.models import ModelEntry
from json_schemas.documents import (
    Calls,
    Explain,
    Gate,
    Plan,
    Runs,
    Transcript,
    TranscriptAgent,
)
from json_schemas.other_documents import (
    Classify,
    Doctor,
    Ingest,
    Proof,
    Scenario,
    SimulatedModel,
    Speed,
    SpeedLog,
    Trend,
    Whatif,
)
from json_schemas.report_document import Report

PLACE = Path(__file__).parents[2] / "agenteval" / "report" / "schemas"

ConfiguredModel = create_model(
    "ConfiguredModel",
    __base__=ModelEntry,
    name=(str, ...),
    simulated=(Literal[False], ...),
    serves=(list[str], ...),
    problem=(str, ...),
    probe=(dict[str, str], {}),
)

DOCUMENTS: dict[str, Any] = {
    "report": Report,
    "runs": Runs,
    "transcript": Transcript,
    "transcript-agent": TranscriptAgent,
    "calls": Calls,
    "gate": Gate,
    "explain": Explain,
    "plan": Plan,
    "ingest": Ingest,
    "trend": Trend,
    "classify": Classify,
    "whatif": Whatif,
    "speed": list[Speed],
    "speed-log": SpeedLog,
    "scenarios": list[Scenario],
    "scenarios-check": list[Proof],
    "models": list[ConfiguredModel | SimulatedModel],
    "doctor": Doctor,
}


def schema(document: str) -> dict[str, Any]:
    """Raises KeyError."""
    made = TypeAdapter(DOCUMENTS[document]).json_schema(schema_generator=_Closed)
    return {"$schema": GenerateJsonSchema.schema_dialect, **made, "title": f"agenteval {document}"}


class _Closed(GenerateJsonSchema):
    """Objects have the keys of their type and no others; a default does not make a key optional."""

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JsonSchemaValue:
        made = super().dataclass_schema(schema)
        return made | {"required": list(made["properties"]), "additionalProperties": False}

    def typed_dict_schema(self, schema: core_schema.TypedDictSchema) -> JsonSchemaValue:
        return super().typed_dict_schema(schema) | {"additionalProperties": False}

    def field_title_should_be_set(self, _: Any) -> bool:  # it would repeat the key
        return False


def text(document: str) -> str:
    return f"{json.dumps(schema(document), indent=1)}\n"
