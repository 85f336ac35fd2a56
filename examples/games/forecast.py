"""Forecast: one agent answers, another says how likely the answer is right and is scored by Brier's rule."""

import asyncio

import mars_env
from mars_env.agents import RoleAgent
from mars_env.envs import UnicodeText, register_rules
from mars_env.models import tiny_model
from mars_env.trainers import MARSRL, TrainConfig, make_team, train
from mars_env.types import Sampling


class Forecast:  # a state is the problem and the texts so far
    possible_agents, max_turns = ("solver_0", "forecaster_0"), 2

    def fields(self, agent):
        return {"problem": UnicodeText(), "answer": UnicodeText()}

    def start(self, problem):
        return (problem,)

    def current_agent(self, state):
        return self.possible_agents[len(state) - 1] if len(state) < 3 else None

    def observe(self, state, agent):
        return {"problem": state[0].statement, "answer": "".join(state[1:2])}

    def submission(self, state, action):
        return action.text if len(state) == 1 else None

    def note(self, state, action):
        given = int(action.text) / 9 if action.text.isdecimal() else 0.5
        return {"forecast": given} if len(state) == 2 else {}

    def apply(self, state, action, grade):
        return (*state, action.text)

    def final(self, state):
        return 0 if len(state) > 1 else None


def brier(turn, path, problem):
    return None if path[0].grade.score is None else 1 - (turn.info["forecast"] - path[0].grade.score) ** 2


register_rules("forecast", Forecast, rewards={"forecaster": brier})


def player(name, model):
    return RoleAgent(model, prompt="{{ problem }}{{ answer }}", sampling=Sampling(max_tokens=1))


if __name__ == "__main__":
    sums = [mars_env.Problem(f"{a}+{b}", f"{a}+{b}=", str(a + b)) for a in range(5) for b in range(5)]
    env = mars_env.make("arithmetic-forecast", problems=sums)
    changes = {"steps": 15, "problems_per_step": 5, "train": TrainConfig(learning_rate=1e-2)}
    settings = MARSRL.model_copy(update=changes)
    team = make_team(settings, env.possible_agents, [tiny_model("0123456789+=")], agent=player)
    for step in asyncio.run(train(env.game, team, env.problems, settings)):
        print(step.step, {role: round(figures["reward"], 2) for role, figures in step.roles.items()})
