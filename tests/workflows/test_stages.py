from agenteval.workflows.stages import load_stages


def test_a_model_has_the_tools_that_its_scenario_offers_and_no_others() -> None:
    stages = load_stages([])
    others = {
        stage.scenario.name: set(stage.policy.tools) - set(stage.scenario.tools) for stage in stages
    }
    assert {name: tools for name, tools in others.items() if tools} == {}
