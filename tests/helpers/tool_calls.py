"""Calls of tools as models write them, and a tool."""

import json

from mars_env.models.scripted import ScriptedModel


def add(a: int, b: int = 1) -> int:
    "Add two integers."
    return a + b


def call(name, **arguments):
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


def so_far(prompt):
    """How often the model has written in this turn."""
    return sum(message["role"] == "assistant" for message in prompt)


def writes(*texts):
    """A model that writes these texts one after the other in each turn."""
    return ScriptedModel(lambda prompt, sample, seed: texts[so_far(prompt)])
