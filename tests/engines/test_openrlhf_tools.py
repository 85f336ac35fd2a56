"""Turns with calls of tools through OpenRLHF: real Ray, DeepSpeed and vLLM on a CPU, three updates."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import openrlhf_on_cpu
import pytest

from mars_env.trainers.batches import collate
from mars_env.trainers.config import TrainConfig
from mars_env.trainers.openrlhf.rollouts.record import SAMPLES
from mars_env.trainers.rollouts import read_lines
from mars_env.trainers.sample_files import sample_from_row
from mars_env.trainers.samples import turn_samples
from mars_env.types import Action, Completion, Group, Turn

pytest.importorskip("openrlhf")

VLLM_KL = 0.02  # as in test_openrlhf_training.py

FLAGS = {
    **openrlhf_on_cpu.STEADY,
    "--mars.env": "arithmetic-solve-verify-correct",
    "--mars.options": '{"schedule": "training"}',
    "--mars.problem_options": '{"split": "train", "seed": 0}',
    "--mars.agents": "calling_team:team",
    "--mars.problems": "6",
    "--mars.group": "8",
    "--mars.sampling": "balanced",
    "--rollout.batch_size": "2",
    "--rollout.micro_batch_size": "8",
    "--train.batch_size": "72",
    "--train.micro_batch_size": "8",
    "--actor.adam.lr": "1e-4",
}


@pytest.fixture(scope="module")
def run(checkpoint, tmp_path_factory):
    """Six problems, two at a time: steps by OpenRLHF's own logger, rows by the record."""
    folder = openrlhf_on_cpu.launched(tmp_path_factory.mktemp("tools"), checkpoint, FLAGS)
    steps = openrlhf_on_cpu.logged(folder / "board", "train")
    return SimpleNamespace(steps=steps, rows=read_lines(folder / "record" / SAMPLES))


def completions_of(sample):
    """The completions behind a row: one for each run of sampled tokens."""
    edges = np.flatnonzero(np.diff([0, *sample.completion_mask, 0])).reshape(-1, 2)
    ids = (*sample.prompt_ids, *sample.completion_ids)
    start = len(sample.prompt_ids)
    return tuple(
        Completion(
            "",
            prompt_ids=ids[: start + begin],
            token_ids=ids[start + begin : start + end],
            logprobs=sample.logprobs[begin:end],
            temperature=sample.temperature,
        )
        for begin, end in edges.tolist()
    )


def test_the_rows_are_those_of_the_local_trainer(run):
    """The record's rows, made again from completions and rewards as the local trainer makes them."""
    assert [*run.steps] == [1, 2, 3]
    rows = [{k: v for k, v in row.items() if k != "update"} for row in run.rows]
    samples = [sample_from_row(row) for row in rows]
    chains = [sample for sample in samples if 0 in sample.completion_mask]
    assert len(chains) > len(samples) / 4
    groups: dict[str, list[Turn]] = {}
    for s in samples:
        action = Action("", completions_of(s))
        turn = Turn(s.tree_id, s.turn_id, None, s.group_id, s.agent, s.policy, "", action, reward=s.reward)
        groups.setdefault(s.group_id, []).append(turn)
    made = turn_samples([Group(name, tuple(turns)) for name, turns in groups.items()], TrainConfig())
    own = {(s.tree_id, s.turn_id): s for s in made}
    assert len(own) == len(samples)
    for sample in samples:
        other = own[sample.tree_id, sample.turn_id]
        assert (sample.ids, sample.mask, sample.logprobs) == (other.ids, other.mask, other.logprobs)
        assert sample.advantage == pytest.approx(other.advantage)
        assert all(
            x == 0 for x, seen in zip(sample.logprobs, sample.completion_mask, strict=True) if not seen
        )
        assert sum(length for _, length in sample.versions) == sum(sample.completion_mask)
    assert int(collate(chains).mask.sum()) == sum(sum(sample.completion_mask) for sample in chains)


def test_openrlhf_trains_on_sampled_tokens_alone(run):
    rows = run.rows
    for number, figures in run.steps.items():
        mine = [row for row in rows if row["update"] == number]
        assert figures["rollout/num_samples"] == len(mine)
        lengths = [len(row["completion_ids"]) for row in mine]  # OpenRLHF counts what is between, too
        assert figures["response_length"] == pytest.approx(np.mean(lengths), rel=1e-5)
        advantages = [row["advantage"] for row in mine]
        assert figures["rollout/advantage_std"] == pytest.approx(np.std(advantages, ddof=1), rel=1e-5)
        assert abs(figures["vllm_kl"]) < VLLM_KL  # the trainer scores each token at its place
