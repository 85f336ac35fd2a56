"""The miniature's experiment on MARS2: from one agent to many, in training and in search.

One seed fixes everything; the held-out problems are the same for all arms of a seed, which pairs them.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

from mars_env.envs import Game
from mars_env.envs.selection import First, Highest, Selection, Vote, candidates
from mars_env.envs.tree_search import SearchGrower, TreeSearchSettings, searched, tree_search
from mars_env.envs.visibility import visible_turns
from mars_env.evaluation.trees import is_right, sampled_tokens
from mars_env.models.hf import HFModel
from mars_env.problems import ProblemSet
from mars_env.seeds import derive_seed
from mars_env.trainers.loop import train
from mars_env.trainers.metrics import StepMetrics
from mars_env.trainers.recipes import RunSettings
from mars_env.trainers.team import SampledModel, make_team
from mars_env.types import Agent, Problem, Ratings, Tree, Turn
from studies.common.episodes import metrics_of, played_often, warm_started
from studies.common.nibbles import nibbles_problems
from studies.mars2.agents import MiniatureCoder
from studies.mars2.grader import NibbleGrader, tables_of
from studies.mars2.protocol import read_program
from studies.mars2.recipe import RECIPE, Mars2Recipe
from studies.mars2.warm_start import warm_start

Stage = Literal["single", "homogeneous", "heterogeneous"]
"""One agent; several agents that share their weights; several agents with weights of their own."""


@dataclass(frozen=True, slots=True)
class Mars2Arm:
    """One way to make a team of generalists (``g0``, ``g1``) and specialists (``a``, ``b``).

    `budget` is in multiples of the recipe's nodes; `parts` tells the parts of MARS2-T+ apart.
    """

    name: str
    title: str
    stage: Stage
    models: tuple[str, ...]
    trained: bool = True
    search: str = "ab-mcts-a"
    budget: int = 1
    parts: bool = False


ARMS: Final = (
    Mars2Arm("untrained", "one model, warm start only", "single", ("g0",), trained=False),
    Mars2Arm("untrained pair", "two different models, warm start only", "heterogeneous", ("a", "b"),
        trained=False),
    Mars2Arm("single", "one model, one agent, fresh samples only (GRPO)", "single", ("g0",),
        search="best-of-n", parts=True),
    Mars2Arm("homogeneous", "one model in two roles, trained in the search", "homogeneous", ("g0",),
        parts=True),
    Mars2Arm("heterogeneous", "two different models, trained in one search", "heterogeneous", ("a", "b"),
        budget=2, parts=True),
    Mars2Arm("equal pair", "control: two models of one kind", "heterogeneous", ("g0", "g1"), budget=2),
    Mars2Arm("homogeneous x2", "control: one model in two roles, twice the nodes", "homogeneous", ("g0",),
        budget=2),
)  # fmt: skip
"""From one model to several, as in the paper (arXiv 2602.07848), with controls for other causes of a gain."""


def lean_of(model: str, recipe: Mars2Recipe) -> float:
    """The lean of a model's warm start: which register's programs it is shown."""
    return {"a": recipe.specialists[0], "b": recipe.specialists[1]}.get(model, 0.5)


def warm_model(model: str, seed: int, recipe: Mars2Recipe, cache: Path) -> HFModel:
    """A warm-started model of a seed, with weights of its own."""
    own = derive_seed(seed, "warm start", model)
    make = partial(warm_start, own, lean_of(model, recipe), recipe.warm_start)
    return warm_started(cache / f"{model}-{seed}", model, make)


def training_game(arm: Mars2Arm, recipe: Mars2Recipe) -> Game:
    """A tree search on nibbles with ``schedule="training"``, graded by `NibbleGrader`."""
    settings = recipe.trained(arm.search, arm.budget)
    return _game(settings, _agents_of(arm), NibbleGrader(score=recipe.train_score))


def evaluation_game(settings: TreeSearchSettings, agents: int) -> Game:
    """A tree search on nibbles at test time, as ``make`` makes it but for the grader."""
    seen = settings.model_copy(update={"search_grader": NibbleGrader(tests="public", score=settings.score)})
    return _game(seen, agents, NibbleGrader())


def _game(settings: TreeSearchSettings, agents: int, grader: NibbleGrader) -> Game:
    rules = tree_search(**{**dict(settings), "kind": "code", "agents": agents})
    rewards, visibility = {"coder": searched}, settings.visibility("code")
    return Game(rules, grader, rewards=rewards, grower=SearchGrower, visibility=visibility)


def _agents_of(arm: Mars2Arm) -> int:
    return 1 if arm.stage == "single" else 2


@dataclass(frozen=True, slots=True)
class TrainedTeam:
    """An arm after training: agents by name, and the figures of every step."""

    agents: Mapping[str, Agent]
    history: tuple[StepMetrics, ...] = ()


async def train_team(arm: Mars2Arm, seed: int, recipe: Mars2Recipe, cache: Path) -> TrainedTeam:
    """Warm-start an arm's models, or take them from the cache, and train them as the arm says."""
    models = [warm_model(name, seed, recipe, cache) for name in arm.models]
    settings = RunSettings(
        seed=seed,
        steps=recipe.steps,
        problems_per_step=recipe.problems_per_step,
        rollouts=None,
        train=recipe.train,
    )
    game = training_game(arm, recipe)
    team = make_team(settings, game.rules.possible_agents, models, agent=_coder)
    if not arm.trained:
        return TrainedTeam(team.agents)
    problems = training_problems(seed, recipe)
    history = await train(game, team, problems, settings)
    return TrainedTeam(team.agents, tuple(history))


def _coder(name: str, model: SampledModel) -> Agent:
    return MiniatureCoder(int(name.rpartition("_")[2]), model)


def training_problems(seed: int, recipe: Mars2Recipe = RECIPE) -> ProblemSet:
    """The training problems of a seed, without end."""
    return nibbles_problems(**_asked(recipe), seed=seed, split="train")


def held_out(seed: int, recipe: Mars2Recipe = RECIPE) -> ProblemSet:
    """The evaluation problems of a seed; no training problem shows the same examples."""
    return nibbles_problems(**_asked(recipe), seed=seed, split="test")[: recipe.problems]


def _asked(recipe: Mars2Recipe) -> Mapping[str, Any]:
    return {"level": recipe.level, "shown": recipe.warm_start.shown}


async def search(
    trained: TrainedTeam,
    settings: TreeSearchSettings,
    seed: int,
    recipe: Mars2Recipe = RECIPE,
    problems: Sequence[Problem] | None = None,
) -> list[Tree]:
    """Search every problem once; by default the held-out ones."""
    game = evaluation_game(settings, len(trained.agents))
    every = held_out(seed, recipe) if problems is None else problems
    return await played_often(game, trained.agents, every, 1, seed)


class Shortest:
    r"""A reward model that is a rule: a program with fewer statements is rated higher."""

    async def rate(self, statement: str, texts: Sequence[str], seed: int) -> Ratings:
        """One over the number of lines."""
        return Ratings(tuple(1 / max(1, len(text.splitlines())) for text in texts))


BUDGETS: Final = ("best-of-n", "refinement", "search")
"""Searches that are measured at smaller budgets as well."""

REWARD_MODEL: Final = Shortest()
"""The reward model of MARS2-T+."""

CHOICES: Final[Mapping[str, Selection]] = {"vote": Vote(), "shortest": Highest(REWARD_MODEL)}
"""Final choices to compare with taking the first candidate."""


async def chosen_by(selection: Selection, trees: Sequence[Tree]) -> list[Tree]:
    """The same searches with another rule for the final choice."""
    chosen = []
    for tree in trees:
        shown = visible_turns(candidates(tree.turns))
        choice = await selection.choose(replace(tree.problem, reference=None), shown, 0)
        chosen.append(replace(tree, final=choice.turn))
    return chosen


def search_figures(trees: Sequence[Tree]) -> dict[str, float]:
    """Pass@1 (of the node that the search chose), Pass@N, tokens, nodes and depth of a run of searches."""
    found = metrics_of(trees)
    names = {"system_accuracy": "pass@1", "search_pass@n": "pass@n"}
    keys = (*names, "tokens", "nodes", "depth")
    return {names.get(key, key): value for key in keys if (value := found[key].value) is not None}


def within(trees: Sequence[Tree], tokens: int) -> list[Tree]:
    """The same searches, stopped when they had spent a number of tokens."""
    cut = []
    for tree in trees:
        spent, known = 0, []
        for turn in sorted(tree.turns, key=lambda turn: int(turn.info["call"])):
            if spent >= tokens:
                break
            known.append(turn)
            spent += sampled_tokens(turn)
        cut.append(replace(tree, turns=tuple(known)))
    return cut


def right_within(trees: Sequence[Tree], tokens: int) -> float:
    """Pass@1 of the same searches, stopped at a number of tokens, with the choice made then."""
    stopped = within([tree for tree in trees if not tree.fault], tokens)
    right = sum(any(bool(is_right(turn)) for turn in candidates(tree.turns)[:1]) for tree in stopped)
    return right / max(1, len(stopped))


def choices_left(trees: Sequence[Tree], wave: int | None = None) -> dict[str, float]:
    """Whether searches that found a passing program leave the final choice several candidates."""
    texts = []
    for tree in trees:
        passing = [turn for turn in candidates(tree.turns) if turn.search_score == 1.0]
        if passing and wave is not None:
            end = (int(passing[0].info["call"]) // wave + 1) * wave
            passing = [turn for turn in passing if int(turn.info["call"]) < end]
        if passing:
            texts.append({turn.text for turn in passing})
    found = {"solved": len(texts) / max(1, len(trees))}
    return found | ({"one candidate": sum(len(each) == 1 for each in texts) / len(texts)} if texts else {})


def diversity(trees: Sequence[Tree], nodes: int) -> dict[str, float]:
    """How different a team's fresh programs are, right or wrong: means over the first `nodes`.

    ``distinct`` compares functions by their outputs on all inputs; ``different`` and ``disagree`` are shares
    of the pairs of programs by different agents (by the same agent if there is only one).
    """
    rows: list[tuple[float, ...]] = []
    for turns in _first(trees, nodes):
        functions = [function_of(turn) for turn in turns]
        right = [bool(is_right(turn)) for turn in turns]
        pairs = _pairs(turns)
        rows.append(
            (
                sum(right) / len(turns),
                len(set(functions)) / len(turns),
                float(len({turn.text for turn, r in zip(turns, right, strict=True) if r})),
                sum(functions[i] != functions[j] for i, j in pairs) / len(pairs),
                sum(right[i] != right[j] for i, j in pairs) / len(pairs),
            )
        )
    names = ("pass@1", "distinct", "distinct_right", "different", "disagree")
    return {
        name: sum(column) / len(rows) for name, column in zip(names, zip(*rows, strict=True), strict=True)
    }


def right_diversity(trees: Sequence[Tree], nodes: int) -> dict[str, float]:
    """How different a team's right programs are; see `diversity` for all of them."""
    shares, differing, problems = [], [], 0
    for turns in _first(trees, nodes):
        problems += 1
        right = [turn for turn in turns if is_right(turn)]
        alone = len({turn.agent for turn in turns}) == 1
        if right:
            shares.append(len({turn.text for turn in right}) / len(right))
        if pairs := _pairs(right, alone):
            differing.append(sum(right[i].text != right[j].text for i, j in pairs) / len(pairs))
    found = {"solved": len(shares) / max(1, problems), "right_pairs": len(differing) / max(1, problems)}
    means = {"distinct_share": shares, "different_right": differing}
    return found | {name: sum(values) / len(values) for name, values in means.items() if values}


def _first(trees: Sequence[Tree], nodes: int) -> list[list[Turn]]:
    """The first turns of each tree, in the order of the search's calls."""
    return [sorted(tree.turns, key=lambda turn: int(turn.info["call"]))[:nodes] for tree in trees]


def _pairs(turns: Sequence[Turn], alone: bool | None = None) -> list[tuple[int, int]]:
    """Pairs of turns by different agents; all pairs if there is only one agent."""
    if alone is None:
        alone = len({turn.agent for turn in turns}) == 1
    return [
        (i, j)
        for i, j in itertools.combinations(range(len(turns)), 2)
        if alone or turns[i].agent != turns[j].agent
    ]


def function_of(turn: Turn) -> object:
    """What a program computes: its two tables; or its text if it is not in the miniature's language."""
    pair = read_program(turn.text)
    return turn.text if pair is None else tables_of(pair)


async def evaluate_team(
    trained: TrainedTeam, seed: int, recipe: Mars2Recipe = RECIPE, *, parts: bool = True
) -> dict[str, float]:
    """All figures of a team: ``<search>_<figure>``, and both kinds of diversity without a prefix."""
    runs = {
        "best-of-n": await search(trained, recipe.searched("best-of-n"), seed, recipe),
        "refinement": await search(trained, recipe.searched("refinement"), seed, recipe),
        "search": await search(trained, recipe.searched(), seed, recipe),
    }
    figures: dict[str, float] = {}
    if parts:
        runs["no-feedback"] = await search(trained, recipe.searched(feedback=False), seed, recipe)
        for name, selection in CHOICES.items():
            runs[name] = await chosen_by(selection, runs["search"])
        runs["t-plus"] = await search(trained, recipe.t_plus(REWARD_MODEL), seed, recipe)
        runs["depth"] = await chosen_by(First(), runs["t-plus"])
        preset = tree_search(
            schedule="t-plus", kind="code", tokens=recipe.tokens, reward_model=REWARD_MODEL
        ).settings
        runs["preset"] = await search(trained, preset, seed, recipe)
        for name, wave in (("t-plus", None), ("t-plus stopped", recipe.wave)):
            left = choices_left(runs["t-plus"], wave)
            figures |= {f"{name}_{key}": value for key, value in left.items()}
    for name, trees in runs.items():
        figures |= {f"{name}_{key}": value for key, value in search_figures(trees).items()}
        if name in BUDGETS:
            figures |= {f"{name}_pass@1 at {n}": right_within(trees, n) for n in recipe.cuts}
    fresh, nodes = runs["best-of-n"], recipe.diversity_nodes
    return figures | diversity(fresh, nodes) | right_diversity(fresh, nodes)
