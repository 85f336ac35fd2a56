"""The coders of the miniature of MARS2."""

from __future__ import annotations

from mars_env.errors import ConfigError
from mars_env.types import Action, Model, Observation, Sampling
from studies.mars2 import protocol


class MiniatureCoder:
    """A coder of a role, the mark that the model reads: it writes a program, or edits a given one."""

    def __init__(self, role: int, model: Model, *, policy: str = "", temperature: float = 1.0) -> None:
        if not 0 <= role < protocol.ROLES:
            raise ConfigError(f"the miniature of MARS2 has the roles 0 to {protocol.ROLES - 1}, not {role}")
        self.role = role
        self.policy = policy or getattr(model, "name", "") or f"coder_{role}"
        self.sampling = Sampling(temperature=temperature, max_tokens=protocol.LIMIT)
        self._model = model

    def __repr__(self) -> str:
        return f"MiniatureCoder({self.role}, policy={self.policy!r})"

    async def act(self, observation: Observation, n: int, seed: int) -> list[Action]:
        """Sample n programs; an action's text is the whole Python function."""
        sampling = Sampling(self.sampling.temperature, max_tokens=self.sampling.max_tokens, seed=seed)
        completions = await self._model.complete(protocol.prompt(observation, self.role), n, sampling)
        refines = observation.get("mode") == "refine"
        old = protocol.read_program(str(observation["solution"])) if refines else None
        return [Action(protocol.edited(old, c.text).program, (c,)) for c in completions]
