"""mini-swe-agent: its own agent, LiteLLM model and local environment, trials in threads."""

import os
from concurrent.futures import ThreadPoolExecutor

os.environ["MSWEA_SILENT_STARTUP"] = "1"
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
os.environ["MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT"] = "1"  # by default ten, minutes apart

from minisweagent.agents.default import DefaultAgent
from minisweagent.environments.local import LocalEnvironment
from minisweagent.models.litellm_model import LitellmModel
from session import AT_ONCE, ended, session

TOLD = session()


def one(_number: int) -> int:
    model = LitellmModel(
        model_name="openai/m",
        model_kwargs={"api_base": TOLD.url, "api_key": "x"},
        cost_tracking="ignore_errors",
        observation_template="{{ output.output }}",
    )
    shell = LocalEnvironment(cwd=TOLD.folder, env={"PATH": TOLD.environment()["PATH"]})
    agent = DefaultAgent(
        model, shell, system_template="{{ told }}", instance_template="{{ task }}",
        step_limit=TOLD.turns, cost_limit=0,
    )  # fmt: skip
    agent.run(TOLD.user, told=TOLD.system)
    return sum(one["role"] == "tool" and bool(one["content"]) for one in agent.messages)


# LiteLLM imports more at its first request: once, and not in eight threads at a time.
RAN = one(0)
with ThreadPoolExecutor(AT_ONCE) as threads:
    RAN += sum(threads.map(one, range(1, TOLD.trials)))
ended(TOLD, RAN, "mini-swe-agent")
