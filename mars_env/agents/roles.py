"""The agents of MarsRL: Solver, Verifier and Corrector, each with a prompt of its own (arXiv 2511.11373)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import ClassVar

from jinja2 import StrictUndefined, Template, TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from mars_env.agents.thinking import THINKING, Thinking
from mars_env.errors import ConfigError
from mars_env.types import Action, Message, Model, Observation, Prompt, Sampling

PromptMaker = Callable[[Observation], Prompt]
"""Makes the prompt of a turn from its observation."""


class RoleAgent:
    """An agent that asks a model once a turn, with the prompt of its role.

    Args:
        model: What answers.
        policy: Name of the weights that act; by default the model's name, else the role's.
        sampling: How the model is sampled; the seed comes with each turn.
        prompt: Replaces the role's own prompt: a function from an observation to a prompt, or the
            text of a Jinja template for the user's message, which sees the observation's fields.
        system: Replaces the system message; empty for none.
        thinking: How the model marks its thinking, which is left out of the action's text; None to
            leave all texts as they are.

    Raises:
        ConfigError: If a template has a mistake.
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
    ) -> None:
        self.model = model
        self.policy = policy or getattr(model, "name", "") or self.role
        self.sampling = sampling or Sampling()
        self.thinking = thinking
        self._system = self.system if system is None else system
        self._make = prompt if callable(prompt) else self._chat
        self._template = _compile(prompt if isinstance(prompt, str) else self.template)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(policy={self.policy!r}, model={self.model!r})"

    @classmethod
    def system_at(cls, place: int) -> str:
        """The system message of one agent among several of this role.

        Args:
            place: Its number, from 0 on. The first agent gets the plain message, each further one an approach
                of its own; when all have one, they are given again in the same order.

        Example:
            >>> len({Solver.system_at(place) for place in range(4)}), Solver.system_at(0) == Solver.system
            (4, True)
        """
        approaches = ("", *cls.approaches)
        return f"{cls.system} {approaches[place % len(approaches)]}".strip()

    def prompt(self, observation: Observation) -> Prompt:
        """The prompt of a turn."""
        return self._make(observation)

    async def act(self, observation: Observation, n: int, seed: int) -> list[Action]:
        """Ask the model for n actions.

        Raises:
            ModelError: If the model cannot answer.
            ConfigError: If the prompt's template needs a field that the observation lacks.
        """
        sampling = replace(self.sampling, seed=seed)
        completions = await self.model.complete(self.prompt(observation), n, sampling)
        visible = self.thinking.visible if self.thinking else str
        return [Action(visible(completion.text), (completion,)) for completion in completions]

    def _chat(self, observation: Observation) -> list[Message]:
        try:
            text = self._template.render(observation)
        except TemplateError as error:
            fields = ", ".join(observation)
            raise ConfigError(
                f"{self.role}: the prompt's template fails on an observation with {fields}: {error}"
            ) from error
        messages: list[Message] = [{"role": "system", "content": self._system}] if self._system else []
        return [*messages, {"role": "user", "content": text}]


_HOW_TO_ANSWER = """\
{% if kind is defined and kind == "code" -%}
Give your whole program at the end, in one block that begins with ```python and ends with ```.
{%- elif kind is defined and kind == "math" -%}
Give your final answer at the end, within \\boxed{}.
{%- else -%}
If the problem asks for an answer, give it at the end, within \\boxed{}. \
If it asks for a program, give the whole program at the end, \
in one block that begins with ```python and ends with ```.
{%- endif %}"""


class Solver(RoleAgent):
    r"""Writes a solution. Observation: ``{"problem"}``.

    With the fields ``"solution"`` and ``"truncated"`` as well it revises a solution, with the help of
    ``"feedback"`` where there is some.

    Example:
        >>> from mars_env.agents.scripted import ScriptedModel
        >>> from mars_env.sync import run_sync
        >>> solver = Solver(ScriptedModel(["<think>2 + 2</think>It is \\boxed{4}."]))
        >>> run_sync(solver.act({"problem": "What is 2 + 2?"}, 1, seed=0))[0].text
        'It is \\boxed{4}.'
    """

    role = "solver"
    system = (
        "You solve problems of mathematics and programming. Work step by step and justify each step. "
        "Do not guess: a result without a justification counts for nothing."
    )
    approaches = (
        "Start with small or special cases, find the pattern, and then prove it.",
        "Before you calculate, look for a symmetry, an invariant or a substitution that helps.",
        "Work backwards from what is asked, and check the result in a second, independent way.",
    )
    template = (
        """\
{{ problem }}

{% if solution is defined and solution -%}
You have written this solution before:

<solution>
{{ solution }}
</solution>
{% if truncated %}
It was cut off at its length limit: it is not finished.
{% endif %}
{%- if feedback is defined and feedback %}
This is said about it; it can be mistaken:

<feedback>
{{ feedback }}
</feedback>
{% endif %}
Check it step by step and write a better one, which must stand alone.
{% endif -%}
"""
        + _HOW_TO_ANSWER
    )


class Verifier(RoleAgent):
    r"""Judges a solution. Observation: ``{"problem", "solution", "truncated", "round"}``.

    With the field ``"feedback"`` as well it reads what came of the public tests of a program. Its report
    ends in the line ``Correctness: Correct`` or ``Correctness: Wrong``, which the rules read.

    Example:
        >>> from mars_env.agents.scripted import ScriptedModel
        >>> verifier = Verifier(ScriptedModel(["Correctness: Wrong"]))
        >>> prompt = verifier.prompt({"problem": "2 + 2?", "solution": "5", "truncated": 0, "round": 0})
        >>> "Correctness: Wrong" in prompt[-1]["content"]
        True
    """

    role = "verifier"
    system = (
        "You check solutions to problems of mathematics and programming. You are strict: you follow every "
        "step yourself and trust nothing because it is stated. You do not repair the solution; you report."
    )
    template = """\
Check the solution of the problem below, step by step.

<problem>
{{ problem }}
</problem>

<solution>
{{ solution }}
</solution>
{% if truncated %}
The solution was cut off at its length limit: it is not finished.
{% endif %}
{%- if feedback is defined and feedback %}
The program was run on the public tests of the problem alone. This came of it:

<feedback>
{{ feedback }}
</feedback>

A program that fails one of them is wrong. One that passes them all can still be wrong.
{% endif %}
A solution is wrong if its final answer or its program is wrong or missing, \
or if a step that it needs does not hold.

Write a report in this form:

Verdict: one sentence that says whether the solution is right, and if not, why.

Findings: a list, empty if there is nothing to find. For each finding
- Location: the words of the solution where it is, quoted;
- Class: "critical error" if a statement is false or does not follow, \
"justification gap" if it may be true but is not shown;
- Issue: what is wrong there.

Then end with exactly one of these two lines, and write nothing after it:
Correctness: Correct
Correctness: Wrong"""


class Corrector(RoleAgent):
    r"""Writes a better solution from a bug report.

    Observation: ``{"problem", "solution", "truncated", "report", "round"}``.

    Example:
        >>> from mars_env.agents.scripted import ScriptedModel
        >>> from mars_env.sync import run_sync
        >>> corrector = Corrector(ScriptedModel(["Indeed, it is \\boxed{4}."]))
        >>> seen = {"problem": "2 + 2?", "solution": "5", "truncated": 0, "report": "2 + 2 is 4", "round": 0}
        >>> run_sync(corrector.act(seen, 1, seed=0))[0].text
        'Indeed, it is \\boxed{4}.'
    """

    role = "corrector"
    system = (
        "You correct solutions to problems of mathematics and programming with the help of a report on their "
        "faults. A report can be mistaken: check each finding before you follow it."
    )
    template = (
        """\
Write a correct solution of the problem below. You are given an earlier solution and a report on its faults.

<problem>
{{ problem }}
</problem>

<solution>
{{ solution }}
</solution>
{% if truncated %}
The solution was cut off at its length limit: finish it, or write a shorter one.
{% endif %}
<report>
{{ report }}
</report>

Your solution must stand alone: do not refer to the earlier one or to the report.
"""
        + _HOW_TO_ANSWER
    )


ROLES: Mapping[str, type[RoleAgent]] = {agent.role: agent for agent in (Solver, Verifier, Corrector)}
"""The built-in agents by role."""

# Templates are ours or the user's; what they are filled with is text of models and never compiled.
_environment = ImmutableSandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True)


@lru_cache(maxsize=64)
def _compile(template: str) -> Template:
    try:
        compiled = _environment.from_string(template)
    except TemplateError as error:
        raise ConfigError(f"the prompt is not a Jinja template: {error}") from error
    compiled.globals = dict(compiled.globals)  # copied by every rendering; as the ChainMap it was, slowly
    return compiled
