"""Records the episode that README shows, into docs/pictures/episode.json.

Plays `examples/demo.py` with its own settings (seed 0, 30 steps, 1,000 held-out problems), and takes the
trained team's first episode, in the order of the problems, in which every agent does its part: the Solver is
wrong, the Verifier says so, the Corrector repairs it, and the Verifier accepts.
"""

import asyncio
import json
import sys
from pathlib import Path

import torch

from mars_env import Verdict
from mars_env.files import write_atomically

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "examples"))


def whole(tree):
    """Whether every agent does its part in an episode of four turns."""
    if [turn.role for turn in tree.turns] != ["solver", "verifier", "corrector", "verifier"]:
        return False
    solution, _, correction, last = tree.turns
    return (
        solution.grade.verdict is Verdict.WRONG
        and correction.grade.verdict is Verdict.CORRECT
        and last.info["verdict"] == "Correct"
        and tree.final == correction.id
    )


def as_row(turn):
    return {
        "agent": turn.agent,
        "text": turn.text,
        "truncated": turn.action.truncated,
        "grade": turn.grade.verdict.value if turn.grade else None,
        "verdict": turn.info.get("verdict"),
        "reward": turn.reward,
        "tokens": sum(completion.sampled_tokens for completion in turn.action.completions),
    }


def record(trees):
    """The first whole episode as plain data, and how many there are."""
    found = [tree for tree in trees if whole(tree)]
    tree = found[0]
    problem = {name: getattr(tree.problem, name) for name in ("id", "statement", "reference")}
    turns = [as_row(turn) for turn in tree.turns]
    return {"command": "python examples/demo.py --seed 0", "problem": problem, "turns": turns}, len(found)


if __name__ == "__main__":
    import demo

    torch.set_num_threads(1)
    _, _, after = asyncio.run(demo.play(0))
    episode, count = record(after)
    write_atomically(ROOT / "docs" / "pictures" / "episode.json", json.dumps(episode, indent=1) + "\n")
    sys.stdout.write(f"{count} of {len(after)} episodes are of this kind\n")
