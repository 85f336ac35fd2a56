"""Every settings file of examples/openrlhf: what it would do, its flags checked by OpenRLHF's own parser."""

import os
import re
import sys
from pathlib import Path

import openrlhf_on_cpu
import pytest
from command_line import run_python
from journeys import walk
from messages import raises
from openrlhf_on_cpu import EXAMPLES

from mars_env.errors import ConfigError
from mars_env.trainers.openrlhf.__main__ import launch
from mars_env.trainers.openrlhf.arguments import parsed_arguments
from mars_env.trainers.openrlhf.command_line import read_argv
from mars_env.trainers.openrlhf.flags import complete, resolved, sampling_of
from mars_env.trainers.openrlhf.planning.dry_run import dry_run, gpu_memory, without_downloads
from mars_env.trainers.openrlhf.settings import read_flags

FILES = sorted(EXAMPLES.glob("*.toml"))
SMOKE = EXAMPLES / "marsrl_smoke_1gpu.toml"
MODEL = ("--actor.model_name_or_path", "Qwen/Qwen3-0.6B")


@pytest.fixture(autouse=True)
def beside_the_files(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "helpers"))


def flags_of(file, *more):
    """The flags that the launcher reads from the file, and more."""
    return read_argv(["--config", str(file), *more])


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_plan_of_a_file_is_the_stored_one_and_fits_as_its_comment_says(file, tmp_path, monkeypatch):
    """`STORE_PLANS=1` in the environment writes plans anew; read the difference before you commit it."""
    monkeypatch.chdir(tmp_path)
    comment = re.sub(r"\s+", " ", file.read_text(encoding="utf-8").replace("\n#", " "))
    promised = re.search(r"--dry-run(=\d+)?\S* prints .*?about (\d+) GiB .*?(\d+) GiB while", comment)
    plan = dry_run(flags_of(file, f"--dry-run{(promised and promised[1]) or ''}"))
    text = plan.text.replace(f"{tmp_path}/", "") + "\n"
    stored = EXAMPLES / "plans" / f"{file.stem}.txt"
    if os.environ.get("STORE_PLANS"):
        stored.write_text(text, encoding="utf-8")
    assert stored.read_text(encoding="utf-8") == text
    assert plan.fits
    assert "no estimate" not in text
    for number, phase in re.findall(r"(\d+) GiB while (rolling out|training)", comment if promised else ""):
        name = {"rolling out": "rollout"}.get(phase, phase)
        sizes = map(float, re.findall(rf"{name} +([\d.]+) GiB", text))
        assert any(abs(size - float(number)) <= 1 for size in sizes), phase
    for promise in ("Hardware", "To change", "Before and after", "mars-env evaluate", "vllm serve"):
        assert promise in comment


def parsed(flags):
    """The team's settings and OpenRLHF's arguments, as the launcher has them; nothing is downloaded."""
    settings, flags = read_flags(flags)
    settings = resolved(without_downloads(settings), flags)
    return settings, parsed_arguments(complete(settings, flags))


def loss_of(args):
    """All that decides OpenRLHF's policy loss."""
    correction = {
        name: value for name, value in vars(args.algo.advantage).items() if name.startswith("is_correction")
    }
    if correction["is_correction_level"] == "off":
        correction = {"is_correction_level": "off"}
    clip = tuple(map(float, args.actor.eps_clip_low_high))
    names = ("policy_loss_type", "loss_agg_mode", "dual_clip", "entropy_coef")
    return {name: getattr(args.actor, name) for name in names} | {"clip": clip} | correction


def test_every_file_has_a_loss_that_the_tests_of_engines_train_with():
    env = ["--mars.env", "arithmetic-solve-verify-correct"]
    trained = [
        loss_of(parsed(read_argv([*env, *openrlhf_on_cpu.words(flags)]))[1])
        # In test_openrlhf_training.py and test_several_policies.py; their numbers: test_same_numbers.py.
        for flags in (openrlhf_on_cpu.MINIATURE, openrlhf_on_cpu.MARS2_LOSS)
    ]
    for file in FILES:
        settings, args = parsed(flags_of(file))
        assert loss_of(args) in trained, file
        assert settings.staleness == 0 or args.algo.advantage.is_correction_level != "off", file


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_file_has_limits(file):
    settings, args = parsed(flags_of(file))
    assert set(settings.engine_limits()) == {"max_num_seqs", "max_num_batched_tokens"}
    assert settings.segment_tokens is None or args.vllm.enable_prefix_caching
    if settings.eval_problems:
        turns = settings.evaluation_game().rules.max_turns
        longest = sampling_of(settings, args, evaluation=True).max_tokens
        assert settings.eval_problems * args.eval.n_samples_per_prompt <= 120
        assert turns <= 6
        assert longest <= 16384


@pytest.mark.parametrize(
    "more",
    [
        ["--no.such.flag", "1"],
        ["--train.batch_size", "many"],
        ["--ckpt.output", "elsewhere"],
        ["--reward.clip", "-1", "1"],
        ["--use_ms"],
        ["--train.partial_rollout_enable"],
    ],
)
def test_openrlhf_s_refusals_of_flags_are_passed_on(more):
    with raises(ConfigError):
        dry_run(flags_of(SMOKE, *more))


@pytest.mark.parametrize(
    "more",
    [
        [],
        [*MODEL, "--vllm.num_engines", "0", "--train.dynamic_batch_enable"],
        [*MODEL, "--train.colocate_all", "--vllm.num_engines", "3"],
        ["--mars.policies", '{"a": "Qwen/Qwen3-0.6B", "b": "Qwen/Qwen3-0.6B"}'],
    ],
)
def test_a_run_refuses_before_its_start_what_a_dry_run_refuses(more, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    flags = ["--mars.env", "arithmetic-solve", "--rollout.max_new_tokens", "64"]
    flags += ["--actor.num_gpus_per_node", "1", "--vllm.num_engines", "1"]
    for refused in (launch, dry_run):
        with raises(ConfigError):
            refused(read_argv([*flags, *more]))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("memory", ["0", "-1", "nan", "inf", "much"])
def test_the_memory_of_a_gpu_is_a_number_above_zero(memory):
    with raises(ConfigError):
        gpu_memory([memory])


@pytest.mark.parametrize("key", [["--logger.wandb.key", "s3cret"], ["--logger.wandb.key=s3cret"]])
def test_a_key_is_not_printed(key):
    text = dry_run(flags_of(SMOKE, *key)).text
    assert "s3cret" not in text
    assert text.count('"$WANDB_API_KEY"') == 2  # the command, and what OpenRLHF gets


def test_an_unknown_model_is_placed_without_an_estimate():
    text = dry_run(flags_of(SMOKE, "--actor.model_name_or_path", "nobody/nothing")).text
    assert "no estimate of the memory: the sizes of 'nobody/nothing' are not known" in text


def test_from_eight_gpus_to_two_by_what_the_command_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command = ["--config", str(EXAMPLES / "marsrl_8gpus.toml"), "--dry-run", "--actor.num_gpus_per_node", "2"]
    wrong = light(*command)
    assert wrong.returncode == 1
    lines = wrong.stderr.splitlines()
    assert len(lines) == 2
    command += [word for line in lines for word in line.rpartition(": set ")[2].split()]
    too_large = light(*command)
    assert too_large.returncode == 3
    advice = re.search(r"With these settings it does:\n((?:    --.+\n)+)", too_large.stdout)
    fits = light(*command, *advice[1].split())
    assert fits.returncode == 0, fits.stderr
    assert "DOES NOT FIT" not in fits.stdout
    assert not list(tmp_path.iterdir())


BLOCKED = """
import sys

HEAVY = ("torch", "vllm", "ray", "openrlhf", "transformers", "deepspeed", "flash_attn")

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in HEAVY:
            raise ModuleNotFoundError(f"{name} is not installed", name=name)

sys.meta_path.insert(0, Blocked())
from mars_env.trainers.openrlhf.__main__ import main
sys.exit(main(sys.argv[1:]))
"""


def light(*arguments):
    """The command in a process that can import neither torch nor any part of OpenRLHF, Ray or vLLM."""
    paths = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return run_python(BLOCKED, *arguments, env=os.environ | paths)


def test_a_light_install_is_enough_for_help():
    told = light("--help")
    assert (told.returncode, told.stderr) == (0, "")
    assert "Exit status: 0 it fits, 1 a flag is rejected, 3 it does not fit" in told.stdout
    assert "--actor.model_name_or_path" in told.stdout


PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "train-with-openrlhf.md"


def test_the_dry_run_of_the_page_makes_a_plan_that_fits(tmp_path):
    assert walk(PAGE, tmp_path)
    assert "GiB" in (tmp_path / "plan.txt").read_text(encoding="utf-8")
