"""What the agents of a stored tree were asked: prompts are not stored, they follow from rules and turns."""

from collections.abc import Mapping, Sequence

from mars_env.agents.registry import as_agent, roles_of
from mars_env.envs.game import Game
from mars_env.models.scripted import ScriptedModel
from mars_env.rollout.exports import observed
from mars_env.text import describe_error, logger
from mars_env.types import Agent, Observation, Prompt, Tree, role_of
from mars_env.viewer.turns import Prompts

log = logger(__name__)


MADE_AGAIN = (
    "Prompts are not stored: they were made again from the rules, in the words of the library's own agents."
)


def prompts_of(game: Game, agents: Mapping[str, Agent] | None = None) -> Prompts:
    """The prompts of a game's turns, for `mars_env.viewer.render_page`.

    A place that is not in `agents` is shown with the prompt of the library's agent of its role. An agent
    without a method ``prompt``, and an unknown role, are shown with the fields of the observation.
    """
    places = dict(agents or {})

    def prompts(tree: Tree) -> Mapping[str, Sequence[tuple[str, str]]]:
        found: dict[str, Sequence[tuple[str, str]]] = {}
        try:
            roles = roles_of(game.rules)
            for turn, observation in observed(tree, game):
                if turn.agent not in places and role_of(turn.agent) in roles:
                    places[turn.agent] = as_agent(ScriptedModel([""]), turn.agent, roles=roles)
                found[turn.id] = _messages(places.get(turn.agent), observation)
        except Exception as error:  # rules of a user, or a stored tree that other rules have made
            log.warning("the prompts of tree %s cannot be made again: %s", tree.id, describe_error(error))
        return found

    return prompts


def _messages(agent: Agent | None, observation: Observation) -> Sequence[tuple[str, str]]:
    make = getattr(agent, "prompt", None)
    prompt: Prompt | None = make(observation) if callable(make) else None
    if isinstance(prompt, str):
        return [("prompt", prompt)]
    if prompt is None or not all(isinstance(message, Mapping) for message in prompt):
        return [(name, str(value)) for name, value in observation.items()]
    return [(message["role"], message["content"]) for message in prompt if isinstance(message, Mapping)]
