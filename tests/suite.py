"""The shipped scenarios, read once for all tests of a process: reading builds the world of each."""

from pathlib import Path

from agenteval.config.scenarios import load_scenarios

PROJECT = Path(__file__).resolve().parents[1]
SCENARIOS = load_scenarios([], roots=[PROJECT])
