import pytest

from mars_env.agents import Coder, Solver, make_agents
from mars_env.envs.tree_search import tree_search
from mars_env.errors import ConfigError
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


def test_a_list_gives_one_agent_for_each_place():
    names = ["coder_0", "coder_1"]
    two = make_agents(["scripted:a", "scripted:b"], names)
    assert two["coder_0"].model is not two["coder_1"].model
    assert make_agents([ScriptedModel(["a"]), str.upper], names)["coder_1"].policy == "upper"
    urls = "coder_0=http://a/v1+http://c/v1#one?temperature=0.5,coder_1=http://b/v1#two"
    assert [agent.policy for agent in make_agents(urls, names).values()] == ["one", "two"]
    with pytest.raises(ConfigError):
        make_agents(["scripted:a", "scripted:b", "scripted:c"], names)


@pytest.mark.parametrize("kind", ["code", "math"])
def test_agents_of_a_search_on_one_model_have_prompts_of_their_own(kind):
    rules = tree_search(schedule="training", kind=kind, agents=4)
    seen = rules.observe(rules.start(Problem("p", "Echo a line.", None, kind)), rules.possible_agents[0])
    made = make_agents(ScriptedModel(["x"]), rules.possible_agents)
    prompts = [made[name].prompt(seen) for name in rules.possible_agents]
    systems = [system["content"] for system, _ in prompts]
    assert len(set(systems)) == 4
    assert systems[0] == type(made[rules.possible_agents[0]]).system  # alone, an agent is told nothing more
    assert all(system.startswith(f"{systems[0]} ") for system in systems[1:])
    assert all(user == prompts[0][1] for _, user in prompts)  # the task is the same
