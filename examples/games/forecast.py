"""Forecast: one agent answers, another says how likely the answer is right and is scored by Brier's rule."""

import asyncio

import mars_env
from mars_env import ask, game
from mars_env.agents import RoleAgent
from mars_env.models import tiny_model
from mars_env.trainers import MARSRL, TrainConfig, make_team, train
from mars_env.types import Sampling


class Forecaster(RoleAgent):
    template = "{{ problem }}{{ answer }}"


def brier(turn, path, problem):
    return None if path[0].grade.score is None else 1 - (turn.info["forecast"] - path[0].grade.score) ** 2


def parse_forecast(text):
    return {"forecast": int(text) / 9 if text.isdecimal() else 0.5}


@game(max_turns=2, roles={"solver": Forecaster, "forecaster": Forecaster}, rewards={"forecaster": brier})
def forecast(problem):
    answer = yield ask("solver", problem=problem.statement)
    seen = {"problem": problem.statement, "answer": answer.text}
    yield ask("forecaster", **seen, graded=False, parse=parse_forecast)
    return answer


def player(name, model):
    return Forecaster(model, sampling=Sampling(max_tokens=1))


if __name__ == "__main__":
    sums = [mars_env.Problem(f"{a}+{b}", f"{a}+{b}=", str(a + b)) for a in range(5) for b in range(5)]
    env = mars_env.make(forecast, problems=sums)
    changes = {"steps": 15, "problems_per_step": 5, "train": TrainConfig(learning_rate=1e-2)}
    settings = MARSRL.model_copy(update=changes)
    team = make_team(settings, env.possible_agents, [tiny_model("0123456789+=")], agent=player)
    for step in asyncio.run(train(env.game, team, env.problems, settings)):
        print(step.step, {role: round(figures["reward"], 2) for role, figures in step.roles.items()})
