"""MarsRL with TRL's GRPOTrainer, on the miniature.

    pip install 'mars-env[trl]'
    python examples/trl_marsrl.py [--steps 15]

Solver, Verifier and Corrector share one model. Each problem is played as one tree of grouped rollouts
(8 turns on each input); TRL computes the loss and the update. It takes less than a minute on two cores.

For another model, take `HFModel("name")`, its agents and another environment; on a GPU drop `use_cpu`. Full
fine-tuning takes 16 bytes a parameter; a `peft_config` for `GRPOTrainer` trains an adapter.
"""

import os
import tempfile

os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")  # rollout_func is experimental in TRL, as it says

import torch
import typer
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

import mars_env
from mars_env.envs import GroupedSettings
from mars_env.miniature import load
from mars_env.miniature.agents import team as miniature_team
from mars_env.trainers.config import TrainConfig
from mars_env.trainers.trl import TeamRollouts

GAME = "arithmetic-solve-verify-correct"


def accuracy(agents: object, problems: object) -> str:
    """Solver and System accuracy on held-out problems."""
    report = mars_env.evaluate(GAME, agents=agents, problems=problems, rounds=2, seed=1)
    solver, system = (report.metrics[f"{who}_accuracy"].estimate for who in ("solver", "system"))
    return f"Solver {solver.value:.1%}, System {system.value:.1%}"


def main(steps: int = 15, problems: int = 200) -> None:
    """Evaluate, train, evaluate again."""
    torch.set_num_threads(1)
    model = load()  # a warm-started HFModel: module, tokenizer
    agents = miniature_team(model)
    held_out = mars_env.load_problems("arithmetic", seed=0, split="test")[:problems]
    print("before:", accuracy(agents, held_out))

    env = mars_env.make(GAME, schedule="training", rounds=1)
    rollouts = TeamRollouts(
        env.game,
        agents,
        mars_env.load_problems("arithmetic", seed=0, split="train")[:2000],
        rollouts=GroupedSettings(group=8, branches=1),
        config=TrainConfig(learning_rate=2e-4),
    )
    with tempfile.TemporaryDirectory() as directory:
        trainer = GRPOTrainer(
            model=model.module,
            processing_class=model.tokenizer,
            train_dataset=Dataset.from_list(rollouts.prompts()),
            rollout_func=rollouts,
            reward_funcs=rollouts.advantage,
            args=GRPOConfig(
                **rollouts.arguments(problems_per_step=16, rows_at_once=96, temperature=1.0),
                output_dir=directory,
                max_steps=steps,
                logging_steps=5,
                save_strategy="no",
                report_to=[],
                use_cpu=True,
                gradient_checkpointing=False,
            ),
        )
        trainer.train()
    print("after: ", accuracy(agents, held_out))


if __name__ == "__main__":
    typer.run(main)
