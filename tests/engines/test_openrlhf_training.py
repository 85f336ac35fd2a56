"""MarsRL through OpenRLHF, on a CPU: real Ray, DeepSpeed and vLLM, OpenRLHF's own command line.

Three launches prove many lines each, since a launch takes most of a minute.
"""

import signal
import subprocess
import time
from collections import Counter
from types import SimpleNamespace

import numpy as np
import openrlhf_on_cpu
import pytest
from openrlhf_on_cpu import samples, updates

from mars_env import load_problems
from mars_env.rollout.groups import step_jobs
from mars_env.trainers.batches import collate
from mars_env.trainers.config import TrainConfig
from mars_env.trainers.sample_files import sample_from_row
from mars_env.trainers.samples import turn_samples
from mars_env.types import Action, Completion, Group, Turn

PATIENCE = 420

VLLM_KL = 0.02
"""Largest mean difference of a log-probability between engine and trainer that an update may show where both
have the same weights: they compute in bfloat16, in different orders."""


ENV = "arithmetic-solve-verify-correct"
SETTINGS = {
    **openrlhf_on_cpu.MINIATURE,
    "environment.problem_options": {"split": "train", "seed": 0},
    "team.agents": "mars_env.miniature.agents:team",
    "problems_per_step": 4,
    "rollouts.sampling": "balanced",
    "train.learning_rate": 1e-4,
    "openrlhf.rollout.micro_batch_size": 8,
    "openrlhf.train.micro_batch_size": 8,
}
SYNCHRONOUS = {
    "team.agents": "calling_team:team",  # whose turns call tools
    "openrlhf.actor.num_gpus_per_node": 2,
    "openrlhf.vllm.num_engines": 2,
    "environment.limit": 6,
    "steps": 3,
    "evaluation.every": 3,
    "evaluation.limit": 8,
    "evaluation.problem_options": {"split": "test", "seed": 0},
    "evaluation.settings": {"rounds": 1},
    "train.minibatches": 6,
    "train.epochs": 2,
}
ASYNCHRONOUS = {
    "environment.limit": 12,
    "steps": 6,
    "checkpoint_every": 1,
    "pipeline.staleness": 2,
    "pipeline.groups_per_update": 10,
    "pipeline.concurrency": 1,  # so that something is often under way when new weights come
    "openrlhf.ckpt.save_hf": True,
}
RESUMED = {**ASYNCHRONOUS, "openrlhf.train.partial_rollout_enable": True}


def steps(folder):
    """The metrics of a run's updates."""
    return openrlhf_on_cpu.logged(folder)


@pytest.fixture(scope="module")
def synchronous(cluster, checkpoint, tmp_path_factory):
    """Three updates of four of six problems, on two engines and two ranks; evaluated once."""
    settings = {**SETTINGS, **SYNCHRONOUS, "team.model": str(checkpoint)}
    return openrlhf_on_cpu.launched(tmp_path_factory.mktemp("synchronous"), cluster, ENV, settings)


@pytest.fixture(scope="module")
def asynchronous(cluster, checkpoint, tmp_path_factory):
    """What a run had done that was killed after two steps, and the folder of both.

    It is resumed, with partial rollouts from there on.
    """
    folder = tmp_path_factory.mktemp("asynchronous")
    settings = {**SETTINGS, **openrlhf_on_cpu.folders(folder), "team.model": str(checkpoint)}
    command = openrlhf_on_cpu.command(ENV, {**settings, **ASYNCHRONOUS})
    log, deadline = folder / "killed.txt", time.monotonic() + PATIENCE
    with log.open("w") as out:
        process = subprocess.Popen(command, env=cluster, stdout=out, stderr=out, cwd=folder)
    while (
        openrlhf_on_cpu.checkpoint_step(folder / "checkpoints") < 2
        and process.poll() is None
        and time.monotonic() < deadline
    ):
        time.sleep(0.1)
    assert process.poll() is None, log.read_text()[-5000:]
    process.send_signal(signal.SIGKILL)
    process.wait()
    time.sleep(3)  # until Ray has ended the actors of the lost driver
    killed = SimpleNamespace(
        step=openrlhf_on_cpu.checkpoint_step(folder / "checkpoints"),
        updates={row["update"]: row for row in updates(folder)},
    )
    return killed, openrlhf_on_cpu.launched(folder, cluster, ENV, {**settings, **RESUMED})


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


def test_the_rows_are_those_of_the_local_trainer(synchronous):
    """The record's rows, made again from completions and rewards as the local trainer makes them."""
    rows = [{k: v for k, v in row.items() if k != "update"} for row in samples(synchronous)]
    trained = [sample_from_row(row) for row in rows]
    chains = [sample for sample in trained if 0 in sample.completion_mask]
    assert len(chains) > len(trained) / 4
    groups: dict[str, list[Turn]] = {}
    for s in trained:
        action = Action("", completions_of(s))
        turn = Turn(s.tree_id, s.turn_id, None, s.group_id, s.agent, s.policy, "", action, reward=s.reward)
        groups.setdefault(s.group_id, []).append(turn)
    assert len(groups) > 4
    made = turn_samples([Group(name, tuple(turns)) for name, turns in groups.items()], TrainConfig())
    own = {(s.tree_id, s.turn_id): s for s in made}
    assert len(own) == len(trained)
    for sample in trained:
        other = own[sample.tree_id, sample.turn_id]
        for name in ("ids", "completion_mask", "logprobs"):
            assert getattr(sample, name) == getattr(other, name)
        assert sample.advantage == pytest.approx(other.advantage)
    assert int(collate(chains).mask.sum()) == sum(sum(sample.completion_mask) for sample in chains)


def test_openrlhf_trains_on_these_rows_and_on_nothing_else(synchronous):
    found, rows = steps(synchronous), samples(synchronous)
    assert [*found] == [1, 2, 3] == [row["update"] for row in updates(synchronous)]
    for number, figures in found.items():
        mine = [row for row in rows if row["update"] == number]
        assert figures["samples"] == len(mine)
        deviation = np.std([row["advantage"] for row in mine], ddof=1)
        assert figures["advantage_std"] == pytest.approx(deviation, rel=1e-5)
        lengths = [len(row["completion_ids"]) for row in mine]  # OpenRLHF counts what a tool gave, too
        assert figures["response_length"] == pytest.approx(np.mean(lengths), rel=1e-5)
        assert all(np.isfinite(value) for value in figures.values())
        assert abs(figures["vllm_kl"]) < VLLM_KL  # the trainer scores each token at its place


def test_the_problems_of_a_step_are_those_that_the_local_trainer_draws(synchronous):
    drawn = load_problems("arithmetic", split="train", seed=0)[:6]
    for row in updates(synchronous):
        jobs = step_jobs(drawn, step=row["update"] - 1, problems_per_step=4, seed=0)
        assert sorted(row["trees"]) == sorted(job.tree_id for job in jobs)


def test_the_metrics_are_those_of_the_local_trainer(synchronous):
    found = steps(synchronous)
    for figures in found.values():
        assert {
            "role/solver/reward", "advantages/kept", "seconds/waited", "seconds/update", "pipeline/oldest",
            "loss", "grad_norm", "learning_rate", "weights_read",
        } <= figures.keys()  # fmt: skip
    assert [step for step, figures in found.items() if "eval_system_accuracy" in figures] == [3]
    for accuracy in (found[3]["eval_system_accuracy"], found[3]["eval_solver_accuracy"]):
        # Of the 8 answers, those that are UNKNOWN do not count: a tool that a busy machine could not run.
        assert any(abs(known * accuracy - round(known * accuracy)) < 1e-5 for known in range(1, 9))


def test_the_schedule_holds_for_updates_of_any_size(synchronous):
    """Four problems make up to 288 rows, six optimizer steps an epoch; fewer rows make fewer of them."""
    for figures in steps(synchronous).values():
        rows = figures["samples"] + figures["padding"]
        assert rows % 16 == 0  # two ranks of micro-batches of 8
        assert figures["padding"] < 16 * -(-rows // 48)


def test_a_killed_run_goes_on_where_its_checkpoint_was(asynchronous):
    killed, folder = asynchronous
    assert killed.step >= 2
    rows = updates(folder)
    assert [row["update"] for row in rows] == [*steps(folder)] == [*range(1, len(rows) + 1)]
    kept = [row for row in rows if row["update"] in killed.updates][: killed.step]
    assert kept == [killed.updates[row["update"]] for row in kept]


def test_an_update_of_any_size_is_one_optimizer_step(asynchronous):
    import torch

    _, folder = asynchronous
    assert max(Counter(row["update"] for row in samples(folder)).values()) <= 96
    for saved in (folder / "checkpoints" / "_actor").glob("global_step*"):
        # DeepSpeed's own file, of this test's own run
        states = torch.load(saved / "mp_rank_00_model_states.pt", weights_only=False)
        assert states["global_steps"] == states["global_step"] == int(saved.name.removeprefix("global_step"))


def test_no_group_is_trained_twice(asynchronous):
    _, folder = asynchronous
    groups = [group for row in updates(folder) for group in row["groups"]]
    trees = {group.rpartition("/")[0] for group in groups}
    assert len(groups) == len(set(groups))
    assert {tree for row in updates(folder) for tree in row["trees"]} <= trees


def test_nothing_older_than_the_bound_is_trained(asynchronous):
    _, folder = asynchronous
    assert max(figures["pipeline/oldest"] for figures in steps(folder).values()) in (1, 2)
    for row in samples(folder):
        present = row["update"] - 1
        assert all(present - 2 <= version <= present for version, _ in row["versions"])
        assert sum(length for _, length in row["versions"]) == len(row["completion_ids"])


def test_behaviour_log_probabilities_belong_to_the_version_that_sampled(asynchronous, checkpoint):
    """Each token is scored by the checkpoint of its version, and by the next one."""
    from mars_env.models.hf import HFModel

    _, folder = asynchronous
    saved = {
        int(path.name[len("global_step") : -len("_hf")]): path for path in folder.glob("checkpoints/*_hf")
    }
    models = {step: HFModel(path) for step, path in {0: checkpoint, **saved}.items()}
    own, other = [], []
    for row in samples(folder):
        place = 0
        for version, length in row["versions"]:
            part = slice(place, place + length)
            for shift, gaps in ((0, own), (1, other)):
                if version in models and version + shift in models:
                    scored = models[version + shift].logprobs(
                        tuple(row["prompt_ids"]), tuple(row["completion_ids"]), 1.0
                    )
                    gaps.append(np.abs(np.subtract(row["logprobs"][part], scored[part])).mean())
            place += length
    gaps = f"own {np.mean(own):.4f}, other {np.mean(other):.4f}, {len(own)} and {len(other)}"
    assert np.mean(own) < VLLM_KL, gaps
    assert np.mean(own) < np.mean(other) / 2, gaps
