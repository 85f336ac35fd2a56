"""Invariant 4 in a turn of several samples, in virtual time: a sample that fails is lost alone."""

import asyncio
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sums_team import ByNumber, script, sums, told
from virtual_servers import Servers, address, serving

from benchmarks.simulator import run_virtual
from mars_env.agents import Solver, make_agents
from mars_env.agents.tools import Toolbox, tool
from mars_env.envs import Game, GroupedSettings, grouped, solve, solve_verify_correct
from mars_env.envs.growers import levels
from mars_env.errors import ModelError
from mars_env.models import HTTPModel, ScriptedModel
from mars_env.rollout import Job, Store, collect, play_all, read_run
from mars_env.seeds import derive_seed
from mars_env.sync import gather_samples
from mars_env.text import describe_error
from mars_env.types import Action, Completion, Sampling, Verdict

PROBLEMS = sums(4)
WAIT = 1000.0
GROUPED = Game(
    solve_verify_correct(schedule="training"),
    ByNumber(),
    grower=grouped(GroupedSettings(group=4, branches=2)),
    turn_timeout=10.0,
)


class Faulty:
    """Samples of a scripted model, some of which fail, are late, or are no actions."""

    policy = "faulty"

    def __init__(self, faults):
        self.faults = faults  # by the number of the problem and of the sample
        self.model = ScriptedModel(script)

    async def act(self, observation, n, seed):
        number = int(observation["problem"].split()[2])
        samples = (
            self.sample(observation, i, derive_seed(seed, i), self.faults.get((number, i))) for i in range(n)
        )
        return await gather_samples(samples, self.lost)

    async def sample(self, observation, i, seed, fault):
        await asyncio.sleep(1)
        if fault == "late":
            await asyncio.sleep(WAIT)
        if fault == "error":
            raise KeyError("answer")
        if fault == "refused":
            raise ModelError("refused")
        if fault == "no action":
            return None
        [action] = await Solver(self.model).act(observation, 1, seed)
        return action

    def lost(self, number, error):
        return Action("", (Completion("", "fault", fault=describe_error(error)),))


def first_groups(faults):
    """The groups of the first agent, by problem, and the faults of the trees."""
    agents = {**make_agents(ScriptedModel(script), GROUPED.rules.possible_agents), "solver_0": Faulty(faults)}
    jobs = [Job(problem) for problem in PROBLEMS]
    trees = run_virtual(collect(GROUPED, agents, jobs, seed=1))
    return {
        int(t.problem.id.rpartition("/")[2]): [turn for turn in told(t).turns if turn.parent_id is None]
        for t in trees
    }, [t.fault for t in trees]


@cache
def calm_groups():
    return first_groups({})[0]


KINDS = ["late", "error", "refused", "no action"]


@settings(max_examples=30, deadline=None)
@given(st.dictionaries(st.tuples(st.integers(0, 3), st.integers(0, 3)), st.sampled_from(KINDS), max_size=9))
def test_any_failing_samples_are_lost_and_the_others_are_as_without_them(faults):
    calm = calm_groups()
    groups, lost = first_groups(faults)
    for number, group in groups.items():
        failed = {i for problem, i in faults if problem == number}
        assert bool(lost[number]) == (len(failed) == 4)
        if len(failed) == 4:
            assert not group
            continue
        assert len(group) == 4
        for i, turn in enumerate(group):
            if i in failed:
                assert turn.action.fault and turn.reward is None and turn.grade.verdict is Verdict.UNKNOWN
            else:
                assert turn == calm[number][i]


def test_nothing_grows_on_a_lost_sample_and_a_stored_one_is_not_played_again(tmp_path):
    game = replace(GROUPED, grower=levels([3, 1]))
    agents = {
        **make_agents(ScriptedModel(script), game.rules.possible_agents),
        "solver_0": Faulty({(1, 1): "late"}),
    }

    async def play():
        with Store(tmp_path, {}, PROBLEMS) as store:
            return [tree async for tree in play_all(game, agents, [Job(PROBLEMS[1])], seed=1, journal=store)]

    [tree] = run_virtual(play())
    assert not tree.fault
    [late] = [turn for turn in tree.turns if turn.id == "1"]
    assert late.action.fault == "TimeoutError: no action within 10 s"
    assert {turn.id[:2] for turn in tree.turns if turn.parent_id} == {"0.", "2."}
    [stored] = read_run(tmp_path).trees
    assert stored == tree


def test_one_sample_whose_tool_is_late_or_whose_request_is_refused():
    """The tool waits for longer than the turn; a server refuses the second request of another sample."""

    async def wait(seconds: float) -> str:
        """Wait."""
        await asyncio.sleep(seconds)
        return "waited"

    def text(prompt, sample, seed):
        if len(prompt) > 2 and "waited" in prompt[-1]["content"]:
            return r"\boxed{4}"
        seconds = WAIT if sample == 2 else 1
        return f'<tool_call>\n{{"name": "wait", "arguments": {{"seconds": {seconds}}}}}\n</tool_call>'

    game = Game(solve(), ByNumber(), grower=levels([4]), turn_timeout=10.0)
    box = Toolbox([tool(wait, seconds=2 * WAIT)])
    [tree] = run_virtual(
        collect(game, {"solver_0": Solver(ScriptedModel(text), tools=box)}, [Job(PROBLEMS[2])], seed=1)
    )
    assert [bool(turn.action.fault) for turn in tree.turns] == [False, False, True, False]
    assert [turn.reward for turn in tree.turns] == [1.0, 1.0, None, 1.0]


@pytest.mark.parametrize("refused", [(), (2,), (0, 3), (0, 1, 2, 3)])
def test_requests_of_one_turn_fail_alone(refused):
    seeds = [derive_seed(5, i) >> 32 for i in range(4)]
    servers = Servers(refused="|".join(f'"seed": {seeds[i]}\\b' for i in refused) or "(?!)")
    model = HTTPModel(address("a"), "m", samples_per_call=1)
    with serving(servers):
        if len(refused) == 4:
            with pytest.raises(ModelError):
                run_virtual(model.complete("p", 4, Sampling(seed=5)))
            return
        completions = run_virtual(model.complete("p", 4, Sampling(seed=5)))
    assert [i for i, each in enumerate(completions) if each.finish_reason == "fault"] == [*refused]
    assert all(str(seeds[i]) in each.text for i, each in enumerate(completions) if i not in refused)
