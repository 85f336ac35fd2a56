"""Relay: a Solver writes until its limit cuts it off; a Finisher continues after its last whole line."""

import asyncio
import re

import mars_env
from mars_env.envs import UnicodeText, register_rules
from mars_env.miniature import load
from mars_env.miniature.agents import MiniatureAgent
from mars_env.miniature.recipe import RECIPE
from mars_env.trainers import make_team, train

ROLES = {"solver_0": "solver", "finisher_0": "corrector"}  # what the miniature was taught


class Relay:  # a state is the problem and the texts so far
    possible_agents, max_turns = tuple(ROLES), 2

    def fields(self, agent):
        return {"problem": UnicodeText(), "solution": UnicodeText(), "report": UnicodeText()}

    def start(self, problem):
        return (problem,)

    def current_agent(self, state):
        return self.possible_agents[len(state) - 1] if len(state) < 3 else None

    def observe(self, state, agent):
        solution = "".join(state[1:2])
        lines = re.findall(r"([a-g]:.*= ([0-9]{3}))\n", solution)  # the whole ones
        checked = "".join(f"{line} | {value} ok\n" for line, value in lines)
        report = f"Check:\n{checked}go on from {lines[-1][0][:2] if lines else 'a:'}\nCorrectness: Wrong"
        return {"problem": state[0].statement, "solution": solution, "report": report}

    def submission(self, state, action):
        return action.text

    def note(self, state, action):
        return {"truncated": action.truncated}

    def apply(self, state, action, grade):
        return (*state, action.text)

    def final(self, state):
        return len(state) - 2 if len(state) > 1 else None


register_rules("relay", Relay)

if __name__ == "__main__":
    env, model = mars_env.make("arithmetic-relay"), load()
    settings = RECIPE.marsrl.model_copy(update={"steps": 3})
    agents = {name: MiniatureAgent(role, model) for name, role in ROLES.items()}
    team = make_team(settings, env.possible_agents, [model], agent=lambda name, _: agents[name])
    held_out = mars_env.load_problems("arithmetic", split="test", seed=7, n=50)
    for step in asyncio.run(train(env.game, team, env.problems, settings)):
        print(step.step, {role: round(figures["reward"], 2) for role, figures in step.roles.items()})
    report = mars_env.evaluate("arithmetic-relay", agents=agents, problems=held_out)
    print("right:", report.metrics["system_accuracy"].estimate.value)
