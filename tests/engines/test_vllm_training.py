"""`mars-env train` with vLLM as the engine, on the miniature: refreshed in memory and compared."""

from statistics import fmean

import pytest
from typer.testing import CliRunner

from mars_env.cli import app
from mars_env.errors import ModelError
from mars_env.loggers import read_jsonl
from mars_env.sync import maybe_await
from mars_env.trainers import Policy
from mars_env.trainers.samplers import Refresher

SETTINGS = """
steps = {steps}
problems_per_step = {problems}
checkpoint_every = 1
out = "run"

[environment]
id = "arithmetic-solve-verify-correct"

[team]
agents = "mars_env.miniature.agents:team"

[engine]
name = "vllm"
arguments = {{ enforce_eager = true }}

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
    call = ["train", settings, "--model", checkpoint, *more]
    result = CliRunner().invoke(app, list(map(str, call)))
    if result.exception is not None:
        raise result.exception
    return read_jsonl(folder / "run/metrics.jsonl")


def test_a_whole_training_learns_from_what_vllm_samples(checkpoint, tmp_path, tolerance):
    rows = trained(tmp_path, checkpoint)
    assert [row["step"] for row in rows] == list(range(1, 9))
    verifier = [row["role/verifier/reward"] for row in rows]  # whose learning shows first
    assert fmean(verifier[-3:]) > fmean(verifier[:2]) + 0.15
    assert all(0 < row["policy/policy/weights_read"] <= 1 for row in rows)
    assert all(row["policy/policy/rollout_gap"] < tolerance for row in rows)


def test_adapters_of_a_team_share_an_engine_and_a_run_is_taken_up(checkpoint, tmp_path, tolerance):
    pytest.importorskip("peft")
    lora = ["--team.lora", 4]
    trained(tmp_path, checkpoint, *lora, steps=1, problems=2)
    rows = trained(tmp_path, checkpoint, *lora, steps=2, problems=2)
    assert [row["step"] for row in rows] == [1, 2]
    read = [value for row in rows for name, value in row.items() if name.endswith("/weights_read")]
    assert read == [1.0] * 6


@pytest.mark.parametrize("tensor", ["model.norm.weight", "model.layers.1.mlp.down_proj.weight"])
async def test_weights_that_vllm_has_not_got_are_found(offline, module, tensor, monkeypatch):
    """Read ones by their checksums, and those that its kernels for CPUs have packed by the probe."""
    policy, bring = Policy(module), Refresher({"one": offline})
    assert 0 < (await maybe_await(bring({"one": policy})))["policy/one/weights_read"] <= 1
    module.get_parameter(tensor).data *= 1.02
    policy.version += 1
    await maybe_await(bring({"one": policy}))
    module.get_parameter(tensor).data *= 1.02
    policy.version += 1
    monkeypatch.setattr(offline._engine, "reload", lambda *given, **how: None)
    with pytest.raises(ModelError):
        await maybe_await(bring({"one": policy}))
