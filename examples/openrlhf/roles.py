"""One model in several roles of a search for programs, each with its own prompt (MARS2, arXiv 2602.07848).

Without this file the agents have the roles of `mars_env.agents.Coder`; this shows how to give them others.
The paper does not publish the prompts of its roles: these are all written for this library.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from mars_env.agents import Coder
from mars_env.models import HTTPModel
from mars_env.types import Agent, Model, Sampling

STYLES: Sequence[str] = (
    "You write programs in Python. You look for the simplest idea that is fast enough, and justify it.",
    "You write programs in Python. You think first of inputs that break programs: empty, smallest, largest.",
    "You write programs in Python. You compare several algorithms by their cost before you choose one.",
)
"""System messages; the agents use them in turn."""


def team(model: Model, names: Sequence[str], sampling: Sampling | None = None) -> Mapping[str, Agent]:
    """The agents by name, for ``team.agents = "roles:team"``."""
    return {
        name: Coder(model, sampling=sampling, system=STYLES[i % len(STYLES)]) for i, name in enumerate(names)
    }


def simplest() -> Agent:
    """The first agent on a vLLM server, for ``mars-env evaluate --agents coder_0=roles:simplest,...``.

    The environment variables SERVER and MODEL name the server (``http://127.0.0.1:8000/v1``) and its model.
    """
    return _served(0)


def careful() -> Agent:
    """The second agent, likewise."""
    return _served(1)


def comparing() -> Agent:
    """The third agent, likewise."""
    return _served(2)


def _served(style: int) -> Agent:
    sampling = Sampling(temperature=0.6, top_p=0.95, max_tokens=16384)
    model = HTTPModel(os.environ["SERVER"], os.environ["MODEL"])
    return Coder(model, sampling=sampling, system=STYLES[style])
