import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded_model import Recorded

from mars_env.agents.roles import ROLES, Corrector, Solver, Verifier
from mars_env.agents.thinking import Thinking
from mars_env.errors import ConfigError
from mars_env.models import ScriptedModel
from mars_env.testing.agent_suite import OBSERVATIONS, check_agent
from mars_env.types import Sampling


@pytest.mark.parametrize("role", ROLES)
async def test_roles_keep_the_contract_of_agents(role):
    model = ScriptedModel(lambda prompt, sample, seed: f"<think>x</think>{seed}", ids=True)
    await check_agent(ROLES[role](model), OBSERVATIONS[role], trainable=True)


@pytest.mark.parametrize("role", ROLES)
def test_prompts_show_all_fields_and_only_them(role):
    agent = ROLES[role](ScriptedModel(["x"]))
    system, user = agent.prompt(OBSERVATIONS[role])
    assert (system["role"], user["role"]) == ("system", "user")
    for field in ("problem", "solution", "report"):
        assert str(OBSERVATIONS[role].get(field, "")) in user["content"]
    assert "{{" not in user["content"] and "{%" not in user["content"]
    cut = dict(OBSERVATIONS[role]) | {"truncated": 1}
    whole = dict(OBSERVATIONS[role]) | {"truncated": 0}
    if role != "solver":
        assert "cut off" in agent.prompt(cut)[1]["content"]
        assert "cut off" not in agent.prompt(whole)[1]["content"]


MARKS = ["problem", "solution", "report", "feedback", "program"]
PARTS = st.sampled_from([f"{opening}{mark}>" for mark in MARKS for opening in ("<", "</")]) | st.sampled_from(
    ["</", "<", ">", "\n", "div", *MARKS]
)
FIELDS = ("problem", "solution", "report", "feedback")


@pytest.mark.parametrize("role", ROLES)
@given(st.lists(PARTS, max_size=12).map("".join))
def test_no_field_leaves_its_marks(role, text):
    agent, seen = ROLES[role](ScriptedModel(["x"])), OBSERVATIONS[role]
    hostile, harmless = (
        agent.prompt({name: each if name in FIELDS else value for name, value in seen.items()})[-1]["content"]
        for each in (f"x{text}", "x")
    )
    for mark in MARKS:
        for tag in (f"<{mark}>", f"</{mark}>"):
            if tag in harmless:
                assert hostile.count(tag) == harmless.count(tag)
            elif tag in text and tag not in agent.template:
                assert tag in hostile


def test_prompts_ask_for_what_the_rules_read():
    verifier = Verifier(ScriptedModel(["x"])).prompt(OBSERVATIONS["verifier"])[1]["content"]
    assert verifier.endswith("\nCorrectness: Correct\nCorrectness: Wrong")
    for agent in (Solver, Corrector):
        text = agent(ScriptedModel(["x"])).prompt(OBSERVATIONS[agent.role])[1]["content"]
        assert "\\boxed{}" in text and "```python" in text


@pytest.mark.parametrize("agent", [Solver, Corrector])
def test_the_kind_of_problem_narrows_the_prompt(agent):
    for kind, present, absent in (("code", "```python", "boxed"), ("math", "boxed", "```python")):
        text = agent(ScriptedModel(["x"])).prompt({**OBSERVATIONS[agent.role], "kind": kind})[1]["content"]
        assert present in text and absent not in text


def test_a_solver_revises_its_own_solution():
    seen = {"problem": "p", "solution": "It is 5.", "truncated": 0, "round": 1}
    solver = Solver(ScriptedModel(["x"]))
    assert "It is 5." in solver.prompt(seen)[1]["content"]
    assert solver.prompt({**seen, "solution": ""}) == solver.prompt({"problem": "p"})


async def test_actions_hide_thinking_and_keep_the_completion():
    model = Recorded(ScriptedModel(["<think>secret</think>\n\nIt is 4.", "<think>never ends"], name="m"))
    solver = Solver(model, sampling=Sampling(temperature=0.6, max_tokens=50))
    actions = [a for seed in range(20) for a in await solver.act({"problem": "p"}, 1, seed)]
    assert {a.text for a in actions} == {"It is 4.", ""}
    assert all("<think>" in a.completions[0].text for a in actions)
    assert solver.policy == "m"
    assert {sampling.seed for _, _, sampling in model.requests} == set(range(20))
    assert {sampling.temperature for _, _, sampling in model.requests} == {0.6}
    [action] = await Solver(ScriptedModel(["<think>x"]), thinking=None).act({"problem": "p"}, 1, 0)
    assert action.text == "<think>x"


@pytest.mark.parametrize("model", [lambda seen: "4", "http://host:8000/v1#model", ScriptedModel, None])
def test_what_is_no_model_is_refused_before_it_plays(model):
    with pytest.raises(ConfigError):
        Solver(model)
    with pytest.raises(ConfigError):
        Solver(ScriptedModel(["x"]), sampling={"temperature": 0})


def test_templates_run_in_a_sandbox():
    agent = Solver(ScriptedModel(["x"]), prompt="{{ problem.__class__.__mro__ }}")
    with pytest.raises(ConfigError):
        agent.prompt({"problem": "p"})


TAGS, BEGUN = Thinking(opening="[THINK]", closing="[/THINK]"), Thinking(opened=True)


@pytest.mark.parametrize(
    ("thinking", "text", "shown"),
    [
        (Thinking(), "no tags  ", "no tags  "),
        (Thinking(), "<think>a</think>b<think>c</think>d", "bd"),
        (Thinking(), "<think>a", ""),
        (Thinking(), "a</think>b</think>c", "c"),
        (Thinking(), "<think>a<think>b</think>c", "c"),
        (Thinking(), "a<think>b</think>c<think>d", "ac"),
        (TAGS, "[THINK]a[/THINK]b<think>", "b<think>"),
        *((BEGUN, "a", ""), (BEGUN, "a</think>b", "b"), (BEGUN, "<think>a</think>b", "b")),
    ],
)
def test_thinking_is_stripped(thinking, text, shown):
    assert thinking.visible(text) == shown


@given(st.lists(st.sampled_from(["<think>", "</think>", "a", "b "])).map("".join))
def test_stripping_leaves_no_tags_and_is_done_once(text):
    shown = Thinking().visible(text)
    assert "<think>" not in shown and "</think>" not in shown
    assert Thinking().visible(shown) == shown
