"""`mars-env train --engine vllm` on the miniature: refreshed in memory and probed."""

import asyncio
from statistics import fmean

import pytest
from messages import raises
from real_engines import shaken
from typer.testing import CliRunner

from mars_env.cli import app
from mars_env.errors import ModelError
from mars_env.loggers import read_jsonl
from mars_env.trainers import Policy, samplers
from mars_env.trainers.samplers import Samplers, probe_ids

SETTINGS = """
steps = {steps}
problems_per_step = {problems}

[rollouts]
group = 8
branches = 2
sampling = "balanced"

[train]
learning_rate = 3e-4
warmup_updates = 5
betas = [0.9, 0.98]
uniform_groups = "drop"
"""


def trained(folder, checkpoint, *more, steps=8, problems=8):
    """The rows of metrics of a training by the command line."""
    settings = folder / "run.toml"
    settings.write_text(SETTINGS.format(steps=steps, problems=problems), encoding="utf-8")
    call = [
        "train", "arithmetic-solve-verify-correct", "--config", settings, "--model", checkpoint,
        "--team", "mars_env.miniature.agents:team", "--engine", "vllm?eager=true",
        "--out", folder / "run", *more,
    ]  # fmt: skip
    result = CliRunner().invoke(app, list(map(str, call)))
    if result.exception is not None:
        raise result.exception
    return read_jsonl(folder / "run/metrics.jsonl")


def test_a_whole_training_learns_from_what_vllm_samples(checkpoint, tmp_path, tolerance):
    rows = trained(tmp_path, checkpoint)
    assert [row["step"] for row in rows] == list(range(1, 9))
    verifier = [row["role/verifier/reward"] for row in rows]  # whose learning shows first
    assert fmean(verifier[-3:]) > fmean(verifier[:2]) + 0.15
    assert all(0 <= row["policy/policy/probe_gap"] < tolerance for row in rows)
    assert all(row["policy/policy/rollout_gap"] < tolerance for row in rows)


def test_adapters_of_a_team_share_an_engine_and_a_run_is_taken_up(checkpoint, tmp_path, tolerance):
    pytest.importorskip("peft")
    more = ["--lora", 4, "--checkpoint-every", 1]
    trained(tmp_path, checkpoint, *more, steps=1, problems=2)
    rows = trained(tmp_path, checkpoint, *more, steps=2, problems=2)
    assert [row["step"] for row in rows] == [1, 2]
    gaps = [value for row in rows for name, value in row.items() if name.endswith("/probe_gap")]
    assert len(gaps) == 6 and max(gaps) < tolerance


def test_the_probe_finds_weights_that_vllm_has_not_got(offline, module, tolerance, monkeypatch):
    policy, bring = Policy(module), Samplers({"one": offline})
    assert asyncio.run(bring({"one": policy}))["policy/one/probe_gap"] < tolerance
    module.model.layers[1].mlp.down_proj.weight.data *= 1.5
    policy.version += 1
    monkeypatch.setattr(offline._engine, "reload", lambda *given, **how: None)
    with raises(ModelError):
        asyncio.run(bring({"one": policy}))


def test_weights_pass_without_a_file(offline, module, monkeypatch):
    def refuse(*given, **how):
        raise AssertionError("a file was written")

    monkeypatch.setattr("safetensors.torch.save_file", refuse)
    monkeypatch.setattr("tempfile.TemporaryDirectory", refuse)
    offline.refresh(shaken(module, seed=1), version=1)
    prompt, tokens = probe_ids(35)
    found = asyncio.run(offline.score(prompt, tokens, end=False))
    expected = samplers.given_logprobs(module, [samplers.ScoreRequest(prompt, tokens)], vocabulary=35)[0]
    assert found.logprobs == pytest.approx(expected, abs=1e-3)
    assert found.versions[0][0] == 1
