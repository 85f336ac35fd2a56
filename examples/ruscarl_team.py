"""RuscaRL's scaffold on MarsRL's team, rewarded by a rubric; a tiny random model, so a CPU needs seconds."""

import asyncio
import string

import mars_env
from mars_env.agents import Corrector, Solver, Verifier
from mars_env.envs import GroupedSettings
from mars_env.envs.rubric_rewards import RubricReward
from mars_env.grading.rubrics import Rubric, RubricGrader, Veto, WeightedSum
from mars_env.methods.ruscarl import Scaffold, Scaffolded
from mars_env.miniature.model import build_model, build_tokenizer
from mars_env.miniature.protocol import END, PAD
from mars_env.models import HFModel, ScriptedModel
from mars_env.trainers import RunSettings, TrainConfig, make_team, train
from mars_env.types import Sampling

PIECES = [PAD, END, *string.printable]
MODEL = (build_model(0, len(PIECES)), build_tokenizer(PIECES, [PAD, END], r"[\s\S]"))  # or "Qwen/Qwen3-0.6B"
JUDGE = ScriptedModel(['{"explanation": "No step is justified.", "met": false}'])  # or HTTPModel(url, name)
RUBRIC = Rubric.from_rows(
    [
        {"text": "The final answer is right.", "points": 5, "check": {"answer": None}},
        {"text": "There is a digit in it.", "points": 2, "check": {"digit": None}},
        {"text": "Every step is justified.", "points": 3},
        {"text": "It praises itself.", "points": -4, "tags": ["veto"], "check": {"contains": "great"}},
    ]
)
SETTINGS = RunSettings(
    steps=2,
    problems_per_step=2,
    rollouts=GroupedSettings(group=4, branches=1),
    sampling=Sampling(max_tokens=16),
    train=TrainConfig(learning_rate=1e-3),
)


def agent(name, model):
    """Solver and Corrector see parts of the rubric in training; the Verifier does not."""
    role = {"solver_0": Solver, "verifier_0": Verifier, "corrector_0": Corrector}[name]
    plain = role(model, sampling=SETTINGS.sampling, system="", prompt="{{ problem[:60] }}\n")
    return plain if role is Verifier else Scaffolded(plain, Scaffold(run="linear"), rubric=RUBRIC)


def main():
    """Train, and print the mean reward of each role."""
    digit = {"digit": lambda problem, text, value: any(map(str.isdigit, text))}
    grader = RubricGrader(JUDGE, RUBRIC, Veto(WeightedSum()), checks=digit, passes_at=0.5)
    reward = RubricReward(Veto(WeightedSum()), RUBRIC)  # the Verifier's is agreement with the verdict
    rewards = {"solver": reward, "corrector": reward}
    env = mars_env.make(
        "arithmetic-solve-verify-correct", schedule="training", grader=grader, rewards=rewards
    )
    team = make_team(SETTINGS, env.possible_agents, [HFModel(MODEL, name="team")], agent=agent)
    for step in asyncio.run(train(env.game, team, env.problems, SETTINGS)):
        print(step.step, {role: figures["reward"] for role, figures in step.roles.items()})


if __name__ == "__main__":
    main()
