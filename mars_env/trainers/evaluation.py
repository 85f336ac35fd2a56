"""Evaluation during training, the same whatever trains."""

import copy
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from mars_env.evaluation.metrics import measure
from mars_env.rollout import Job, collect
from mars_env.trainers.assembly import evaluation_game, evaluation_problems, evaluation_sampling
from mars_env.trainers.recipes import RunSettings
from mars_env.types import Agent, Sampling, Tree

Evaluate = Callable[[Mapping[str, Agent], int], Awaitable[Mapping[str, float]]]
"""From the agents after an update, and its number, to metrics, if an evaluation is due."""

EVALUATED = (
    "solver_accuracy", "system_accuracy", "gain", "verifier_precision", "verifier_recall", "fix_rate",
    "break_rate", "search_pass@n", "tokens",
)  # fmt: skip


async def evaluation_after(
    settings: RunSettings, agents: Mapping[str, Agent], update: int
) -> dict[str, float]:
    """Play the evaluation of a run file where it is due, with the agents' present weights; else no metrics.

    Its seed is the run's, so every evaluation of a run plays the same problems with the same seeds. Agents
    without ``sampling`` of their own sample as they do in training.
    """
    if update % settings.evaluation.every:
        return {}
    sampling, problems = evaluation_sampling(settings), evaluation_problems(settings)
    players = {name: _sampled(agent, sampling) for name, agent in agents.items()}
    jobs = [Job(problem, i) for i in range(settings.evaluation.samples) for problem in problems]
    at_once = settings.problems_per_step * (settings.rollouts.group if settings.rollouts else 1)
    game = evaluation_game(settings)
    return evaluation_metrics(await collect(game, players, jobs, seed=settings.seed, concurrency=at_once))


def _sampled(agent: Agent, sampling: Sampling) -> Agent:
    if getattr(agent, "sampling", sampling) == sampling:
        return agent
    changed: Any = copy.copy(agent)
    changed.sampling = sampling
    return changed


def evaluation_metrics(trees: Sequence[Tree]) -> dict[str, float]:
    """The metrics of an evaluation, from raw grades.

    Trees that could not be played or graded are in no rate; ``eval_faults`` and ``eval_unknown`` count them.
    """
    measured = measure(trees)
    metrics = {}
    for key in EVALUATED:
        if key in measured and (total := sum(of for _, of in measured[key].pairs.values())):
            metrics[f"eval_{key}"] = sum(value for value, _ in measured[key].pairs.values()) / total
    grades = [turn.grade for tree in trees for turn in tree.turns]
    metrics["eval_num_samples"] = float(len(trees))
    metrics["eval_faults"] = float(sum(bool(tree.fault) for tree in trees))
    metrics["eval_unknown"] = float(sum(grade is not None and grade.score is None for grade in grades))
    return metrics
