"""What fits what: one table of the rules that every way to train has in common."""

from types import SimpleNamespace

import pytest
import torch

import mars_env
from mars_env.envs import GroupedSettings
from mars_env.errors import ConfigError
from mars_env.rollout import PipelineSettings
from mars_env.trainers import Overlong, RunSettings, TrainConfig
from mars_env.trainers.checks import check_run, is_on_policy
from mars_env.types import Sampling

GAME = mars_env.make("arithmetic-solve-verify-correct").game
SEARCH = mars_env.make("aime-tree-search").game
WEIGHTS = object()


class Player:
    """An agent of which only what is checked is there."""

    def __init__(self, policy="mars", sampling=Sampling(), module=None):  # noqa: B008
        self.policy, self.sampling, self.model = policy, sampling, SimpleNamespace(module=module)

    async def act(self, observation, n, seed):
        """Never."""


class Helped(Player):
    """An agent with help in training."""

    async def act_in_training(self, observation, n, seed, ask):
        """Never."""


def checked(game=GAME, solver=None, verifier=None, policies=("mars",), **changes):
    agents = {"solver_0": solver or Player(), "verifier_0": verifier or Player("frozen")}
    named = {name: SimpleNamespace(model=WEIGHTS) for name in policies}
    frozen = {agent.policy for agent in agents.values()} - named.keys()
    team = SimpleNamespace(agents=agents, policies=named, frozen=frozen)
    return check_run(game, team, RunSettings(**changes))


AHEAD = PipelineSettings(staleness=1)


@pytest.mark.parametrize("changes", [
    {"game": SEARCH},
    {"rollouts": GroupedSettings(group=1)},
    {"policies": ()},
    {"policies": ("mars", "other")},
    {"train": TrainConfig(train_roles=("verifier",))},
    {"train": TrainConfig(train_roles=("solver_0",))},
    {"train": TrainConfig(train_roles=())},
    {"train": TrainConfig(batch_roles=("questioner",))},
    {"solver": Player(sampling=Sampling(top_p=0.95))},
    {"solver": Player(sampling=Sampling(top_k=20))},
    {"solver": Player(sampling=Sampling(temperature=0.0))},
    {"solver": Player(sampling=Sampling(max_tokens=24)), "train": TrainConfig(overlong=Overlong(limit=4096))},
    {"solver": Player(module=WEIGHTS), "pipeline": AHEAD},
    {"segment_tokens": 2},
    {"solver": Helped(), "rollouts": None},
    {"solver": Helped(), "pipeline": PipelineSettings(staleness=1, groups_per_update=2)},
])  # fmt: skip
def test_unfit(changes):
    with pytest.raises(ConfigError):
        checked(**changes)


def test_fit():
    assert checked() == ["solver_0"]
    assert checked(solver=Helped()) == ["solver_0"]
    assert checked(verifier=Player(), train=TrainConfig(train_roles=("verifier",))) == ["verifier_0"]
    assert checked(solver=Player(module=WEIGHTS)) == ["solver_0"]
    assert checked(verifier=Player("frozen", Sampling(top_p=0.5))) == ["solver_0"]


@pytest.mark.parametrize(
    ("dtype", "autocast", "on_policy"),
    [
        (torch.float32, False, True),
        (torch.float32, True, False),
        (torch.bfloat16, False, False),
        (None, False, False),  # a server, or vLLM
    ],
)
def test_samples_of_another_engine_or_precision_are_not_on_policy(dtype, autocast, on_policy):
    model = SimpleNamespace(module=SimpleNamespace(dtype=dtype)) if dtype else SimpleNamespace()
    agent = SimpleNamespace(model=model, policy="mars")
    team = SimpleNamespace(agents={"solver_0": agent}, policies={"mars": None})
    assert is_on_policy(team, TrainConfig(autocast=autocast)) == on_policy
