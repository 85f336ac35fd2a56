"""Contract suites: what rules, environments, graders, models, agents, searches and sandboxes promise.

The library's own parts pass them; run them on yours.
"""

from mars_env.testing.agent_suite import check_agent
from mars_env.testing.env_suite import check_env
from mars_env.testing.grader_suite import check_copies, check_grader
from mars_env.testing.model_suite import check_model
from mars_env.testing.rules_suite import check_rules
from mars_env.testing.search_suite import check_search

__all__ = [
    "check_agent",
    "check_copies",
    "check_env",
    "check_grader",
    "check_model",
    "check_rules",
    "check_search",
]
