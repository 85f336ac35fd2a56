"""Relay: a Solver writes until its limit cuts it off; a Finisher continues after its last whole line."""

import asyncio
import re

import mars_env
from mars_env import ask, game
from mars_env.miniature import load
from mars_env.miniature.agents import MiniatureAgent
from mars_env.miniature.recipe import RECIPE
from mars_env.trainers import make_team, train

ROLES = {"solver_0": "solver", "finisher_0": "corrector"}  # what the miniature was taught


SEEN = ["problem", "solution", "report"]


def next_step(text):
    """Where to go on: after the last whole line."""
    lines = re.findall(r"([a-g]:.*= ([0-9]{3}))\n", text)
    checked = "".join(f"{line} | {value} ok\n" for line, value in lines)
    return f"Check:\n{checked}go on from {lines[-1][0][:2] if lines else 'a:'}\nCorrectness: Wrong"


@game(max_turns=2, roles=dict.fromkeys(ROLES), fields={"solver": SEEN, "finisher": SEEN})
def relay(problem):
    first = yield ask("solver", problem=problem.statement)
    seen = {"problem": problem.statement, "solution": first.text}
    return (yield ask("finisher", **seen, report=next_step(first.text)))


if __name__ == "__main__":
    env, model = mars_env.make(relay, problems="arithmetic"), load()
    settings = RECIPE.marsrl.model_copy(update={"steps": 3})
    agents = {name: MiniatureAgent(role, model) for name, role in ROLES.items()}
    team = make_team(settings, env.possible_agents, [model], agent=lambda name, _: agents[name])
    held_out = mars_env.load_problems("arithmetic", split="test", seed=7, n=50)
    for step in asyncio.run(train(env.game, team, env.problems, settings)):
        print(step.step, {role: round(figures["reward"], 2) for role, figures in step.roles.items()})
    report = mars_env.evaluate(relay, agents=agents, problems=held_out)
    print("right:", report.metrics["system_accuracy"].estimate.value)
