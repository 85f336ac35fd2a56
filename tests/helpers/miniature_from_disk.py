"""The miniature's agents on vLLM, with the checkpoint named by the environment variable MINIATURE."""

import os
from functools import cache

from mars_env.miniature.agents import MiniatureAgent


@cache
def model():
    from mars_env.models.vllm import VLLMModel

    return VLLMModel(os.environ["MINIATURE"], eager=True)


def team(role):
    return MiniatureAgent(role, model())
