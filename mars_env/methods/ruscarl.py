"""RuscaRL's scaffold: parts of a rubric in the prompt that is sampled from, less and less of them.

Source: RuscaRL (arXiv 2508.16949). docs/methods.md says what the method is for and what was measured.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, Field

from mars_env.agents.roles import RoleAgent
from mars_env.errors import ConfigError
from mars_env.grading.rubrics import Criterion, Rubric
from mars_env.models.requests import with_instruction
from mars_env.seeds import derive_seed
from mars_env.sync import gather_all
from mars_env.types import Action, Observation, Prompt, TrainingAsk

Show = Callable[[Prompt, Sequence[Criterion]], Prompt]

FORMAT = "format"
"""Tag of criteria that an ordered scaffold always shows."""


class Scaffold(BaseModel, frozen=True, extra="forbid"):
    """How much of a rubric a sample sees: a share inside the group, times one over the run.

    It is ``lambda_group(i) * lambda_run(t)`` for sample i = 1 .. G of a group and progress t from 0 to 1;
    ``round(lambda N)`` of N criteria are shown (halves to the even number, as Python rounds).

    Example:
        >>> scaffold = Scaffold()
        >>> [round(scaffold.share(i, 5, 0.0), 3) for i in range(5)]
        [1.0, 0.75, 0.5, 0.25, 0.0]
        >>> [round(scaffold.share(0, 5, t), 3) for t in (0.18, 0.2, 0.22)]
        [0.924, 0.5, 0.076]
    """

    group: Literal["linear", "binary", "all"] = "linear"
    """``linear``: ``(G - i) / (G - 1)``, so that the first sample sees all and the last none; ``binary``: 1
    for the first `first` samples, else 0; ``all``: 1."""
    first: int = Field(default=4, ge=0)
    """How many samples see everything with ``binary``."""
    run: Literal["sigmoid", "linear", "power", "constant"] = "sigmoid"
    """``sigmoid``: ``1 / (1 + exp(a (t - t0)))``; ``linear``: ``1 - t``; ``power``: ``(1 - t) ** n``;
    ``constant``: 1."""
    a: float = Field(default=125.0, gt=0)
    """Steepness of the sigmoid. RuscaRL: 125; the share then falls from 0.9 to 0.1 within 3.5% of a run."""
    t0: float = Field(default=0.2, ge=0, le=1)
    """Where the sigmoid is a half. RuscaRL: 0.2."""
    n: float = Field(default=2.0, gt=0)
    """Exponent of ``power``."""
    order: Literal["random", "given"] = "random"
    """Which criteria are shown. ``random``: drawn for each sample. ``given``: those with the tag ``format``
    always, and of the M others the first ``floor(lambda M)``, so that the last one, a final answer, is shown
    only at a share of 1. What lacks less than a millionth counts as whole: a sigmoid is never quite 1."""

    def share(self, index: int, size: int, progress: float) -> float:
        """The share of a sample, from 0 on, of a group; a group of one has no linear share."""
        return self._in_group(index, size) * self._in_run(progress)

    def _in_group(self, index: int, size: int) -> float:
        if self.group == "all":
            return 1.0
        if self.group == "binary":
            return float(index < self.first)
        if size < 2:
            raise ConfigError("a linear scaffold needs groups of two or more samples, or group='all'")
        return (size - 1 - index) / (size - 1)

    def _in_run(self, progress: float) -> float:
        if self.run == "constant":
            return 1.0
        if self.run == "sigmoid":
            return 1.0 / (1.0 + math.exp(min(700.0, self.a * (progress - self.t0))))
        return float((1.0 - progress) ** (1.0 if self.run == "linear" else self.n))

    def choose(self, criteria: Sequence[Criterion], share: float, seed: int) -> list[Criterion]:
        """The criteria that a sample with this share sees, in their order."""
        if self.order == "given":
            ordered = [c for c in criteria if FORMAT not in c.tags]
            some = ordered[: math.floor(share * len(ordered) + 1e-6)]
            return [c for c in criteria if FORMAT in c.tags or c in some]
        rng, number = np.random.default_rng(seed), len(criteria)
        return [criteria[i] for i in sorted(rng.choice(number, round(share * number), replace=False))]


class Scaffolded:
    """An agent that sees parts of the rubric while it samples for training.

    With ``train_on="plain"`` the trainers train on the plain prompt q, which the turn records, too: the ratio
    is RuscaRL's, ``pi(o|q) / pi_old(o|q)``. With ``"read"`` it is ``pi(o|q, scaffold) / pi_old(o|q,
    scaffold)``. The rubric is as the grader's: None if each problem has its own. Without one, the agent plays
    as it is. Criteria without a text are not shown.

    Raises:
        ConfigError: The agent's model does not tell a prompt's token ids, or the agent has tools.
    """

    def __init__(
        self,
        agent: RoleAgent,
        scaffold: Scaffold | None = None,
        *,
        rubric: Rubric | None = None,
        train_on: Literal["plain", "read"] = "plain",
        show: Show | None = None,
    ) -> None:
        if train_on not in ("plain", "read"):
            raise ConfigError(f"train_on is 'plain' or 'read', got {train_on!r}")
        if not callable(getattr(agent.model, "encode", None)):
            advice = "use a model with encode() (HFModel, VLLMModel)"
            raise ConfigError(f"{agent.model!r} does not report the token ids of a plain prompt: {advice}")
        if getattr(agent, "toolbox", None):
            raise ConfigError("an agent with tools cannot be scaffolded: its prompt also describes the tools")
        self.agent, self.prompt = agent, agent.prompt
        self.policy, self.sampling = agent.policy, agent.sampling
        self.model: Any = agent.model
        self.scaffold = scaffold or Scaffold()
        self._rubric, self._train_on, self._show = rubric, train_on, show or with_criteria

    def __repr__(self) -> str:
        return f"Scaffolded({self.agent!r})"

    def identity(self) -> dict[str, Any]:
        """What identifies it: the agent and what it is shown."""
        how = {"rubric": self._rubric, "train_on": self._train_on, "show": self._show}
        return {"agent": self.agent, "scaffold": self.scaffold, **how}

    async def act(self, observation: Observation, n: int, seed: int) -> list[Action]:
        """A ConfigError: this is not training."""
        scaffolded = f"{type(self.agent).__name__} has a scaffold, which is for training alone"
        raise ConfigError(f"{scaffolded}: evaluate its plain agent (Scaffolded.agent)")

    async def act_in_training(
        self, observation: Observation, n: int, seed: int, ask: TrainingAsk
    ) -> list[Action]:
        """One group, each sample with its share of the rubric; a `ConfigError` if that cannot be made."""
        rubric = self._rubric or Rubric.of(ask.problem)
        criteria = [] if rubric is None else [c for c in rubric.criteria if c.text.strip()]
        plain = self.agent.prompt(observation)

        async def one(index: int) -> Action:
            sample_seed = derive_seed(seed, index)
            share = self.scaffold.share(index, n, ask.progress)
            scaffold = self.scaffold.choose(criteria, share, derive_seed(sample_seed, "scaffold"))
            [action] = await self.agent.ask(
                self._show(plain, scaffold) if scaffold else plain, 1, sample_seed, observation
            )
            if not scaffold or self._train_on == "read":
                return action
            ids = tuple(self.model.encode(plain))
            completions = tuple(replace(c, train_prompt_ids=ids) for c in action.completions)
            return replace(action, completions=completions)

        return await gather_all(map(one, range(n)))


def with_criteria(prompt: Prompt, criteria: Sequence[Criterion]) -> Prompt:
    """A prompt whose system message ends with criteria and their points; a ConfigError if it is token ids."""
    lines: list[str] = []
    for head, sign in (("The response should meet these criteria:", 1), ("It should avoid these:", -1)):
        if some := [c for c in criteria if c.points * sign > 0]:
            lines += [head, *(f"- {c.text} ({c.points:g} points)" for c in some)]
    text = "\n".join([*lines, "Do not mention the criteria in the response."])
    return with_instruction(prompt, text)
