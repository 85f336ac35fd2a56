"""The miniature's team, each turn with a call of a tool that shows the turn's prompt once more."""

from dataclasses import replace

from mars_env.miniature.agents import team as plain_team
from mars_env.seeds import derive_seed
from mars_env.sync import gather_all
from mars_env.types import Action, ToolCall


class Calling:
    """Acts as another agent; a turn that ended by itself is continued after the result of a call."""

    def __init__(self, agent):
        self.agent, self.prompt = agent, agent.prompt
        self.policy, self.model, self.sampling = agent.policy, agent.model, agent.sampling

    async def act(self, observation, n, seed):
        actions = await self.agent.act(observation, n, seed)
        return await gather_all(
            self._called(action, derive_seed(seed, i)) for i, action in enumerate(actions)
        )

    async def _called(self, action, seed):
        [first] = action.completions
        if first.finish_reason != "stop":
            return action
        read = (*first.prompt_ids, *first.token_ids, *first.prompt_ids)
        [second] = await self.model.complete(read, 1, replace(self.sampling, seed=seed))
        return Action(action.text, (first, second), (ToolCall(0, "again", "", "the prompt"),))


def team(model, policy="", temperature=1.0):
    """The agents by their names in solve-verify-correct."""
    agents = plain_team(model, policy=policy, temperature=temperature)
    return {name: Calling(agent) for name, agent in agents.items()}
