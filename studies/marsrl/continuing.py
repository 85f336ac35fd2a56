"""A Solver that is asked to go on where its token limit cut it off."""

import re

from mars_env.miniature import protocol
from mars_env.miniature.agents import LIMITS
from mars_env.seeds import derive_seed
from mars_env.sync import gather_all
from mars_env.types import Action, Completion, Model, Observation, Sampling

_DONE = re.compile(r"^([a-g]):(?: [+-] [0-9]{2})? = ([0-9]{3})\n", re.MULTILINE)


class ContinuingSolver:
    """The Solver alone, continued each time its limit cuts it off, until it ends or has spent its tokens.

    Args:
        model: A model of the miniature's checkpoint.
        tokens: Tokens that one attempt may spend.
        temperature: Sampling temperature.
        afresh: The Solver reads what remains after its last whole step as a new problem
            (`remaining`), which it was taught to solve, instead of its own text.
    """

    policy = "miniature"

    def __init__(self, model: Model, *, tokens: int, temperature: float = 1.0, afresh: bool = False) -> None:
        self._model = model
        self._tokens = tokens
        self._temperature = temperature
        self._afresh = afresh

    async def act(self, observation: Observation, n: int, seed: int) -> list[Action]:
        """Make n attempts, each of one or more completions."""
        chain = protocol.read_statement(str(observation["problem"]))
        attempts = (self._attempt(chain, derive_seed(seed, number)) for number in range(n))
        return await gather_all(attempts)

    async def _attempt(self, chain: protocol.Chain, seed: int) -> Action:
        completions: list[Completion] = []
        done, stream, left = "", "", self._tokens  # the text of earlier chains, and the stream of this one
        while True:
            sampling = Sampling(
                temperature=self._temperature,
                max_tokens=min(LIMITS["solver"], left),
                seed=derive_seed(seed, len(completions)),
            )
            [found] = await self._model.complete(protocol.chain_prompt(chain) + stream, 1, sampling)
            completions.append(found)
            stream += found.text
            left -= max(1, found.sampled_tokens)
            text = done + protocol.flip(stream)
            if found.finish_reason != "length" or left < 1:
                return Action(text, tuple(completions))
            if self._afresh:
                rest = remaining(chain, protocol.flip(stream))
                if rest is None:
                    return Action(text, tuple(completions))
                chain, done, stream = rest, f"{text}\n", ""


def remaining(chain: protocol.Chain, solution: str) -> protocol.Chain | None:
    r"""What remains of a chain after a solution that was cut off: a chain that starts at its last whole step.

    The value claimed there is used, right or wrong. None if there is no whole step, or no step remains.

    Example:
        >>> remaining(protocol.Chain(882, (("-", 27), ("+", 5))), "a: = 882\nb: - 27 = 854\nc: + 0")
        Chain(start=854, terms=(('+', 5),))
    """
    done = _DONE.findall(solution)
    place = protocol.LETTERS.index(done[-1][0]) if done else 0
    return protocol.Chain(int(done[-1][1]), chain.terms[place:]) if 0 < place < len(chain.terms) else None
