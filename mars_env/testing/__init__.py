"""Contract suites: what games, environments, graders, models, agents and searches promise."""

from typing import TYPE_CHECKING

from mars_env.lazy import lazy_names

if TYPE_CHECKING:
    from mars_env.testing.agent_suite import check_agent as check_agent
    from mars_env.testing.audit_play import audit as audit
    from mars_env.testing.game_suite import check_env as check_env
    from mars_env.testing.game_suite import check_game as check_game
    from mars_env.testing.grader_suite import check_copies as check_copies
    from mars_env.testing.grader_suite import check_grader as check_grader
    from mars_env.testing.model_suite import check_model as check_model
    from mars_env.testing.search_suite import check_search as check_search
    from mars_env.testing.tool_suite import check_tool as check_tool

__getattr__, __dir__, __all__ = lazy_names(__name__)
