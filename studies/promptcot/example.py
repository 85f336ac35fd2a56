"""PromptCoT 2.0 from cold start to self-play by DPO, on tiny models; a CPU needs about a minute."""

import asyncio
import copy
import tempfile
from dataclasses import replace

from mars_env.envs import Game, GroupedSettings, Solve
from mars_env.envs.rewards import outcome
from mars_env.grading import grader_for
from mars_env.methods.promptcot.designs import write_design
from mars_env.methods.promptcot.making import CandidateSettings, make_problems
from mars_env.methods.promptcot.references import Majority
from mars_env.methods.promptcot.training import Designers, Loop, alternate, cold_start
from mars_env.trainers import LocalTrainer, RunSettings, TrainConfig, fit, make_team
from mars_env.trainers.config import Preferences
from mars_env.trainers.rollouts import rollouts
from studies.promptcot import grammar

CONFIG = TrainConfig(learning_rate=4e-3, betas=(0.9, 0.98), warmup_updates=10)
SETTINGS = RunSettings(
    steps=3,
    problems_per_step=4,
    rollouts=GroupedSettings(group=8, branches=1),
    sampling=grammar.SOLUTIONS,
    train=TrainConfig(learning_rate=1e-3),
)


async def main():
    """Train the two models, make problems, and train a solver on them."""
    known = grammar.designs(seed=0, number=300)
    models = (grammar.new_model(name, seed) for seed, name in enumerate(("problem", "rationale")))
    both = Designers(*models, grammar.GrammarWriting())
    curve = cold_start(both, both.trainer(CONFIG), known, steps=80, batch=24)
    print(f"cold start: {curve[0]['problem']:.2f} nats a token at first, {curve[-1]['problem']:.2f} at last")
    loop = Loop(steps=3, batch=8, sampling=grammar.RATIONALES)
    for done in await alternate(both, both.trainer(CONFIG), known, loop):
        for name, values in done.policies.items():
            if values:
                print(f"step {done.step}: {name}, {values['nll']:.2f} nats a token")

    async def write(index, seed):
        concepts = known[index % len(known)].concepts
        return await write_design(both.problem, both.writing, concepts, replace(grammar.DESIGNS, seed=seed))

    solver = grammar.taught_solver(steps=100)
    voter = Majority(grammar.solver(solver), threshold=0.375)
    with tempfile.TemporaryDirectory() as folder:
        made = await make_problems(folder, write, voter, CandidateSettings(tries=32, licence="Apache-2.0"))
    print(f"{len(made)} problems, {made.notes}")
    settled = made.filter(lambda problem: problem.reference is not None)
    if not len(settled):
        return
    settings = SETTINGS.model_copy(update={"problems_per_step": min(4, len(settled))})
    team = make_team(settings, ["solver_0"], [solver], agent=lambda _, model: grammar.solver(model))
    team.policies["solver"].reference = copy.deepcopy(solver.module).requires_grad_(False)
    trainer = LocalTrainer(team.policies, settings.train, preferences=Preferences())
    game = Game(Solve(), grader_for("math"), rewards={"solver": outcome})
    history = await fit(
        trainer,
        lambda done: rollouts(game, team, settled, settings, done=done),
        settings.steps,
        refresh=team.refresh,
    )
    for step in history:
        pairs = step.policies["solver"].get("pairs", 0)
        print(f"DPO step {step.step}: {pairs:.0f} pairs, reward {step.roles['solver']['reward']:.2f}")


if __name__ == "__main__":
    asyncio.run(main())
