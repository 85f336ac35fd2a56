"""A small package of somebody else's: own problems, rules, agents, rewards and a team to train."""

from dataclasses import dataclass, replace

import mars_env
from mars_env.agents import RoleAgent
from mars_env.envs import UnicodeText
from mars_env.problems import ProblemSet
from mars_env.types import Problem, Sampling


def riddles(*, seed=0, split=None):
    rows = [Problem(f"riddle/{i}", f"Which digit is it? ({i})", str(i % 10)) for i in range(20)]
    return ProblemSet("riddles", rows, licence="Apache-2.0")


@dataclass(frozen=True)
class State:
    problem: Problem
    guess: str = ""
    turns: int = 0


@dataclass(frozen=True)
class GuessCheck:
    """A guess, a check, and a second guess."""

    chances: int = 2
    possible_agents: tuple = ("guesser_0", "checker_0")

    @property
    def max_turns(self):
        return 2 * self.chances - 1

    def fields(self, agent):
        return {"problem": UnicodeText(), "guess": UnicodeText()}

    def start(self, problem):
        return State(problem)

    def current_agent(self, state):
        if state.turns >= self.max_turns:
            return None
        return self.possible_agents[state.turns % 2]

    def observe(self, state, agent):
        return {"problem": state.problem.statement, "guess": state.guess}

    def submission(self, state, action):
        return action.text if state.turns % 2 == 0 else None

    def note(self, state, action):
        return {}

    def apply(self, state, action, grade):
        guess = state.guess if state.turns % 2 else action.text
        return replace(state, guess=guess, turns=state.turns + 1)

    def final(self, state):
        return (state.turns - 1) // 2 if state.turns else None


def brevity(turn, path, problem):
    """A reward of its own: short texts are better."""
    return 1.0 / (1 + len(turn.text))


def parrot(observation):
    return "7"


def team(model):
    sampling = Sampling(max_tokens=3)
    return {
        role: RoleAgent(model, policy="riddler", sampling=sampling, prompt=lambda o: o["problem"][-4:])
        for role in ("guesser", "checker")
    }


mars_env.register("my-riddles-whole", problems=riddles, rules=GuessCheck)
