"""The library's agents, each with the prompt of its role.

Solver, Verifier and Corrector play MarsRL (arXiv 2511.11373); Solver and Coder the tree search of MARTI-MARS2
(arXiv 2602.07848).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, ClassVar

from jinja2 import StrictUndefined, Template, TemplateError
from jinja2.meta import find_undeclared_variables
from jinja2.sandbox import ImmutableSandboxedEnvironment

from mars_env.agents import prompts
from mars_env.agents.thinking import THINKING, Thinking
from mars_env.agents.tool_loop import Dialogue
from mars_env.agents.tools import Tool, Toolbox
from mars_env.errors import ConfigError, ModelError, explained
from mars_env.gate import Marks
from mars_env.models.requests import check_request, with_messages
from mars_env.text import brief
from mars_env.types import Action, Completion, Message, Model, Observation, Prompt, Sampling

PromptMaker = Callable[[Observation], Prompt]


class RoleAgent:
    """An agent that asks a model once a turn, with the prompt of its role.

    Args:
        model: What answers.
        policy: Name of the weights that act; by default the model's name, else the role's.
        sampling: How the model is sampled; the seed comes with each turn.
        prompt: Replaces the role's own prompt: a function from an observation to a prompt, or a Jinja
            template for the user's message, which sees the observation's fields. Where a template has marks
            such as ``<solution>...</solution>``, no field can close or open them.
        system: Replaces the system message; empty for none.
        thinking: How the model marks its thinking, which is left out of the action's text; None for no marks.
        tools: What it may call while it writes: tools, typed functions, or a `Toolbox`.
        max_calls: Most calls in one turn.

    Raises:
        ConfigError: A template has a mistake, or the model, the sampling or a tool is none.
    """

    role: ClassVar[str] = "agent"
    system: ClassVar[str] = ""
    approaches: ClassVar[tuple[str, ...]] = ()
    """What the system message says in addition to the second, third ... agent of a role."""
    template: ClassVar[str] = "{{ problem }}"

    def __init__(
        self,
        model: Model,
        *,
        policy: str = "",
        sampling: Sampling | None = None,
        prompt: PromptMaker | str | None = None,
        system: str | None = None,
        thinking: Thinking | None = THINKING,
        tools: Toolbox | Sequence[Tool | Callable[..., Any]] = (),
        max_calls: int = 8,
    ) -> None:
        if isinstance(model, type) or not isinstance(model, Model):
            raise ConfigError(
                f"a model has `async complete(prompt, n, sampling)`, which {brief(model)} lacks"
            )
        if not isinstance(sampling, Sampling | None):
            raise ConfigError(f"sampling= is a Sampling, such as Sampling(top_k=5), not {brief(sampling)}")
        self.model = model
        self.policy = policy or getattr(model, "name", "") or self.role
        self.sampling = sampling or Sampling()
        check_request(1, self.sampling)
        self.thinking = thinking
        self.toolbox = tools if isinstance(tools, Toolbox) else None
        if tools and not isinstance(tools, Toolbox):
            self.toolbox = Toolbox(tools, max_calls)
        self._system = self.system if system is None else system
        self._prompt = self.template if prompt is None else prompt
        self._make = prompt if callable(prompt) else self._chat
        self._text = prompt if isinstance(prompt, str) else self.template
        _compile(self._text)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(policy={self.policy!r}, model={self.model!r})"

    @classmethod
    def system_at(cls, place: int) -> str:
        """The system message of the agent with this number; each but the first gets the next approach."""
        approaches = ("", *cls.approaches)
        return f"{cls.system} {approaches[place % len(approaches)]}".strip()

    def identity(self) -> dict[str, Any]:
        """What identifies it: its model, and how the model is asked and read."""
        return {
            "policy": self.policy,
            "system": self._system,
            "prompt": self._prompt,
            "sampling": self.sampling,
            "thinking": self.thinking,
            "model": self.model,
            **({"tools": self.toolbox} if self.toolbox else {}),
        }

    @classmethod
    def field_names(cls) -> list[str]:
        """What the template reads: the fields of an observation, sorted.

        Example:
            >>> Verifier.field_names()
            ['feedback', 'problem', 'solution', 'truncated']
        """
        with explained(ConfigError, f"the template of {cls.__name__} cannot be read", TemplateError):
            names = find_undeclared_variables(_environment.parse(cls.template))
        return sorted(names - _environment.globals.keys())

    def prompt(self, observation: Observation) -> Prompt:
        """The prompt of a turn."""
        return self._make(observation)

    async def act(self, observation: Observation, n: int, seed: int) -> list[Action]:
        """Ask the model for n actions; a `ConfigError` if the template needs a field that is not there."""
        return await self.ask(self.prompt(observation), n, seed, observation)

    async def ask(self, prompt: Prompt, n: int, seed: int, observation: Observation) -> list[Action]:
        """N actions on a prompt, which may be another one than the role's; tools see the observation."""
        visible = self.thinking.visible if self.thinking else str
        sampling = replace(self.sampling, seed=seed)
        if self.toolbox is not None:
            dialogue = Dialogue(self.model, self.toolbox, prompt, visible)
            return await dialogue.act(n, sampling, observation)
        completions = await self.model.complete(prompt, n, sampling)
        if not isinstance(completions, list | tuple) or not all(
            isinstance(completion, Completion) for completion in completions
        ):
            expected = f"{self.role}: complete() of {brief(self.model)} is to return a list of Completion"
            raise ModelError(f"{expected}, such as [Completion(text)], not {brief(completions)}")
        completions = with_messages(completions, prompt)
        return [Action(visible(completion.text), (completion,)) for completion in completions]

    def _chat(self, observation: Observation) -> list[Message]:
        fields = ", ".join(observation)
        failing = f"{self.role}: the prompt's template fails on an observation with {fields}"
        with explained(ConfigError, failing, TemplateError):
            text = _compile(self._text).render(observation)
        messages: list[Message] = [{"role": "system", "content": self._system}] if self._system else []
        return [*messages, {"role": "user", "content": text}]


class Solver(RoleAgent):
    """Writes a solution. Observation: ``{"problem"}``.

    With the fields ``"solution"``, ``"truncated"`` and ``"feedback"`` it revises that solution.
    """

    role = "solver"
    system = prompts.SOLVER_SYSTEM
    approaches = prompts.SOLVER_APPROACHES
    template = prompts.SOLVER_TEMPLATE


class Verifier(RoleAgent):
    """Judges a solution. Observation: ``{"problem", "solution", "truncated"}``, and ``"feedback"`` of tests.

    Its report ends in the line ``Correctness: Correct`` or ``Correctness: Wrong``, which the rules read.
    """

    role = "verifier"
    system = prompts.VERIFIER_SYSTEM
    template = prompts.VERIFIER_TEMPLATE


class Corrector(RoleAgent):
    """Writes a better solution. Observation: ``{"problem", "solution", "truncated", "report"}``."""

    role = "corrector"
    system = prompts.CORRECTOR_SYSTEM
    template = prompts.CORRECTOR_TEMPLATE


class Coder(RoleAgent):
    """Writes a program or, where ``mode`` is ``"refine"``, improves one.

    Observation: ``{"problem", "mode", "solution", "truncated", "feedback", ...}``.
    """

    role = "coder"
    system = prompts.CODER_SYSTEM
    approaches = prompts.CODER_APPROACHES
    template = prompts.CODER_TEMPLATE


ROLES: Mapping[str, type[RoleAgent]] = {agent.role: agent for agent in (Solver, Verifier, Corrector, Coder)}

# Templates come from the library or the user. The model's texts that fill them are never compiled, and stay
# inside of a template's marks.
_environment = ImmutableSandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True)


@lru_cache(maxsize=64)
def _compile(template: str) -> Template:
    with explained(ConfigError, "the prompt is not a Jinja template", TemplateError):
        compiled = _environment.overlay(finalize=Marks(template).guarded).from_string(template)
    compiled.globals = dict(compiled.globals)  # copied by every rendering; as the ChainMap it was, slowly
    return compiled
