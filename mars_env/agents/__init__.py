"""Solver, Verifier, Corrector and their prompts; imported as `mars_env.agents`."""

if __name__ == "agents":
    raise ImportError("import it as mars_env.agents: under the bare name everything would exist twice")

from typing import TYPE_CHECKING

from mars_env.lazy import lazy_names

if TYPE_CHECKING:
    from mars_env.agents.mcp import mcp_tools as mcp_tools
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
    from mars_env.agents.thinking import Thinking as Thinking
    from mars_env.agents.tools import Tool as Tool
    from mars_env.agents.tools import Toolbox as Toolbox
    from mars_env.agents.tools import public_tests_tool as public_tests_tool
    from mars_env.agents.tools import python_tool as python_tool
    from mars_env.agents.tools import tool as tool
    from mars_env.players import FunctionAgent as FunctionAgent
    from mars_env.players import assign_agents as assign_agents

__getattr__, __dir__, __all__ = lazy_names(__name__)
