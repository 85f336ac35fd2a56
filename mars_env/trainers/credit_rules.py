"""Ways to credit a team: what each turn earns, and which turns it is compared with. No torch in here.

A rule is a function from groups to groups: it replaces rewards, puts turns into other groups, or both, before
an estimator compares the turns of each group. `r` is a turn's reward by its role, as the game gave it. A turn
whose reward is None stays out of every comparison.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from mars_env.envs.rewards import outcomes_below
from mars_env.envs.selection import answer_key
from mars_env.errors import ConfigError
from mars_env.lazy import import_object
from mars_env.text import suggestion
from mars_env.trainers.advantages import TurnKey, _example_group, changed_rewards, turn_key
from mars_env.types import Grade, Group, Turn

GroupRule = Callable[[Sequence[Group]], list[Group]]


@dataclass(frozen=True, slots=True)
class CreditRule:
    """A way to credit a team.

    Attributes:
        groups: The rule.
        advantage: The name of the estimator that its paper uses.
        whole_trees: Whether it reads other turns of a tree, so that a batch must hold whole trees.
        rollouts: What it compares: turns on one input, trees of one group each, or any turns.
        needs: What the rollouts must have, in words.
    """

    groups: GroupRule
    advantage: str = "group_normalised"
    whole_trees: bool = True
    rollouts: Literal["any", "siblings", "tree"] = "any"
    needs: str = ""


def same_input(groups: Sequence[Group]) -> list[Group]:
    """`r`, compared among turns of one agent on one input, as they were sampled.

    Source: MarsRL (arXiv 2511.11373, section 3.1): each agent has rewards of its own.
    """
    return list(groups)


def same_tree(groups: Sequence[Group]) -> list[Group]:
    """`r`, compared among all nodes of one tree.

    Source: MARS2 (arXiv 2602.07848, section 3.2). `TreeCredit` shapes the rewards along the tree beforehand.

    Example:
        >>> [(group.id, len(group.turns)) for group in same_tree([_example_tree()])]
        [('t', 6)]
    """
    return _regrouped(groups, lambda turn: (turn.tree_id,))


def team_reward(groups: Sequence[Group]) -> list[Group]:
    """The mean outcome of the episodes that go on from a turn, compared as it was sampled.

    All agents earn the same, which MarsRL (arXiv 2511.11373, section 1) argues against.
    """
    outcomes = _outcomes(groups)
    return changed_rewards(groups, lambda turn, _: outcomes[turn.tree_id][turn.id])


def counterfactual_siblings(groups: Sequence[Group]) -> list[Group]:
    """C3: ``Q(v) = mean outcome below v``, compared with the siblings without the turn itself.

    With ``advantage="leave_one_out"`` the advantage is ``A(v) = Q(v) - mean of Q over the siblings``.

    Source: its public code, EIT-EAST-Lab/C3, ``c3/credit/c3/provider.py`` (``reward_only``, ``loo``). Trees
    there branch alike at each depth; where they do not, each branch counts once.

    Example:
        >>> credited = counterfactual_siblings([_example_tree()])
        >>> [{turn.id: turn.reward for turn in group.turns} for group in credited]
        [{'0': 0.5, '1': 0.0}, {'0.0': 1.0, '0.1': 0.0}, {'1.0': 0.0, '1.1': 0.0}]
    """
    return _regrouped(team_reward(groups), lambda turn: (turn.tree_id, turn.parent_id or "root", turn.role))


def counterfactual_bonus(groups: Sequence[Group], *, bonus: float = 0.2) -> list[Group]:
    """CCPO: ``R + bonus (helped - hurt)`` for turns after the first, ``R`` for the first ones.

    ``R`` is the mean outcome below a turn, from -1 to 1. The first turns of a tree are answers without the
    rest of the team, and S is their mean outcome: ``helped = 1[R > 0 > S]``, ``hurt = 1[R < 0 < S]``.

    Source: its public code, bhai114/ccpo, ``CCPO/examples/gspo_trainer/two_model/two_model_trainer.py``
    (event bonus, group baseline; arXiv 2603.21563), where answers without the team are sampled besides.

    Raises:
        ConfigError: No first turn is graded, so that no answer is without the rest of the team.

    Example:
        >>> credited = counterfactual_bonus([_example_tree()])
        >>> {turn.id: turn.reward for turn in credited[0].turns}
        {'0': 0.0, '1': -1.0, '0.0': 1.0, '0.1': -1.0, '1.0': -1.0, '1.1': -1.0}
    """
    first = [turn for group in groups for turn in group.turns if turn.parent_id is None]
    if first and all(turn.grade is None for turn in first):
        raise ConfigError('credit="ccpo" needs answers without the team: a game whose first turn is graded')
    outcomes, solo = _outcomes(groups), _mean_scores(first)

    def credited(turn: Turn, _: float) -> float | None:
        outcome, alone = outcomes[turn.tree_id][turn.id], solo.get(turn.tree_id)
        if outcome is None or alone is None:
            return None
        joint, baseline = 2 * outcome - 1, 2 * alone - 1
        if turn.parent_id is None:
            return joint
        return joint + bonus * (int(joint > 0 > baseline) - int(joint < 0 < baseline))

    return changed_rewards(groups, credited)


def same_agent(groups: Sequence[Group]) -> list[Group]:
    """Dr. MAS: `r`, compared over all turns of one agent on one problem.

    Source: arXiv 2602.08847, section 4.2; its code, langfengQ/DrMAS, ``verl/trainer/ppo/core_algos.py``
    (``group_by_agent_id``). Rewards there are the team's: set the environment's team reward for that.

    Example:
        >>> [(group.id, len(group.turns)) for group in same_agent([_example_tree()])]
        [('t solver_0', 2), ('t corrector_0', 4)]
    """
    return _regrouped(groups, lambda turn: (turn.tree_id, turn.agent))


def same_agent_and_turn(groups: Sequence[Group]) -> list[Group]:
    """AT-GRPO: `r`, compared over the turns of one agent at one place of the episode.

    Source: arXiv 2510.11062, section 4.1; its code, pettingllms-ai/PettingLLMs,
    ``pettingllms/trainer/multi_agents_ppo_trainer.py`` (key of problem, turn, agent).
    """
    return _regrouped(groups, lambda turn: (turn.tree_id, turn.agent, str(turn.id.count("."))))


def balanced_verdicts(groups: Sequence[Group]) -> list[Group]:
    """Verifiers are trained on as many right solutions as wrong ones: on the others their reward is None.

    Which solutions stay depends on their ids alone. Source: arXiv 2602.07594, section 3; its code,
    chenyuxin1999/Learning-to-Self-Verify, where such a batch is trained in every fifth step.
    """
    by_key = {turn_key(turn): turn for group in groups for turn in group.turns}
    judged = {key: _judged(turn, by_key) for key, turn in by_key.items() if turn.accepts is not None}
    by_grade: dict[bool, list[TurnKey]] = {True: [], False: []}
    for key, solution in {turn_key(s): s for s in judged.values() if s and _is_known(s)}.items():
        by_grade[_is_right(solution)].append(key)
    number = min(map(len, by_grade.values()))
    trained = {key for keys in by_grade.values() for key in sorted(keys, key=_digest)[:number]}

    def credited(turn: Turn, reward: float) -> float | None:
        solution = judged.get(turn_key(turn))
        is_left = turn.accepts is not None and (solution is None or turn_key(solution) not in trained)
        return None if is_left else reward

    return changed_rewards(groups, credited)


def majority_labels(groups: Sequence[Group]) -> list[Group]:
    """CoVerRL: no reference is read; an answer is right if most first answers of its tree give the same.

    Graded turns earn ``1[answer = majority]``, Verifiers ``1[verdict agrees with that]``. If at most half of
    the verdicts on solutions with the majority's answer accept them, nothing of the tree is trained.

    Source: arXiv 2603.17775, section 3; its code, ZJU-REAL/CoVerRL (``_double_majority``). It also gives
    Verifiers equally many solutions of both kinds: `balanced_verdicts`.
    """
    labelled = {turn_key(turn): turn for tree in same_tree(groups) for turn in _labelled(tree.turns)}
    return [replace(group, turns=tuple(labelled[turn_key(turn)] for turn in group.turns)) for group in groups]


def informed_rewards(groups: Sequence[Group]) -> list[Group]:
    """STV: a Verifier earns ``log p(y | x, s, ref) - log p(y | x, s)`` of its report y on a solution s.

    Compared with other reports on s, that descends ``KL(p(. | x, s) || p(. | x, s, ref))``: the Verifier
    imitates itself shown the reference. p is the model that sampled y, at temperature 1
    (`mars_env.trainers.imitation`). Other turns keep their rewards.

    Source: arXiv 2605.30290, as we read its abstract. The sum over tokens is one reward for each report here;
    whether the paper weights tokens, or adds a reward for the verdict, we could not look up.
    """
    reports = [t for group in groups for t in group.turns if t.role == "verifier" and t.reward is not None]
    if reports and all(_informed_gain(turn) is None for turn in reports):
        raise ConfigError('imitate="reference" needs reports that were scored with it: use mars_env.train')
    return changed_rewards(groups, lambda turn, r: _informed_gain(turn) if turn.role == "verifier" else r)


CREDIT_RULES: Mapping[str, CreditRule] = {
    "marsrl": CreditRule(same_input, whole_trees=False),
    "mars2": CreditRule(
        same_tree, rollouts="tree", needs='trees of one group each, as a search grows them: rollouts = "own"'
    ),
    "team": CreditRule(team_reward),
    "c3": CreditRule(
        counterfactual_siblings,
        "leave_one_out",
        rollouts="siblings",
        needs="two or more turns on each input: rollouts.group, or a search",
    ),
    "ccpo": CreditRule(
        counterfactual_bonus,
        rollouts="siblings",
        needs="several graded first turns: rollouts.group, or a search",
    ),
    "dr-mas": CreditRule(same_agent),
    "at-grpo": CreditRule(same_agent_and_turn),
}


def credit_rule(name: str) -> CreditRule:
    """A rule by its name, or a user's own function of groups as ``module:function``."""
    if name in CREDIT_RULES:
        return CREDIT_RULES[name]
    if ":" in name:
        return CreditRule(import_object(name))
    names = ", ".join(CREDIT_RULES)
    raise ConfigError(
        f"there is no credit rule {name!r}; there are {names}, or your own as module:function"
        + suggestion(name, CREDIT_RULES)
    )


def credit_line(name: str) -> str:
    """How a team is credited, in a line of a plan."""
    needs = credit_rule(name).needs
    return f"credit: {name}, which needs {needs}" if needs else f"credit: {name}"


def _regrouped(groups: Sequence[Group], key: Callable[[Turn], tuple[str, ...]]) -> list[Group]:
    members: defaultdict[str, list[Turn]] = defaultdict(list)
    for group in groups:
        for turn in group.turns:
            members[" ".join(key(turn))].append(turn)
    return [Group(id, tuple(turns)) for id, turns in members.items()]


def _outcomes(groups: Sequence[Group]) -> dict[str, dict[str, float | None]]:
    return {tree.id: outcomes_below(tree.turns) for tree in same_tree(groups)}


def _mean_scores(turns: Iterable[Turn]) -> dict[str, float]:
    scores: defaultdict[str, list[float]] = defaultdict(list)
    for turn in turns:
        if turn.grade is not None and turn.grade.score is not None:
            scores[turn.tree_id].append(turn.grade.score)
    return {tree: sum(values) / len(values) for tree, values in scores.items()}


def _informed_gain(turn: Turn) -> float | None:
    """How much more probable a turn's text is to its own model shown the reference, in nats."""
    gains = [completion.informed_gain for completion in turn.action.completions]
    known = [gain for gain in gains if gain is not None]
    return sum(known) if known else None


def _is_known(turn: Turn) -> bool:
    return turn.grade is not None and turn.grade.score is not None


def _judged(turn: Turn, by_key: Mapping[TurnKey, Turn]) -> Turn | None:
    """The solution that a Verifier's turn judges: the nearest graded one above it."""
    above: Turn | None = turn
    while above is not None and above.grade is None:
        above = None if above.parent_id is None else by_key.get((above.tree_id, above.parent_id))
    return above


def _digest(key: TurnKey) -> bytes:
    return hashlib.sha256("\n".join(key).encode()).digest()


def _labelled(turns: Iterable[Turn]) -> list[Turn]:
    # Sorted, since of equally frequent answers the first one counts.
    by_key = {(turn.tree_id, turn.id): turn for turn in sorted(turns, key=turn_key)}
    answers = {key: answer_key("math", t.text) for key, t in by_key.items() if t.grade is not None}
    votes = Counter(a for key, a in answers.items() if a is not None and by_key[key].parent_id is None)
    label = votes.most_common(1)[0][0] if votes else None
    graded = {
        key: replace(turn, grade=_label_grade(answers[key], label)) if key in answers else turn
        for key, turn in by_key.items()
    }
    judged = {key: _judged(turn, graded) for key, turn in graded.items() if turn.accepts is not None}
    verdicts = [bool(graded[key].accepts) for key, solution in judged.items() if _is_right(solution)]
    if label is None or (verdicts and 2 * sum(verdicts) <= len(verdicts)):
        return [replace(turn, reward=None) for turn in graded.values()]
    return [
        replace(turn, reward=_label_reward(turn, judged.get(key))) if turn.grade or key in judged else turn
        for key, turn in graded.items()
    ]


def _label_grade(answer: Hashable | None, label: Hashable | None) -> Grade:
    return Grade.correct() if answer is not None and answer == label else Grade.wrong("not the majority")


def _label_reward(turn: Turn, solution: Turn | None) -> float | None:
    """The score of a graded turn, or whether a verdict agrees with its solution's grade."""
    if turn.reward is None:
        return None
    if turn.grade is not None:
        return turn.grade.score
    return 0.0 if turn.info.get("malformed") else float(turn.accepts == _is_right(solution))


def _is_right(solution: Turn | None) -> bool:
    return solution is not None and solution.grade is not None and solution.grade.score == 1


def _example_tree() -> Group:
    """A tree of two answers, right and wrong, each with two continuations, for the examples in docstrings."""
    scores = {"0": 1.0, "1": 0.0, "0.0": 1.0, "0.1": 0.0, "1.0": 0.0, "1.1": 0.0}
    group = _example_group(scores)
    grades = {1.0: Grade.correct(), 0.0: Grade.wrong("")}
    return replace(
        group,
        turns=tuple(
            replace(
                turn,
                agent="solver_0" if turn.parent_id is None else "corrector_0",
                grade=grades[scores[turn.id]],
            )
            for turn in group.turns
        ),
    )
