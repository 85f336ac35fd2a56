"""MarsRL through OpenRLHF, on a CPU: real Ray, DeepSpeed and vLLM, OpenRLHF's own command line.

Three launches prove many lines each, since a launch takes most of a minute.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import openrlhf_on_cpu
import pytest

from mars_env.trainers.openrlhf.rollouts.record import SAMPLES, UPDATES
from mars_env.trainers.rollouts import read_lines

pytest.importorskip("openrlhf")

PATIENCE = 420
HELPERS = str(Path(openrlhf_on_cpu.__file__).parent)

VLLM_KL = 0.02
"""Largest mean difference of a log-probability between engine and trainer that an update may show where both
have the same weights: they compute in bfloat16, in different orders."""

STALE_KL = 0.1
"""The same for an update of samples up to two versions old: it holds what was learned since, too."""

FLAGS = {
    **openrlhf_on_cpu.STEADY,
    "--mars.env": "arithmetic-solve-verify-correct",
    "--mars.options": '{"schedule": "training"}',
    "--mars.problem_options": '{"split": "train", "seed": 0}',
    "--mars.agents": "mars_env.miniature.agents:team",
    "--mars.group": "8",
    "--mars.sampling": "balanced",
    "--rollout.micro_batch_size": "8",
    "--train.batch_size": "96",
    "--train.micro_batch_size": "8",
    "--actor.adam.lr": "1e-4",
}
ASYNCHRONOUS = {
    "--mars.problems": "12",
    "--mars.staleness": "2",
    "--mars.groups_per_update": "10",
    "--mars.concurrency": "1",  # so that something is often under way when new weights come
    "--rollout.batch_size": "4",
    "--ckpt.save_steps": "1",
    "--ckpt.save_hf": None,
    "--train.async_enable": None,
}
RESUMED = {**ASYNCHRONOUS, "--ckpt.load_enable": None, "--train.partial_rollout_enable": None}


@pytest.fixture(scope="module")
def cluster():
    """A Ray for the launches."""
    with openrlhf_on_cpu.ray_on_cpus() as env:
        yield env


class Launch:
    """A run of the launcher."""

    def __init__(self, env, folder, checkpoint, flags):
        self.folder, self.log = folder, folder / f"log-{time.monotonic_ns()}.txt"
        self.board = folder / f"board-{time.monotonic_ns()}"
        own = {
            "--actor.model_name_or_path": checkpoint,
            "--ckpt.path": folder / "checkpoints",
            "--ckpt.output_dir": folder / "model",
            "--mars.record": folder / "record",
            "--logger.tensorboard_dir": self.board,
        }
        command = openrlhf_on_cpu.command({**FLAGS, **own, **flags})
        with self.log.open("w") as log:
            self.process = subprocess.Popen(command, env=env, stdout=log, stderr=log, cwd=folder)

    def end(self):
        """Wait for its end, which must be a good one."""
        try:
            code = self.process.wait(PATIENCE)
        finally:
            self.process.kill()
        assert code == 0, self.log.read_text()[-5000:]

    def steps(self):
        """Its own; one that was killed may not have written the last metrics of its last step."""
        return openrlhf_on_cpu.logged(self.board, "train")

    def evaluations(self):
        return openrlhf_on_cpu.logged(self.board, "eval")

    def updates(self):
        return read_lines(self.folder / "record" / UPDATES)

    def samples(self):
        return read_lines(self.folder / "record" / SAMPLES)

    def checkpoint_step(self):
        return openrlhf_on_cpu.checkpoint_step(self.folder / "checkpoints")


@pytest.fixture(scope="module")
def synchronous(cluster, checkpoint, tmp_path_factory):
    """Two passes over six problems, four at a time, on two engines and two ranks; evaluated once."""
    flags = {
        "--actor.num_gpus_per_node": "2",
        "--vllm.num_engines": "2",
        "--mars.problems": "6",
        "--train.num_episodes": "2",
        "--rollout.batch_size": "4",
        "--mars.eval_problems": "8",
        "--mars.eval_problem_options": '{"split": "test", "seed": 0}',
        "--mars.eval_options": '{"rounds": 1}',
        "--eval.steps": "3",
        "--eval.n_samples_per_prompt": "1",
        "--eval.temperature": "1.0",
        "--train.batch_size": "48",
        "--train.max_epochs": "2",
    }
    run = Launch(cluster, tmp_path_factory.mktemp("synchronous"), checkpoint, flags)
    run.end()
    return run


@pytest.fixture(scope="module")
def asynchronous(cluster, checkpoint, tmp_path_factory):
    """Killed after two steps; resumed, with partial rollouts from there on."""
    folder = tmp_path_factory.mktemp("asynchronous")
    killed = Launch(cluster, folder, checkpoint, ASYNCHRONOUS)
    deadline = time.monotonic() + PATIENCE
    while killed.checkpoint_step() < 2 and killed.process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.1)
    assert killed.process.poll() is None, killed.log.read_text()[-5000:]
    killed.process.send_signal(signal.SIGKILL)
    killed.process.wait()
    time.sleep(3)  # until Ray has ended the actors of the lost driver
    killed.began_with = killed.checkpoint_step()
    killed.before = {row["update"]: row for row in killed.updates()}
    resumed = Launch(cluster, folder, checkpoint, RESUMED)
    resumed.end()
    return killed, resumed


def test_the_advantages_of_the_run_are_those_of_its_groups(synchronous):
    from mars_env.trainers.config import TrainConfig, estimator_of
    from mars_env.types import Action, Group, Turn

    groups = {}
    for row in synchronous.samples():
        groups.setdefault(row["group_id"], []).append(row)
    assert len(groups) > 4
    for name, rows in groups.items():
        turns = tuple(
            Turn(r["tree_id"], r["turn_id"], None, name, r["agent"], "", "", Action(""), reward=r["reward"])
            for r in rows
        )
        expected = estimator_of(TrainConfig())([Group(name, turns)])
        assert [r["advantage"] for r in rows] == pytest.approx(list(expected.values()))


def test_openrlhf_trains_on_these_advantages_and_on_nothing_else(synchronous):
    import numpy as np

    steps, rows = synchronous.steps(), synchronous.samples()
    assert [*steps] == [1, 2, 3] == [row["update"] for row in synchronous.updates()]
    for number, figures in steps.items():
        advantages = [row["advantage"] for row in rows if row["update"] == number]
        assert figures["rollout/num_samples"] == len(advantages)
        assert figures["rollout/advantage_std"] == pytest.approx(np.std(advantages, ddof=1), rel=1e-5)
        lengths = [len(row["completion_ids"]) for row in rows if row["update"] == number]
        assert figures["response_length"] == pytest.approx(np.mean(lengths), rel=1e-5)
        assert all(np.isfinite(value) for value in figures.values())
        assert abs(figures["vllm_kl"]) < VLLM_KL


def test_every_problem_is_played_once_in_each_pass(synchronous):
    trees = [tree for row in synchronous.updates() for tree in row["trees"]]
    assert len(trees) == len(set(trees)) == 12
    assert {tree.rpartition("#")[2] for tree in trees} == {"0", "1"}


def test_without_staleness_all_tokens_are_of_the_present_policy(synchronous):
    for row in synchronous.samples():
        assert row["versions"] == [[row["update"] - 1, len(row["completion_ids"])]]


def test_the_team_s_figures_reach_tensorboard(synchronous):
    assert {
        "team/solver/reward", "team/verifier/reward", "team/groups/kept", "team/groups/unknown",
        "team/verifier/precision", "team/verifier/recall", "pipeline/idle_share", "pipeline/oldest",
        "vllm_kl",
    } <= {tag for figures in synchronous.steps().values() for tag in figures}  # fmt: skip
    [(step, figures)] = synchronous.evaluations().items()
    assert step == 3
    assert figures["eval_system_accuracy"] == figures["eval_arithmetic_pass1"]
    assert {8 * figures["eval_system_accuracy"], 8 * figures["eval_solver_accuracy"]} <= set(range(9))


def test_the_schedule_holds_for_updates_of_any_size(synchronous):
    """Four problems make up to 144 rows, three optimizer steps an epoch; fewer rows make fewer of them."""
    for figures in synchronous.steps().values():
        rows = figures["rollout/num_samples"] + figures["rollout/padding"]
        assert rows % 16 == 0  # two ranks of micro-batches of 8
        assert figures["rollout/padding"] < 16 * -(-rows // 48)


def test_a_killed_run_goes_on_where_its_checkpoint_was(asynchronous):
    killed, resumed = asynchronous
    assert killed.began_with >= 2
    assert min(resumed.steps()) == killed.began_with + 1
    rows = resumed.updates()
    assert [row["update"] for row in rows] == [*range(1, len(rows) + 1)]
    kept = [row for row in rows if row["update"] in killed.before][: killed.began_with]
    assert kept == [killed.before[row["update"]] for row in kept]


def test_an_update_of_any_size_is_one_optimizer_step(asynchronous):
    import torch

    _, resumed = asynchronous
    assert max(row["samples"] for row in resumed.updates()) <= 96
    for folder in (resumed.folder / "checkpoints" / "_actor").glob("global_step*"):
        # DeepSpeed's own file, of this test's own run
        states = torch.load(folder / "mp_rank_00_model_states.pt", weights_only=False)
        assert states["global_steps"] == states["global_step"] == int(folder.name.removeprefix("global_step"))


def test_no_group_is_trained_twice_and_no_tree_is_lost(asynchronous):
    _, resumed = asynchronous
    groups = [group for row in resumed.updates() for group in row["groups"]]
    trees = {group.rpartition("/")[0] for group in groups}
    assert len(groups) == len(set(groups))
    assert len(trees) == 12
    assert {tree for row in resumed.updates() for tree in row["trees"]} <= trees


def test_nothing_older_than_the_bound_is_trained(asynchronous):
    _, resumed = asynchronous
    updates = {row["update"]: row for row in resumed.updates()}
    ages = [age for row in updates.values() for age in row["ages"]]
    assert max(ages) in (1, 2)
    for row in resumed.samples():
        present = updates[row["update"]]["versions"]["actor"]
        assert all(present - 2 <= version <= present for version, _ in row["versions"])
        assert sum(length for _, length in row["versions"]) == len(row["completion_ids"])


def test_requests_under_way_end_first_unless_rollouts_are_partial(asynchronous):
    """Whether any is under way when weights come is chance here; test_openrlhf_actors.py makes sure of it."""
    killed, resumed = asynchronous
    mixed = Counter(row["update"] for row in resumed.samples() if len(row["versions"]) > 1)
    assert all(update > killed.began_with for update in mixed)
    for step, figures in resumed.steps().items():
        assert figures["pipeline/mixed"] >= mixed[step]  # it counts what has no advantage, too


def test_behaviour_log_probabilities_belong_to_the_version_that_sampled(asynchronous, checkpoint):
    """Each token is scored by the checkpoint of its version, and by the one before and after."""
    import numpy as np

    from mars_env.models.hf import HFModel

    _, resumed = asynchronous
    weights = {0: checkpoint}
    for step in range(1, len(resumed.updates()) + 1):
        path = resumed.folder / "checkpoints" / f"global_step{step}_hf"
        if path.exists():
            weights[step] = path
    models = {step: HFModel(path) for step, path in weights.items()}
    own, other = [], []
    for row in resumed.samples():
        place = 0
        for version, length in row["versions"]:
            told = np.array(row["logprobs"][place : place + length])
            for shift, gaps in ((0, own), (1, other)):
                if version not in models or version + shift not in models:
                    continue
                scored = models[version + shift].logprobs(
                    tuple(row["prompt_ids"]), tuple(row["completion_ids"]), 1.0
                )
                gaps.append(np.abs(told - np.array(scored[place : place + length])).mean())
            place += length
    gaps = f"own {np.mean(own):.4f}, other {np.mean(other):.4f}, {len(own)} and {len(other)}"
    assert np.mean(own) < VLLM_KL, gaps
    assert np.mean(own) < np.mean(other) / 2, gaps


def test_the_divergence_between_engine_and_trainer_stays_small(asynchronous):
    _, resumed = asynchronous
    for step, figures in resumed.steps().items():
        limit = STALE_KL if figures["pipeline/oldest"] else VLLM_KL
        assert abs(figures["vllm_kl"]) < limit, (step, figures["vllm_kl"])


def test_the_saved_model_is_the_newest_checkpoint_and_evaluates(asynchronous):
    from transformers import AutoModelForCausalLM

    _, resumed = asynchronous
    model = resumed.folder / "model"
    last = resumed.folder / "checkpoints" / f"global_step{max(resumed.steps())}_hf"
    saved, newest = map(openrlhf_on_cpu.weights, (model, last))
    assert saved.keys() == newest.keys()
    assert all(saved[name].equal(newest[name]) for name in saved)
    loaded = AutoModelForCausalLM.from_pretrained(model, dtype="auto")
    assert {name: tuple(p.shape) for name, p in loaded.state_dict().items()} == {
        name: tuple(tensor.shape) for name, tensor in saved.items()
    }


@pytest.mark.parametrize("engine", ["hf", "vllm"])
def test_the_saved_model_evaluates_by_the_command_line(synchronous, engine):
    """Its agents are those of the miniature, on a model of either engine."""
    agents = f"miniature_from_disk:{engine}_team"
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([HELPERS, os.environ.get("PYTHONPATH", "")]),
        "MINIATURE": str(synchronous.folder / "model"),
    }
    report = subprocess.run(
        [
            Path(sys.executable).with_name("mars-env"), "evaluate", "arithmetic-solve-verify-correct",
            "--agents", agents, "--limit", "8", "--set", "rounds=1", "--json",
        ],
        env=env, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert report.returncode == 0, report.stderr[-3000:]
    told = report.stdout[report.stdout.index("{\n") :]  # vLLM says something before and after
    assert json.JSONDecoder().raw_decode(told)[0]["counts"]["episodes"] == 8


def test_a_run_for_which_ray_would_wait_for_ever_ends_with_a_sentence(cluster, checkpoint, tmp_path):
    many = {"--actor.num_gpus_per_node": 64, "--train.batch_size": 512}
    launched = Launch(cluster, tmp_path, checkpoint, many)
    try:
        assert launched.process.wait(PATIENCE) == 1
    finally:
        launched.process.kill()
    log = launched.log.read_text()
    assert "error: the run needs 65 GPUs, but Ray has 4: see --dry-run" in log
    assert "Traceback" not in log
