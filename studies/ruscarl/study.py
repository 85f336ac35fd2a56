"""RuscaRL's lock in miniature: help in the prompt that fades."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mars_env.envs import Game, solve
from mars_env.envs.rubric_rewards import RubricReward
from mars_env.errors import ConfigError
from mars_env.grading.rubrics import RubricGrader, Veto, WeightedSum
from mars_env.methods.ruscarl import Scaffold, Scaffolded
from studies.common.claims import Claim
from studies.common.episodes import copied, learned, mean
from studies.common.study import Result, Run, Study, arm_by_arm
from studies.rubrics.lock import (
    STEPS,
    Recipe,
    guesser,
    locks,
    opener,
    played,
    run_settings,
    show_steps,
    step_is_right,
)

OPEN: Final = Veto(WeightedSum(), tuple(map(str, range(STEPS))))
"""1 if every step is right, else 0: a policy that guesses opens one lock in 8 ** 5 tries."""
RECIPE: Final = Recipe(study="lock", steps=120)
ARMS: Final[Mapping[str, tuple[str, dict[str, Any]]]] = {
    # scaffold over the run (empty: none), what Scaffolded gets
    "no scaffold": ("", {}),
    "sigmoid (RuscaRL)": ("sigmoid", {}),
    "constant": ("constant", {}),
    "sigmoid, plain over scaffolded": ("sigmoid", {}),
    "sigmoid, scaffolded over scaffolded": ("sigmoid", {"train_on": "read"}),
    "linear decay": ("linear", {}),  # added after the first rows; the plan says so
}
PAST: Final = "sigmoid, plain over scaffolded"
"""Its loss is that of its rows' commit; the library no longer has it."""
FADING: Final = "sigmoid (RuscaRL)"


@arm_by_arm
async def play(arm: str, run: Run) -> Result:
    """Train one arm on the locks of a seed."""
    seed, recipe = run.seed, run.recipe
    if arm == PAST:
        raise ConfigError(f"{arm!r} needs the code of the commit that its rows name")
    fading, options = ARMS[arm]
    problems, model = locks(seed)[: recipe.locks], copied(guesser(steps=recipe.warm_start))
    grader = RubricGrader(aggregate=OPEN, checks={"step": step_is_right})
    game = Game(solve(), grader, rewards={"solver": RubricReward(OPEN)})
    scaffold = Scaffold(run=fading) if fading else None

    def agent(name: str, playing: Any) -> Any:
        plain = opener(playing)
        return Scaffolded(plain, scaffold, show=show_steps, **options) if scaffold else plain

    history = await learned(model, game, problems, run_settings(seed, recipe), agent)
    grades = [tree.turns[0].grade for tree in await played(game, model, problems, run)]
    right = [mean(list(g.details["fractions"].values())) for g in grades if g is not None]
    figures = {"open": mean([g.score for g in grades if g and g.score is not None]), "steps": mean(right)}
    curve = [round(step.roles["solver"]["reward"], 3) for step in history]
    return Result(figures, {"reward": curve})


STUDY = Study(
    name="ruscarl",
    version="cb2b16f42861",
    task="RuscaRL's lock",
    starts="1",
    arms=tuple(ARMS),
    recipe=RECIPE,
    quick=RECIPE.quick(),
    play=play,
    columns={"open": "locks opened", "steps": "steps right"},
    claims=(
        Claim("a fading scaffold opens more locks than none", FADING, "open", "no scaffold"),
        Claim("... than help that stays", FADING, "open", "constant"),
        Claim("... than help that fades slowly (claim added later)", FADING, "open", "linear decay"),
        Claim("its ratio beats plain over scaffolded", FADING, "open", "sigmoid, plain over scaffolded"),
        Claim("... scaffolded over scaffolded", FADING, "open", "sigmoid, scaffolded over scaffolded"),
    ),
    plan_of="rubrics",
    unrepeatable=(PAST,),
)
