import pytest

from mars_env.agents import Coder, Solver, make_agents
from mars_env.envs.tree_search import tree_search
from mars_env.models import ScriptedModel
from mars_env.testing.agent_suite import check_agent
from mars_env.types import Action, Problem


@pytest.mark.parametrize(("kind", "agent"), [("code", Coder), ("math", Solver)])
async def test_generate_and_refine(kind, agent):
    rules = tree_search(schedule="training", kind=kind, agents=2)
    root, name = rules.start(Problem("p", "Echo a line.", None, kind)), rules.possible_agents[0]
    node = rules.apply(root, Action("print({{ x }})"), None)
    node = rules.with_feedback(node, "It failed: {% raw %} {0} %s")
    fresh, refine = rules.observe(root, name), rules.observe(node, name)
    made = make_agents(ScriptedModel(["4"], ids=True), [name])[name]
    assert type(made) is agent
    await check_agent(made, fresh, trainable=True)
    await check_agent(made, refine, trainable=True)
    first, second = (made.prompt(seen)[-1]["content"] for seen in (fresh, refine))
    assert "feedback" not in first and "Echo a line." in first
    # What models and tests say is filled in as it is, never read as a template.
    assert "print({{ x }})" in second and "It failed: {% raw %} {0} %s" in second
