"""Our environments in verifiers, by its own classes, against a server on this machine."""

import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import openai_server
import pytest
from turns import turn

import mars_env
from mars_env.rollout import groups_of, read_run
from mars_env.trainers.advantages import group_normalised
from mars_env.types import Grade, Problem, Tree
from mars_env_verifiers import (
    PLUGIN,
    TeamConfig,
    TeamTasksetConfig,
    completion_of,
    load_environment,
    record_tree,
)

pytest.importorskip("verifiers", reason="verifiers is not installed: pip install 'mars-env[verifiers]'")

import verifiers.v1 as vf

ENV = "arithmetic-solve-verify-correct"
PAGE = Path(__file__).parents[2] / "docs" / "other-trainers.md"


def answers(limit=20):
    return {problem.statement: problem.reference for problem in mars_env.make(ENV).problems[:limit]}


def turns_of(tree):
    return [(turn.id, turn.agent, turn.reward, str(turn.grade and turn.grade.verdict)) for turn in tree.turns]


def shown(trace):
    place, reward = trace.info["mars_env"], trace.rewards["reward"].score
    return place["turn"], place["agent"], reward, str(place["verdict"])


async def played(env, server, tasks):
    """The episodes of some tasks."""
    client = vf.EvalClientConfig(base_url=server.url, api_key_var="NO_KEY_AT_ALL")
    ctx = vf.ModelContext(client=client, model="tiny", sampling=vf.SamplingConfig())
    async with env.serving():
        return [await env.run_slot(slot, ctx) for task in tasks for slot in env.slots(task)]


@pytest.mark.slow
async def test_the_page_s_example_has_the_scores_of_evaluate(tmp_path, monkeypatch):
    monkeypatch.setenv("MY_KEY", "not-a-real-key")
    for removed in ("verifiers.v1.cli.eval", "verifiers.v1.configs.cli.eval"):  # by its pull request 2610
        monkeypatch.setitem(sys.modules, removed, None)
    blocks = re.findall("```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    [block], page = [block for block in blocks if "verifiers" in block], {}
    exec(block, page)  # noqa: S102
    config = TeamConfig(taskset=TeamTasksetConfig(id=PLUGIN, env_id=ENV, seed=5, samples=2))
    with openai_server.Server(answers=answers()) as server:
        episodes = await page["episodes"](vf.load_environment(config), server.url, "tiny", 16)
        report = mars_env.evaluate(
            ENV, agents=f"{server.url}#tiny", limit=8, samples=2, seed=5, out=tmp_path / "ours"
        )
    assert all(episode.ok for episode in episodes)
    theirs = {episode.traces[0].info["mars_env"]["tree"]: episode.traces for episode in episodes}
    trees = {tree.id: tree for tree in read_run(tmp_path / "ours").trees}
    assert len(trees) == 16
    assert {id: [shown(trace) for trace in traces] for id, traces in theirs.items()} == {
        id: turns_of(tree) for id, tree in trees.items()
    }
    scores = [traces[0].metrics["team_score"] for traces in theirs.values()]
    assert 0 < sum(scores) < 16
    for traces in theirs.values():  # the turns of an agent in one episode are no group
        own = [trace.info["mars_env"] for trace in traces]
        assert len({one["group"] for one in own}) == len(own) and {one["advantage"] for one in own} == {None}
    assert sum(scores) / 16 == pytest.approx(report.metrics["system_accuracy"].estimate.value)


async def test_seats_rewards_and_advantages_of_grouped_rollouts():
    env = load_environment(ENV, config={"group": 4, "branches": 2}, seed=3)
    with openai_server.Server(answers=answers()) as server:
        [episode] = await played(env, server, list(env.taskset.take(1)))
    assert episode.ok, episode.errors
    assert {trace.agent.name for trace in episode.traces} >= {"solver", "verifier"}
    known = [trace.info["mars_env"]["advantage"] for trace in episode.traces]
    assert any(known)
    groups = {}
    for trace in episode.traces:
        groups.setdefault(trace.info["mars_env"]["group"], []).append(trace)
    assert {len(members) for members in groups.values()} == {4}
    for members in groups.values():
        credits = [trace.info["mars_env"]["advantage"] for trace in members]
        rewards = {trace.reward for trace in members}
        assert (set(credits) == {0.0}) == (len(rewards) == 1)
        assert sum(credits) == pytest.approx(0, abs=1e-5)


async def test_an_unknown_reward_fails_the_episode_and_is_no_zero():
    env = load_environment("arithmetic-solve", seed=0)

    class Lost:
        async def grade(self, problem, text):
            return Grade.unknown("the machine was lost")

    env.game = replace(env.game, grader=Lost())
    with openai_server.Server() as server:
        [episode] = await played(env, server, list(env.taskset.take(1)))
    assert not episode.ok
    [trace] = episode.traces
    assert not trace.ok
    assert trace.rewards == {}
    assert "the machine was lost" in trace.last_error.message


def test_no_reference_is_in_a_task():
    env = load_environment(ENV)
    for task in env.taskset.take(3):
        problem = env.taskset.problems[task.data.place]
        assert task.data.prompt == problem.statement
        assert problem.reference not in json.dumps(task.data.model_dump(mode="json", exclude={"prompt"}))


def trace_of(*nodes, **call):
    """A trace of a client: its last node is the answer, which one call gave."""
    return vf.Trace(
        task=vf.TraceTask(type="Task", data=vf.TaskData()),
        agent=vf.AgentInfo(config=vf.AgentConfig(runtime=vf.SubprocessConfig())),
        nodes=list(nodes),
        calls=[vf.ModelCall(node=len(nodes) - 1, **call)],
        ok=True,
    )


@pytest.mark.parametrize(
    ("told", "limit", "reason"),
    [
        *(("stop", None, "stop"), ("tool_calls", None, "stop"), ("length", 3, "length")),
        *(("length", 4, "context"), ("length", None, "context"), (None, 3, "content_filter")),
    ],
)
def test_how_a_trace_ended(told, limit, reason):
    reply = vf.MessageNode(sampled=True, message=vf.AssistantMessage(content="4"))
    usage = vf.Usage(prompt_tokens=2, completion_tokens=3)
    trace = trace_of(reply, finish_reason=told, sampling=vf.Sampling(max_tokens=limit), usage=usage)
    assert completion_of(trace).finish_reason == reason


async def test_token_ids_of_a_trace_become_the_completion_and_its_advantages():
    """What prime-rl's client leaves in a trace: nodes with ids, a mask and log-probabilities."""

    def trace(reply):
        asked = vf.UserMessage(content="2 + 2?")
        return trace_of(
            vf.MessageNode(message=asked, token_ids=[1, 2], mask=[False, False]),
            vf.MessageNode(
                parent=0, sampled=True, message=vf.AssistantMessage(content=reply),
                token_ids=[9, 7, 8], mask=[False, True, True], logprobs=[-0.5, -0.25],
            ),
            finish_reason="length",
            sampling=vf.Sampling(temperature=0.7, max_tokens=2),
        )  # fmt: skip

    traces = [trace("4"), trace("5")]
    completions = [completion_of(one) for one in traces]
    first = completions[0]
    assert (first.prompt_ids, first.token_ids, first.logprobs) == ((1, 2, 9), (7, 8), (-0.5, -0.25))
    assert (first.temperature, first.finish_reason, first.trainable) == (0.7, "length", True)
    grades = (Grade.correct(), Grade.wrong("no"))
    turns = tuple(
        turn(str(i), grade.score, completion, tree="p#0", grade=grade)
        for i, (completion, grade) in enumerate(zip(completions, grades, strict=True))
    )
    tree = Tree("p#0", Problem("p", "2 + 2?", "4"), turns)
    record_tree(tree, "group_normalised")
    expected = group_normalised(groups_of([tree]))
    for each, one in zip(turns, traces, strict=True):
        assert one.branches[-1].advantages == [0.0, 0.0, 0.0, *[expected["p#0", each.id]] * 2]
        assert one.reward == each.reward
