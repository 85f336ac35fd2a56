"""Teams that play sums, made by module-level functions, so that any process can make them."""

import asyncio
import os
from dataclasses import replace

from mars_env.agents import make_agents
from mars_env.envs import Game, GroupedSettings, grouped, solve_verify_correct
from mars_env.grading import grader_for
from mars_env.models import ScriptedModel
from mars_env.rollout import Job, Store, play_all
from mars_env.types import Grade, Problem


def sums(number):
    return [Problem(f"sum/{i}", f"What is {i} + {i}?", str(2 * i)) for i in range(number)]


PROBLEMS = sums(8)


def jobs(samples):
    return [Job(problem, sample) for sample in range(samples) for problem in PROBLEMS]


def script(prompt, sample, seed):
    if "Correctness: Correct" in prompt[-1]["content"]:
        return f"Step {seed % 5} is odd.\nCorrectness: {'Correct' if seed % 3 else 'Wrong'}"
    return f"We add and get \\boxed{{{seed % 16}}}."


def game():
    return Game(solve_verify_correct(schedule="training"), grader_for("math"))


def grouped_game():
    return replace(game(), grower=grouped(GroupedSettings(group=4, branches=2)))


def team(latency=0.0, model=None):
    scripted = model or ScriptedModel(script, ids=True, latency=latency)
    return make_agents(scripted, game().rules.possible_agents)


def slow_team():
    return team(0.02)


def slow_model():
    """For the command line: ``sums_team:slow_model``."""
    return ScriptedModel(script, latency=0.05)


def broken_team():
    return make_agents("no_such_module:agent", game().rules.possible_agents)


class ByNumber:
    """A grader without processes, which virtual time cannot wait for."""

    async def grade(self, problem, text):
        return Grade.correct() if f"{{{problem.reference}}}" in text else Grade.wrong("another number")


class ProcessGrader:
    """Reports the process in which it judges as its backend."""

    async def grade(self, problem, text):
        await asyncio.sleep(0.01)
        return replace(await grader_for("math").grade(problem, text), backend=f"process {os.getpid()}")


def game_graded_by_processes():
    return replace(game(), grader=ProcessGrader())


async def stored(directory, game, agents, jobs, problems=PROBLEMS, **options):
    """Play what a stored run lacks of these jobs; yields the trees."""
    options = {"seed": 1, **options}
    with Store(directory, {"seed": options["seed"]}, problems) as store:
        owed = [job for job in jobs if job.tree_id not in store.finished]
        async for tree in play_all(game, agents, owed, journal=store, **options):
            yield tree


def told(tree):
    """Everything in a tree except its timings."""
    turns = [
        replace(turn, seconds=0.0, grade=turn.grade and replace(turn.grade, seconds=0.0))
        for turn in tree.turns
    ]
    return replace(tree, turns=tuple(turns))
