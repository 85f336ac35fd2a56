"""Debate: two debaters answer; a judge picks one answer, the team's. The tutorial is docs/first-game.md."""

import asyncio

import mars_env
from mars_env.agents import RoleAgent
from mars_env.envs import UnicodeText, register_rules
from mars_env.models import tiny_model
from mars_env.trainers import MARSRL, TrainConfig, make_team, train
from mars_env.types import Sampling


class Debate:  # a state is the problem and the texts so far
    possible_agents, max_turns = ("debater_0", "debater_1", "judge_0"), 3

    def fields(self, agent):
        return {"problem": UnicodeText(), "said": UnicodeText()}

    def start(self, problem):
        return (problem,)

    def current_agent(self, state):
        return self.possible_agents[len(state) - 1] if len(state) < 4 else None

    def observe(self, state, agent):
        said = "".join(f"{number}: {text}\n" for number, text in enumerate(state[1:3]))
        return {"problem": state[0].statement, "said": said}

    def submission(self, state, action):
        return action.text if len(state) < 3 else None

    def note(self, state, action):
        return {"choice": int("1" in action.text)} if len(state) == 3 else {}

    def apply(self, state, action, grade):
        return (*state, action.text)

    def final(self, state):
        return int("1" in state[3]) if len(state) == 4 else None


def picked_right(turn, path, problem):
    return path[turn.info["choice"]].grade.score


register_rules("debate", Debate, rewards={"judge": picked_right})


def player(name, model):
    return RoleAgent(model, prompt="{{ problem }}\n{{ said }}=", sampling=Sampling(max_tokens=1))


if __name__ == "__main__":
    larger = [mars_env.Problem(a + b, a + b, max(a, b)) for a in "12345" for b in "12345" if a != b]
    env = mars_env.make("arithmetic-debate", problems=larger)
    changes = {"steps": 15, "problems_per_step": 8, "train": TrainConfig(learning_rate=1e-2)}
    settings = MARSRL.model_copy(update=changes)
    team = make_team(settings, env.possible_agents, [tiny_model("0123456789:=\n")], agent=player)
    for step in asyncio.run(train(env.game, team, env.problems, settings)):
        print(step.step, {role: round(figures["reward"], 2) for role, figures in step.roles.items()})
