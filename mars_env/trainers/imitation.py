"""Verifiers that learn from themselves, shown the reference: `Credit.imitate`. No torch in here."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mars_env.errors import ConfigError
from mars_env.models.requests import with_instruction
from mars_env.sync import gather_all
from mars_env.types import Action, Agent, Observation, Prompt, TrainingAsk, role_of


class ImitatingVerifier:
    """A Verifier in training that reads no reference, and then scores its reports as if it had read one."""

    def __init__(self, agent: Any) -> None:
        scores = hasattr(agent, "prompt") and hasattr(getattr(agent, "model", None), "score")
        if not scores or getattr(agent, "toolbox", None):
            raise ConfigError('imitate="reference" needs Verifiers with prompt(), model.score() and no tools')
        self.agent, self.policy = agent, agent.policy

    async def act(self, observation: Observation, n: int, seed: int) -> list[Action]:
        """As the agent acts."""
        return await self.agent.act(observation, n, seed)

    async def act_in_training(
        self, observation: Observation, n: int, seed: int, ask: TrainingAsk
    ) -> list[Action]:
        """As the agent acts, with `Completion.informed_gain` of each report."""
        if isinstance(ask.problem.reference, Mapping):
            raise ConfigError('imitate="reference" needs references that are answers, as in mathematics')
        actions, plain = await self.act(observation, n, seed), self.agent.prompt(observation)
        informed = with_instruction(plain, f"The reference answer is {ask.problem.reference}.")
        return await gather_all(self._scored(action, plain, informed) for action in actions)

    async def _scored(self, action: Action, plain: Prompt, informed: Prompt) -> Action:
        [report] = action.completions
        if not report.token_ids:
            return action
        score, tokens = self.agent.model.score, report.token_ids
        read = await gather_all(score(prompt, tokens, end=False) for prompt in (plain, informed))
        without, with_it = (sum(each.logprobs) for each in read)
        return replace(action, completions=(replace(report, informed_gain=with_it - without),))


def imitating(agents: Mapping[str, Agent]) -> dict[str, Agent]:
    """The agents of a training, its Verifiers as `ImitatingVerifier`; a ConfigError if there is none."""
    if "verifier" not in map(role_of, agents):
        raise ConfigError('imitate="reference" is for teams with a Verifier')
    return {
        name: ImitatingVerifier(agent) if role_of(name) == "verifier" else agent
        for name, agent in agents.items()
    }
