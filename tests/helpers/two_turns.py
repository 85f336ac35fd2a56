"""A game that is as small as a game can be."""

from mars_env import ask, game

FIELDS = {"solver": ["problem", "quote"], "buyer": ["problem", "quote"]}


@game(max_turns=2, roles={"solver": "mars_env.agents:Solver", "buyer": None}, fields=FIELDS)
def two_turns(problem):
    """A solver, then a buyer who says something about it; the solver's text is the team's answer."""
    first = yield ask("solver", problem=problem.statement)
    yield ask("buyer", problem=problem.statement, quote=first.text, graded=False)
    return first
