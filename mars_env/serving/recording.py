"""Calls of programs as a stored run: trees of turns, each turn with its exact tokens."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from mars_env.agents.thinking import THINKING
from mars_env.gate import without_surrogates
from mars_env.rollout import Store, read_run
from mars_env.types import Action, Completion, Problem, Tree, Turn

RECORDED = "recorded"  # title of a recorded run, and source of the problems that it made up
_TREE = re.compile(r"(.+)#(\d{1,9})", re.A | re.S)


@dataclass(frozen=True, slots=True)
class Call:
    """One request: who asks (``"solver_0"``), of which weights, the whole conversation, the tree if named."""

    agent: str
    policy: str
    messages: Sequence[Mapping[str, Any]]
    tree: str | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """One choice of an answer, with its exact tokens; from the second on, ids end with ``:1``, ``:2`` ..."""

    completion: Completion
    message: Mapping[str, Any]
    id: str


class RecordedRun:
    """The run that calls are recorded into; one that exists already is continued.

    A call whose messages extend an earlier call's conversation (its messages and its reply) is a child of
    that turn. Any other is a root: of the tree that it names, on one of the `problems`, else of a new tree.
    Each turn is on disk when `add` returns. Advantages compare an agent's turns on the same ``"input"``, or
    all turns of one ``"agent"`` on a problem, as `group` says.
    """

    def __init__(
        self,
        path: str | Path,
        must_match: Mapping[str, Any],
        problems: Sequence[Problem] = (),
        group: Literal["input", "agent"] = "input",
    ) -> None:
        self._group = group
        self._store = Store(path, {"title": RECORDED, "group": group, **must_match}, problems)
        self._samples: Counter[str] = Counter()
        self._children: Counter[tuple[str, str | None]] = Counter()
        self._ends: dict[tuple[str, str], tuple[str, str]] = {}
        self.turns = 0
        for tree in read_run(path).trees:
            self._note_tree(tree.id)
            for turn in tree.turns:
                self._note(turn)

    def close(self) -> None:
        """Close the files."""
        self._store.close()

    def add(self, call: Call, replies: Sequence[Reply], seconds: float = 0.0) -> list[Turn]:
        """Store the turns of a call, which has messages, one for each choice."""
        named, prefixes = _tree_id(call.tree), digests(call.messages)
        parent, length = self._extended(named, prefixes)
        tree, parent_id = parent or (self._tree(named, call, prefixes[-1]), None)
        problem = tree.rpartition("#")[0]
        turns: list[Turn] = []
        for reply in replies:
            place = self._children[tree, parent_id]
            messages = [dict(message) for message in call.messages[length:]]
            info = {"id": reply.id, "number": self.turns, "messages": messages, "digest": prefixes[-1]}
            if reply.message.get("tool_calls"):
                info["tool_calls"] = reply.message["tool_calls"]
            turn = Turn(
                tree_id=tree,
                id=f"{place}" if parent_id is None else f"{parent_id}.{place}",
                parent_id=parent_id,
                group_id=f"{problem}/{call.agent}" + (f"/{prefixes[-1]}" if self._group == "input" else ""),
                agent=call.agent,
                policy=call.policy,
                problem_id=problem,
                action=Action(text_of_content(reply.message.get("content")), (reply.completion,)),
                info=info,
                seconds=seconds,
            )
            turns.append(turn)
            self._note(turn)
        self._store.write_turns(turns)
        return turns

    def _extended(self, tree: str, prefixes: Sequence[str]) -> tuple[tuple[str, str] | None, int]:
        """The turn whose conversation is continued (the longest of several), and its length."""
        for length in range(len(prefixes), 0, -1):
            end = self._ends.get((tree, prefixes[length - 1]))
            if end is not None:
                return end, length
        return None, 0

    def _tree(self, named: str, call: Call, digest: str) -> str:
        """The tree of a root: the one that is named, or a new one; made where it is new."""
        problem = named.rpartition("#")[0] or f"{RECORDED}/{digest}"
        tree = named or f"{problem}#{self._samples[problem]}"
        if tree in self._store.finished:
            return tree
        texts = (text_of_content(m.get("content")) for m in call.messages if m.get("role") == "user")
        question = Problem(problem, next(texts, ""), None, metadata={"source": RECORDED})
        self._store.write_problems([question])
        # Before its turns: whoever reads the run finds them, whenever this process ends.
        self._store.write_tree(Tree(tree, question, ()), {})
        self._note_tree(tree)
        return tree

    def _note_tree(self, tree: str) -> None:
        problem, _, number = tree.rpartition("#")
        self._samples[problem] = max(self._samples[problem], int(number) + 1)

    def _note(self, turn: Turn) -> None:
        self._children[turn.tree_id, turn.parent_id] += 1
        self.turns = max(self.turns, int(turn.info.get("number", -1)) + 1)
        for text in {turn.text, THINKING.visible(turn.text)}:  # programs send a reply back with or without
            reply = {"role": "assistant", "content": text, "tool_calls": turn.info.get("tool_calls")}
            [end] = digests([reply], str(turn.info.get("digest", "")))
            self._ends["", end] = self._ends[turn.tree_id, end] = (turn.tree_id, turn.id)


def _tree_id(name: str | None) -> str:
    if not name:
        return ""
    return name if _TREE.fullmatch(name) else f"{name}#0"


def digests(messages: Sequence[Mapping[str, Any]], start: str = "") -> list[str]:
    """A digest for each prefix of a conversation, after one with the digest `start`; the shortest first.

    Fields that clients add or leave out (refusal, annotations, reasoning, an empty content) do not count.
    """
    prefixes = []
    for message in messages:
        text = f"{start}{_canonical(message)}"
        start = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        prefixes.append(start)
    return prefixes


def text_of_content(content: Any) -> str:
    """The text of a message's content or of its parts."""
    if isinstance(content, list):
        content = "".join(map(_text_of, content))
    return without_surrogates(content) if isinstance(content, str) else ""


def _text_of(item: Any) -> str:
    if isinstance(item, Mapping) and isinstance(item.get("text"), str):
        return str(item["text"])
    return json.dumps(item, sort_keys=True)  # a picture, say: it counts, and is never read


def _canonical(message: Any) -> str:
    if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
        raise ValueError("a message is an object with a role")
    calls = message.get("tool_calls") or []
    if not isinstance(calls, list):
        raise ValueError("tool_calls is a list")
    role = "system" if message["role"] == "developer" else message["role"]
    text = text_of_content(message.get("content")).strip()
    return json.dumps([role, text, [_call(call) for call in calls], message.get("tool_call_id")])


def _call(call: Any) -> list[Any]:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping):
        return [json.dumps(call, sort_keys=True)]
    return [call.get("id"), function.get("name"), function.get("arguments")]
