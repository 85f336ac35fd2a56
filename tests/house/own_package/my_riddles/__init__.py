"""A small package of somebody else's: own problems, rules, agents, rewards and a team to train."""

import mars_env
from mars_env.agents import RoleAgent
from mars_env.envs import UnicodeText
from mars_env.problems import ProblemSet
from mars_env.types import Problem, Sampling


def riddles(*, seed=0, split=None):
    rows = [Problem(f"riddle/{i}", f"Which digit is it? ({i})", str(i % 10)) for i in range(20)]
    return ProblemSet("riddles", rows, licence="Apache-2.0")


class GuessCheck:
    """A guess, a check, and a second guess: a state is the problem and what was said so far."""

    possible_agents = ("guesser_0", "checker_0")

    def __init__(self, chances=2):
        self.max_turns = 2 * chances - 1

    def fields(self, agent):
        return {"problem": UnicodeText(), "guess": UnicodeText()}

    def start(self, problem):
        return (problem,)

    def current_agent(self, state):
        return None if len(state) > self.max_turns else self.possible_agents[(len(state) - 1) % 2]

    def observe(self, state, agent):
        return {"problem": state[0].statement, "guess": "".join(state[1::2][-1:])}

    def submission(self, state, action):
        return action.text if len(state) % 2 else None

    def note(self, state, action):
        return {}

    def apply(self, state, action, grade):
        return (*state, action.text)

    def final(self, state):
        return len(state) // 2 - 1 if len(state) > 1 else None


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
