"""A game that is as small as a game can be."""

from mars_env.envs import UnicodeText


class TwoTurns:
    """A solver, then a buyer who says something about it; the solver's text is the team's answer."""

    possible_agents, max_turns = ("solver_0", "buyer_0"), 2

    def fields(self, agent):
        return {"problem": UnicodeText(), "quote": UnicodeText()}

    def start(self, problem):
        return (problem,)

    def current_agent(self, state):
        return self.possible_agents[len(state) - 1] if len(state) < 3 else None

    def observe(self, state, agent):
        return {"problem": state[0].statement, "quote": "".join(state[1:2])}

    def submission(self, state, action):
        return action.text if len(state) == 1 else None

    def note(self, state, action):
        return {}

    def apply(self, state, action, grade):
        return (*state, action.text)

    def final(self, state):
        return 0 if len(state) == 3 else None
