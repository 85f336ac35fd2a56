"""A small package of somebody else's: own problems, game, agents, rewards and a team to train."""

import mars_env
from mars_env import ask, game
from mars_env.agents import RoleAgent
from mars_env.problems import ProblemSet
from mars_env.types import Problem, Sampling


def riddles(*, seed=0, split=None):
    rows = [Problem(f"riddle/{i}", f"Which digit is it? ({i})", str(i % 10)) for i in range(20)]
    return ProblemSet("riddles", rows, licence="Apache-2.0")


def turns(settings):
    return 2 * settings.chances - 1


FIELDS = {"guesser": ["problem", "guess"], "checker": ["problem", "guess"]}


@game(max_turns=turns, roles={"guesser": None, "checker": None}, fields=FIELDS)
def guess_check(problem, *, chances: int = 2):
    """A guess, and so often a check and another guess."""
    guess = yield ask("guesser", problem=problem.statement)
    for _ in range(chances - 1):
        yield ask("checker", problem=problem.statement, guess=guess.text, graded=False)
        guess = yield ask("guesser", problem=problem.statement, guess=guess.text)
    return guess


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


mars_env.register("my-riddles-whole", problems=riddles, game=guess_check)
