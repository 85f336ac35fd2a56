"""Stored turns as data sets for other trainers: supervised examples, preference pairs, a flat table."""

import json
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

from mars_env.envs.game import Game
from mars_env.envs.visibility import next_state
from mars_env.errors import ConfigError
from mars_env.files import atomic_draft, writing
from mars_env.lazy import needs
from mars_env.rollout.records import tagged
from mars_env.types import Completion, Message, Observation, Tree, Turn, Verdict, role_of

PromptOf = Callable[[Turn, Observation], "str | list[Message] | None"]
"""The prompt of a turn, as a string or as messages; None leaves the turn out."""

Prompted = tuple[Turn, "str | list[Message]"]


def observed(tree: Tree, game: Game) -> Iterator[tuple[Turn, Observation]]:
    """The turns of a tree, each with its agent's observation: the rules replay the earlier turns."""
    states: dict[str | None, Any] = {None: game.rules.start(tree.problem)}
    for turn in tree.turns:
        state = states[turn.parent_id]
        yield turn, game.rules.observe(state, turn.agent)
        states[turn.id] = next_state(game.rules, game.visibility, state, turn)


def _is_good(turn: Turn, least: float) -> bool | None:
    """Its verdict if it was graded, otherwise whether its reward is high; None if nothing is known."""
    if turn.action.interrupted:
        return None
    if turn.grade is not None:
        unknown = turn.grade.verdict is Verdict.UNKNOWN
        return None if unknown else turn.grade.verdict is Verdict.CORRECT
    return None if turn.reward is None else turn.reward >= least


def prompted(
    trees: Iterable[Tree], game: Game, prompt_of: PromptOf, roles: Collection[str] | None = None
) -> Iterator[Prompted]:
    """The turns that a model sampled, each with the prompt that `prompt_of` makes; `roles`: only theirs."""
    all_roles = {role_of(agent) for agent in game.rules.possible_agents}
    if roles is not None and (unknown := sorted({*roles} - all_roles)):
        raise ConfigError(f"no agent has the role {unknown[0]!r}; there are {', '.join(sorted(all_roles))}")
    for tree in trees:
        for turn, observation in observed(tree, game):
            if (roles is None or turn.role in roles) and turn.action.completions:
                prompt = prompt_of(turn, observation)
                if prompt is not None:
                    yield turn, prompt


def sft_rows(turns: Iterable[Prompted], least: float = 1.0) -> Iterator[dict[str, Any]]:
    """One row for every right turn that was not cut off; without a grade, a reward of `least` is right."""
    for turn, prompt in turns:
        if _is_good(turn, least) and not turn.action.truncated:
            yield {"prompt": prompt, "completion": _answer(turn, prompt), **_origin(turn)}


def dpo_rows(turns: Iterable[Prompted], least: float = 1.0) -> Iterator[dict[str, Any]]:
    """Pairs of a right and a wrong turn of one role on the same prompt: ``prompt``, ``chosen``, ``rejected``.

    Each turn is in at most one pair; equal texts make no pair. `least` is as in `sft_rows`.
    """
    by_prompt: dict[tuple[str, str], tuple[Any, list[Turn], list[Turn]]] = {}
    for turn, prompt in turns:
        right = _is_good(turn, least)
        if right is None or (right and turn.action.truncated):
            continue
        _, good, bad = by_prompt.setdefault((turn.role, json.dumps(prompt)), (prompt, [], []))
        (good if right else bad).append(turn)
    for prompt, good, bad in by_prompt.values():
        for chosen, rejected in zip(good, bad, strict=False):
            texts = _answer(chosen, prompt), _answer(rejected, prompt)
            if texts[0] != texts[1]:
                yield {"prompt": prompt, "chosen": texts[0], "rejected": texts[1], **_origin(chosen)}


def turn_rows(trees: Iterable[Tree]) -> Iterator[dict[str, Any]]:
    """One row for every completion of every turn, and one for each turn without any: nothing is left out."""
    for tree in trees:
        for turn in tree.turns:
            for number, completion in enumerate(turn.action.completions or (Completion(""),)):
                yield _flat(tree, turn, number, completion)


def write_jsonl(rows: Iterable[dict[str, Any]], path: str | Path) -> int:
    """Write rows, one per line; returns their number. The file is either complete or not there.

    Lone surrogates, which a model can write but most readers reject, become question marks.
    """
    number = 0
    with writing(path), atomic_draft(Path(path)) as draft, draft.open("wb") as file:
        for number, row in enumerate(rows, 1):  # noqa: B007 (the last number is used below)
            line = json.dumps(row, ensure_ascii=False, allow_nan=False)
            file.write(line.encode("utf-8", "replace") + b"\n")
    return number


def write_parquet(rows: Iterable[dict[str, Any]], path: str | Path) -> int:
    """Write the rows of `turn_rows` as a Parquet file; returns their number. Needs pyarrow."""
    with needs("datasets", "Parquet files need pyarrow"):
        import pyarrow
        import pyarrow.parquet
    text, number, flag = pyarrow.string(), pyarrow.float64(), pyarrow.bool_()
    counts, values = pyarrow.list_(pyarrow.int64()), pyarrow.list_(pyarrow.float64())
    kinds = {
        **dict.fromkeys(("search_score", "score", "reward", "temperature", "seconds"), number),
        **dict.fromkeys(("final", "truncated"), flag),
        **dict.fromkeys(("prompt_ids", "token_ids", "versions", "version_tokens"), counts),
        "logprobs": values,
        "completion": pyarrow.int64(),
    }
    schema = pyarrow.schema([(name, kinds.get(name, text)) for name in _COLUMNS])
    table = pyarrow.Table.from_pylist([_clean(row) for row in rows], schema=schema)
    with writing(path), atomic_draft(Path(path)) as draft:
        pyarrow.parquet.write_table(table, draft)
    return int(table.num_rows)


_COLUMNS = (
    "tree", "turn", "parent", "group", "agent", "role", "policy", "problem", "statement", "final", "text",
    "verdict", "score", "reason", "search_score", "reward", "info", "seconds",
    "completion", "completion_text", "truncated", "finish_reason", "prompt_ids", "token_ids", "logprobs",
    "temperature", "versions", "version_tokens",
)  # fmt: skip


def _flat(tree: Tree, turn: Turn, number: int, completion: Completion) -> dict[str, Any]:
    grade = turn.grade
    values = (
        turn.tree_id, turn.id, turn.parent_id, turn.group_id, turn.agent, turn.role, turn.policy,
        turn.problem_id, tree.problem.statement, turn.id == tree.final, turn.text,
        None if grade is None else str(grade.verdict), None if grade is None else grade.score,
        None if grade is None else grade.reason, turn.search_score, turn.reward,
        json.dumps(tagged(turn.info), allow_nan=False), turn.seconds,
        number, completion.text, completion.cut, completion.finish_reason,
        list(completion.prompt_ids),
        list(completion.token_ids), list(completion.logprobs), completion.temperature,
        [version for version, _ in completion.versions], [tokens for _, tokens in completion.versions],
    )  # fmt: skip
    return dict(zip(_COLUMNS, values, strict=True))


def _clean(row: dict[str, Any]) -> dict[str, Any]:
    """The row without lone surrogates, which a model can write but Parquet cannot store."""
    return {
        name: value.encode(errors="replace").decode() if isinstance(value, str) else value
        for name, value in row.items()
    }


def _answer(turn: Turn, prompt: str | list[Message]) -> str | list[Message]:
    """What the model wrote, thinking included, in the same form as the prompt."""
    text = turn.action.completions[-1].text
    return text if isinstance(prompt, str) else [{"role": "assistant", "content": text}]


def _origin(turn: Turn) -> dict[str, Any]:
    return {"role": turn.role, "problem": turn.problem_id, "tree": turn.tree_id, "turn": turn.id}
