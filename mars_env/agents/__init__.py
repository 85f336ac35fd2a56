"""Solver, Verifier, Corrector: their prompts, and the models behind them; imported as `mars_env.agents`."""

if __name__ == "agents":
    raise ImportError("import it as mars_env.agents: under the bare name everything would exist twice")

from typing import TYPE_CHECKING

from mars_env.lazy import lazy_names

if TYPE_CHECKING:
    from mars_env.agents.hf import HFModel as HFModel
    from mars_env.agents.http import HTTPModel as HTTPModel
    from mars_env.agents.registry import as_agent as as_agent
    from mars_env.agents.registry import make_agents as make_agents
    from mars_env.agents.reward_model import GenerativeJudge as GenerativeJudge
    from mars_env.agents.reward_model import HFRewardModel as HFRewardModel
    from mars_env.agents.reward_model import make_reward_model as make_reward_model
    from mars_env.agents.roles import Coder as Coder
    from mars_env.agents.roles import Corrector as Corrector
    from mars_env.agents.roles import RoleAgent as RoleAgent
    from mars_env.agents.roles import Solver as Solver
    from mars_env.agents.roles import Verifier as Verifier
    from mars_env.agents.scaffold import Scaffold as Scaffold
    from mars_env.agents.scaffold import Scaffolded as Scaffolded
    from mars_env.agents.scripted import RecordingModel as RecordingModel
    from mars_env.agents.scripted import ReplayModel as ReplayModel
    from mars_env.agents.scripted import ScriptedModel as ScriptedModel
    from mars_env.agents.thinking import Thinking as Thinking
    from mars_env.agents.tiny import tiny_model as tiny_model
    from mars_env.agents.vllm import VLLMModel as VLLMModel
    from mars_env.players import FunctionAgent as FunctionAgent
    from mars_env.players import assign_agents as assign_agents

# Each model brings a library of its own (torch, aiohttp).
__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "Coder": "mars_env.agents.roles",
        "Corrector": "mars_env.agents.roles",
        "FunctionAgent": "mars_env.players",
        "GenerativeJudge": "mars_env.agents.reward_model",
        "HFModel": "mars_env.agents.hf",
        "HFRewardModel": "mars_env.agents.reward_model",
        "HTTPModel": "mars_env.agents.http",
        "RecordingModel": "mars_env.agents.scripted",
        "ReplayModel": "mars_env.agents.scripted",
        "RoleAgent": "mars_env.agents.roles",
        "Scaffold": "mars_env.agents.scaffold",
        "Scaffolded": "mars_env.agents.scaffold",
        "ScriptedModel": "mars_env.agents.scripted",
        "Solver": "mars_env.agents.roles",
        "Thinking": "mars_env.agents.thinking",
        "VLLMModel": "mars_env.agents.vllm",
        "Verifier": "mars_env.agents.roles",
        "as_agent": "mars_env.agents.registry",
        "assign_agents": "mars_env.players",
        "make_agents": "mars_env.agents.registry",
        "make_reward_model": "mars_env.agents.reward_model",
        "tiny_model": "mars_env.agents.tiny",
    },
)
