"""What a turn and a tree show: whether they are right, their tokens, which turn judged which."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

from mars_env.envs.visibility import SEARCH_UNKNOWN
from mars_env.errors import ConfigError
from mars_env.text import brief
from mars_env.types import Tree, Turn, Verdict

AnswerOf = Callable[[Turn], Hashable | None]
"""What a turn votes for in a majority vote; None where it holds no answer."""


def is_right(turn: Turn | None) -> bool | None:
    """Whether a turn was judged correct; None where there is none, without a grade or with an UNKNOWN one."""
    if turn is None or turn.grade is None or turn.grade.verdict is Verdict.UNKNOWN:
        return None
    return turn.grade.verdict is Verdict.CORRECT


def sampled_tokens(turn: Turn) -> int:
    """Tokens sampled in a turn, over all its completions."""
    return sum(c.sampled_tokens for c in turn.action.completions)


def prompt_tokens(turn: Turn) -> int:
    """Tokens that models read in a turn, over all its completions."""
    return sum(c.read_tokens for c in turn.action.completions)


def judged_turn(turn: Turn, by_id: Mapping[str, Turn]) -> Turn | None:
    """The nearest turn above that carries a grade: what a Verifier judges and a Corrector corrects."""
    parent = turn.parent_id
    while parent is not None:
        above = by_id[parent]
        if above.grade is not None:
            return above
        parent = above.parent_id
    return None


def judgements(tree: Tree) -> Iterator[tuple[Turn, bool, bool | None]]:
    """Each verdict of a Verifier: the turn, whether it accepts, and whether it should (None if unknown)."""
    by_id = {turn.id: turn for turn in tree.turns}
    for turn in tree.turns:
        if turn.accepts is not None and not turn.action.interrupted:
            yield turn, turn.accepts, is_right(judged_turn(turn, by_id))


def children_of(tree: Tree) -> dict[str | None, list[Turn]]:
    """The turns below each turn, by its id; under None the roots."""
    by_parent: dict[str | None, list[Turn]] = {}
    for turn in tree.turns:
        by_parent.setdefault(turn.parent_id, []).append(turn)
    return by_parent


def first_attempts(tree: Tree) -> list[Turn]:
    """The graded root turns: one in an episode, a group's worth in a grouped rollout."""
    return [t for t in tree.turns if t.parent_id is None and t.grade is not None]


def system_right(tree: Tree) -> bool | None:
    """Whether the team's answer is right; None where that is not known (a fault, an UNKNOWN grade).

    A finished episode without an answer is wrong. A rollout that branches and names no answer has no System.
    """
    if tree.fault:
        return None
    if tree.final is None:
        if any(_is_unknown(turn) for turn in tree.turns):
            return None
        parents = [t.parent_id for t in tree.turns]
        return False if len(set(parents)) == len(parents) else None
    return next((is_right(t) for t in tree.turns if t.id == tree.final), None)


def _is_unknown(turn: Turn) -> bool:
    grade = turn.grade is not None and turn.grade.verdict is Verdict.UNKNOWN
    return grade or bool(turn.action.interrupted) or bool(turn.info.get(SEARCH_UNKNOWN))


def rounds(tree: Tree) -> int:
    """Verifications in an episode; in a tree that branches, the most on one path."""
    counts: dict[str | None, int] = {None: 0}
    for turn in sorted(tree.turns, key=lambda turn: turn.id.count(".")):  # parents first
        counts[turn.id] = counts[turn.parent_id] + (turn.accepts is not None)
    return max(counts.values())


def by_problem(trees: Sequence[Tree]) -> dict[str, list[Tree]]:
    """The trees of each problem, in their order; a `ConfigError` if a tree or a problem is there twice."""
    groups: dict[str, list[Tree]] = {}
    if len(ids := Counter(tree.id for tree in trees)) < len(trees):
        twice = brief(ids.most_common(1)[0][0])
        raise ConfigError(f"the tree {twice} is there twice; pass each tree of a run once")
    for tree in trees:
        group = groups.setdefault(tree.problem.id, [])
        if group and group[0].problem.statement != tree.problem.statement:
            twice = brief(tree.problem.id)
            raise ConfigError(f"the id {twice} is that of two problems: evaluate their sets separately")
        group.append(tree)
    return groups


def final_answer(turn: Turn) -> Hashable | None:
    """What a turn votes for in mathematics: its final answer, as in a search (`mars_env.envs.selection`)."""
    from mars_env.envs.selection import answer_key  # brings a parser, which a report does not need

    return answer_key("math", turn.text)


def is_search(tree: Tree) -> bool:
    """Whether a search grew the tree: its turns carry the number of the call that made them."""
    return any("call" in turn.info for turn in tree.turns)


def known_verdicts(turns: Sequence[Turn]) -> list[bool]:
    """Whether each turn is right, of those whose grade is known."""
    return [right for turn in turns if (right := is_right(turn)) is not None]


def first_verdicts(tree: Tree) -> list[bool]:
    """Whether each first attempt is right, of those whose grade is known."""
    return known_verdicts(first_attempts(tree))


def any_right(tree: Tree) -> bool | None:
    """Pass@N: whether any node is right; None if nothing is known, or only an ungraded node may be."""
    right = known_verdicts(tree.turns)
    if any(right):
        return True
    return None if len(right) < len(tree.turns) or not right else False


def judging_tokens(tree: Tree) -> int:
    """Tokens that a verifier or a reward model sampled for the search: for its scores and its choice."""
    scores = sum(int(turn.info.get("search_tokens", 0)) for turn in tree.turns)
    return scores + int(tree.info.get("choice_tokens", 0))


def depth(tree: Tree) -> int:
    """Nodes on the longest path."""
    return max((turn.id.count(".") + 1 for turn in tree.turns), default=0)
