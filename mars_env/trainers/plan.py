"""What a run would do and need, before it does it."""

from mars_env.trainers.architecture import architecture_of
from mars_env.trainers.assembly import checkpoints_of, training_game
from mars_env.trainers.checks import require_groups
from mars_env.trainers.credit_rules import credit_line
from mars_env.trainers.memory import GIB, Shape, estimate
from mars_env.trainers.recipes import RunSettings


def plan(settings: RunSettings, gpu: float) -> tuple[str, bool]:
    """The plan of a run on GPUs of so many GiB, and whether it fits."""
    if settings.backend == "openrlhf":
        from mars_env.trainers.openrlhf.planning.dry_run import dry_run

        return dry_run(settings, gpu)
    game, rank = training_game(settings), settings.team.lora
    require_groups(game, settings)
    names = game.rules.possible_agents
    assigned = checkpoints_of(settings.team, names)
    group = settings.rollouts.group if settings.rollouts else 8
    shape = Shape(settings.sampling.max_tokens // 2, settings.sampling.max_tokens, group)
    lines = [
        credit_line(settings.train.credit),
        f"{shape.rows} samples at once, of prompts of {shape.prompt} tokens and {shape.sampled} sampled",
    ]
    fits = True
    for path in dict.fromkeys(path for _, path in assigned.values()):
        model = architecture_of(path)
        memory = estimate(model, settings.train, shape, adapter_rank=rank)
        lines.append(f"{path}: {model.parameters / 1e6:,.1f} million parameters, estimated:")
        lines += [f"  {line}" for line in memory.describe(gpu * GIB)]
        fits = fits and memory.peak <= gpu * GIB
    return "\n".join(lines), fits
