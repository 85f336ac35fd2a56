"""The agent of tree search over programs: it writes one or refines one (MARTI-MARS2, arXiv 2602.07848)."""

from __future__ import annotations

from mars_env.agents.roles import RoleAgent


class Coder(RoleAgent):
    r"""Writes a program; where it is given one and the outcome of its tests, a better one.

    Observation: ``{"problem", "mode", "solution", "truncated", "feedback", ...}``; ``mode`` is ``"generate"``
    or ``"refine"``.

    Example:
        >>> from mars_env.agents.scripted import ScriptedModel
        >>> coder = Coder(ScriptedModel(["```python\nprint(input())\n```"]))
        >>> seen = {"problem": "Echo a line.", "mode": "refine", "solution": "print()", "truncated": 0,
        ...         "feedback": "The test failed: wrong answer."}
        >>> "The test failed: wrong answer." in coder.prompt(seen)[-1]["content"]
        True
    """

    role = "coder"
    system = (
        "You write programs in Python that solve problems exactly and within their limits. Think about the "
        "input's size and about corner cases before you write."
    )
    approaches = (
        "Look for the simplest idea that is fast enough, and say why it is right.",
        "Start from the inputs that break programs: the empty, the smallest, the largest, equal ones.",
        "Compare several algorithms by their cost before you choose one.",
    )
    template = """\
{{ problem }}

{% if mode == "refine" -%}
There is a program for this already. It may be wrong, or too slow.

<program>
{{ solution }}
</program>
{% if truncated %}
It was cut off at its length limit: it is not finished.
{% endif %}
{%- if feedback %}
This came of testing it:

<feedback>
{{ feedback }}
</feedback>
{% endif %}
Find out what is wrong with it, then write a better program. Keep what is right; \
if its idea cannot work, take another one.
{% endif -%}
Give your whole program at the end, in one block that begins with ```python and ends with ```. \
It must stand alone."""
