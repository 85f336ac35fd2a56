"""Synchronous training in its plainest form; the loop must give the same result, bit by bit."""

from dataclasses import replace

from mars_env.envs import grouped
from mars_env.rollout import collect, groups_of
from mars_env.rollout.groups import step_jobs
from mars_env.trainers.local import LocalTrainer
from mars_env.trainers.rollouts import graded_in_step


async def alternating(game, team, problems, settings):
    """Play the trees of a step to their ends, all at once; then update; then tell the models."""
    if settings.rollouts is not None:
        game = replace(game, grower=grouped(settings.rollouts))
    config = settings.train.model_copy(update={"seed": settings.seed})
    trainer = LocalTrainer(team.policies, config, on_policy=True)
    for step in range(settings.steps):
        jobs = step_jobs(
            problems, step=step, problems_per_step=settings.problems_per_step, seed=settings.seed
        )
        trees = await collect(
            graded_in_step(game), team.agents, jobs, seed=settings.seed, concurrency=len(jobs)
        )
        trainer.step(groups_of(trees))
        team.refresh(team.policies)
