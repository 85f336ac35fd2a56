"""The miniature's agents, with the checkpoint named by the environment variable MINIATURE."""

import os
from functools import cache

from mars_env.miniature.agents import MiniatureAgent


@cache
def hf_model():
    from mars_env.models.hf import HFModel

    return HFModel(os.environ["MINIATURE"])


@cache
def vllm_model():
    from mars_env.models.vllm import VLLMModel

    return VLLMModel(os.environ["MINIATURE"], eager=True)


def hf_team(role):
    return MiniatureAgent(role, hf_model())


def vllm_team(role):
    return MiniatureAgent(role, vllm_model())
