"""TRL's own trainer on rollouts of the miniature."""

import re
import runpy
from pathlib import Path

import pytest
import torch
from calling_team import Calling
from tiny_team import flat

from mars_env import load_problems
from mars_env.envs import Game, GroupedSettings, solve_verify_correct
from mars_env.errors import ConfigError
from mars_env.grading import grader_for
from mars_env.miniature import load
from mars_env.miniature.agents import LIMITS, MiniatureAgent
from mars_env.models.hf import HFModel
from mars_env.rollout import groups_of
from mars_env.trainers.config import Overlong, TrainConfig
from mars_env.trainers.local import LocalTrainer
from mars_env.trainers.policy import Policy
from mars_env.trainers.trl import TeamRollouts

GAME = Game(solve_verify_correct(schedule="training", rounds=1), grader_for("math"))
ROLLOUTS = GroupedSettings(group=4, branches=1)
ROWS = 12


class Recorded(TeamRollouts):
    """Keeps the trees that it has played."""

    async def _played(self, jobs):
        self.trees = await super()._played(jobs)
        return self.trees


def team(module, config=None, temperature=1.3, acting=lambda agent: agent, **options):
    torch.set_num_threads(1)
    model = HFModel((module, load().tokenizer), name="miniature")
    agents = {r: MiniatureAgent(r, model, temperature=temperature, max_tokens=24) for r in LIMITS}
    agents = {f"{role}_0": acting(agent) for role, agent in agents.items()}
    problems = load_problems("arithmetic", seed=2, split="train")[:30]
    seeded = (config or TrainConfig()).model_copy(update={"seed": 1})
    return Recorded(GAME, agents, problems, rollouts=ROLLOUTS, config=seeded, **options)


def trainer(rollouts, module, path, **changes):
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    arguments = rollouts.arguments(problems_per_step=4, rows_at_once=12, temperature=1.3) | changes
    return GRPOTrainer(
        model=module,
        processing_class=load().tokenizer,
        train_dataset=Dataset.from_list(rollouts.prompts()),
        rollout_func=rollouts,
        reward_funcs=rollouts.advantage,
        args=GRPOConfig(
            **arguments,
            output_dir=str(path),
            max_steps=arguments["num_iterations"],
            use_cpu=True,
            gradient_checkpointing=False,
            report_to=[],
            logging_steps=1,
            save_strategy="no",
            disable_tqdm=True,
        ),
    )


def dropping():
    """The miniature with a dropout, which no trainer may use."""
    module = load().module
    module.model.norm = torch.nn.Sequential(module.model.norm, torch.nn.Dropout(0.2))
    return module


@pytest.fixture
def playing(tmp_path):
    """Rollouts, and a trainer of TRL for them."""
    module = load().module
    rollouts = team(module)
    by_trl = trainer(rollouts, module, tmp_path)
    by_trl.model.train()
    return rollouts, by_trl


@pytest.mark.parametrize(
    "config",
    [
        TrainConfig(learning_rate=1e-3, weight_decay=10.0),
        TrainConfig(learning_rate=1e-3, ratio="sequence", train_roles=("solver", "corrector")),
        TrainConfig(learning_rate=1e-3, advantage="mean_centred", epochs=2),
    ],
    ids=["marsrl", "gspo", "mean-centred"],
)
def test_one_step_of_trl_ends_in_the_weights_of_the_local_trainer(config, tmp_path):
    module = dropping()
    before = flat(module)
    rollouts = team(module, config, acting=Calling)
    by_trl = trainer(rollouts, module, tmp_path)
    by_trl.train()
    assert len(rollouts.trees) == 4
    assert any(len(turn.action.completions) == 2 for tree in rollouts.trees for turn in tree.turns)
    local = dropping()
    LocalTrainer({"miniature": Policy(local)}, config).step(groups_of(rollouts.trees))
    moved = (flat(local) - before).abs().max()
    assert moved > 5e-4
    # Adam divides by the gradient's own size, so that the rounding of a tiny one can show.
    difference = (flat(local) - flat(module)).abs()
    assert difference.mean() < 1e-6
    assert difference.max() < moved / 4
    assert any("team/solver/reward" in row for row in by_trl.state.log_history)


def test_the_rows_of_a_tree_are_filled_up_with_rows_that_train_nothing(playing):
    rollouts, by_trl = playing
    ids = [row["prompt"] for row in rollouts.prompts()][:2]
    columns = rollouts([id for id in ids for _ in range(ROWS)], by_trl)
    assert {len(column) for column in columns.values()} == {2 * ROWS}
    for row in (dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)):
        lengths = {len(row["completion_ids"]), len(row["logprobs"]), len(row["env_mask"])}
        assert len(lengths) == 1
        assert (sum(row["env_mask"]) == 0) == (row["role"] == "")
        assert row["role"] or row["team_advantage"] == 0
    assert "" in columns["role"]
    assert {*columns["role"]} & {*LIMITS}
    again = team(load().module)
    assert again([id for id in ids for _ in range(ROWS)], by_trl) == columns


def test_prompts_settings_and_evaluation_that_do_not_fit_are_refused(playing):
    rollouts, by_trl = playing
    id = rollouts.prompts()[0]["prompt"]
    for prompts in ([id] * (ROWS - 1), ["elsewhere"] * ROWS):
        with pytest.raises(ConfigError):
            rollouts(prompts, by_trl)
    for name, value in (("scale_rewards", "group"), ("num_generations", 6), ("temperature", 1.0)):
        with pytest.MonkeyPatch.context() as patch, pytest.raises(ConfigError):
            patch.setattr(by_trl, name, value)
            rollouts([id] * ROWS, by_trl)
    by_trl.model.eval()
    with pytest.raises(ConfigError):
        rollouts([id] * ROWS, by_trl)


def test_trl_computes_in_bfloat16_where_the_settings_say_so():
    for autocast in (False, True):
        rollouts = team(load().module, TrainConfig(autocast=autocast))
        assert rollouts.arguments(problems_per_step=4, rows_at_once=12, temperature=1.0)["bf16"] is autocast


def test_what_trl_cannot_take_is_refused():
    module = load().module
    for config in (
        TrainConfig(minibatches=2),
        TrainConfig(overlong=Overlong(limit=4096)),
        TrainConfig(kl_coefficient=0.1, aggregation="sequence-mean"),
        TrainConfig(kl_coefficient=0.1, ratio="sequence", aggregation="token-mean"),
    ):
        with pytest.raises(ConfigError):
            team(module, config)
    with pytest.raises(ConfigError):
        TeamRollouts(GAME, {}, load_problems("arithmetic", seed=2))
    for config, rows in (({"warmup_updates": 1}, 12), ({}, 7)):
        with pytest.raises(ConfigError):
            rollouts = team(load().module, TrainConfig(**config))
            rollouts.arguments(problems_per_step=4, rows_at_once=rows, temperature=1.0)


def test_the_example_runs(capsys):
    example = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "trl_marsrl.py"))
    example["main"](steps=1, problems=8)
    assert len(re.findall(r"(?:before|after): +Solver [\d.]+%, System [\d.]+%", capsys.readouterr().out)) == 2
