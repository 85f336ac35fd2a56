"""Training on the command line, with tiny checkpoints that the tests write."""

import sys

import pytest
import torch
from safetensors.torch import load_file
from tiny_team import tiny
from typer.testing import CliRunner

from mars_env.cli import app
from mars_env.cli.train import USAGE, entry
from mars_env.errors import ConfigError, StoreError
from mars_env.loggers import read_jsonl
from mars_env.trainers.recipes import RunSettings
from mars_env.trainers.tables import setting_rows

REWARDS = '''
"""A random model solves nothing."""
from mars_env.agents.roles import RoleAgent
from mars_env import ask, game


def digits(turn, path, problem):
    return sum(letter.isdigit() for letter in turn.text) / 6


class Short(RoleAgent):
    role, template = "guesser", "{{ problem[:20] }}|"


@game(max_turns=1, roles={"guesser": None}, fields={"guesser": ["problem"]})
def guess(problem):
    return (yield ask("guesser", problem=problem.statement))


@game(max_turns=1, roles={"guesser": Short})
def named_guess(problem):
    return (yield ask("guesser", problem=problem.statement))
'''
COMMON = [
    *["--environment.rewards.solver", "tiny_rewards:digits", "--sampling.max_tokens", "6"],
    *["--problems_per_step", "3", "--train.learning_rate", "0.003"],
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Two checkpoints and a module of rewards."""
    for seed, name in enumerate(("one", "two")):
        model = tiny(name, seed, positions=2048)
        model.module.save_pretrained(tmp_path / name)
        model.tokenizer.save_pretrained(tmp_path / name)
    (tmp_path / "tiny_rewards.py").write_text(REWARDS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    torch.set_num_threads(1)
    yield tmp_path
    sys.modules.pop("tiny_rewards", None)


def called(*arguments, code=0):
    """`mars-env train` in this process, and its exit status."""
    result = CliRunner().invoke(app, ["train", *map(str, arguments)])
    if result.exit_code != code:
        raise result.exception
    return result.output


def search(*arguments, steps=1, **more):
    common = ["arithmetic-tree-search", *COMMON, "--environment.settings.nodes", 4, "--steps", steps]
    return called(*common, *arguments, **more)


def refused(*arguments, error=ConfigError):
    with pytest.raises(error) as caught:
        search(*arguments)
    return str(caught.value)


def weights(step):
    """The weights of a checkpoint, by policy."""
    found = {}
    for folder in step.iterdir():
        for name in ("model.safetensors", "adapter_model.safetensors"):
            if (folder / name).exists():
                found[folder.name] = load_file(folder / name)
    return found


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(value, other[name]) for name, value in one.items())


def test_two_models_are_trained_in_one_tree_and_a_run_is_taken_up(folder):
    both = ["--model", "one", "--model", "two", "--checkpoint_every", 1]
    search(*both, "--out", "whole", steps=3)
    search(*both, "--out", "parts", steps=2)
    search(*both, "--out", "parts", steps=3)
    whole, parts = weights(folder / "whole/step-00000003"), weights(folder / "parts/step-00000003")
    assert sorted(whole) == ["solver_0", "solver_1"]
    for agent, begun in (("solver_0", "one"), ("solver_1", "two")):
        assert same(whole[agent], parts[agent])
        assert not same(whole[agent], load_file(folder / begun / "model.safetensors"))
    rows = read_jsonl(folder / "parts/metrics.jsonl")
    assert [row["step"] for row in rows] == [1, 2, 3]
    assert all(row["advantages/turns"] == 12 and row["advantages/groups"] == 3 for row in rows)
    paper = {"policy/solver_0/vetoed", "policy/solver_1/kl"}  # flags left the paper's loss as it is
    assert paper <= rows[0].keys()
    other = refused(*both, "--out", "parts", "--problems_per_step", "2", error=StoreError)
    assert "problems_per_step" in other


def test_the_rules_name_the_agents_that_models_become(folder):
    guess = ["--model", "one", "--out", "run", "--environment.rewards.guesser", "tiny_rewards:digits"]
    small = ["--sampling.max_tokens", 6, "--steps", 1, "--problems_per_step", 2]
    called("tiny_rewards:arithmetic-named-guess", *guess, *small)
    assert read_jsonl(folder / "run/metrics.jsonl")[0]["role/guesser/turns"] > 0
    with pytest.raises(ConfigError):
        called("tiny_rewards:arithmetic-guess", *guess, *small)


FILE = """
steps = 9
seed = 4
out = "../run"
problems_per_step = 3
[environment]
id = "arithmetic-tree-search"
settings = { nodes = 4 }
rewards = { solver = "tiny_rewards:digits" }
[team]
model = "../one"
[sampling]
max_tokens = 6
[train]
ratio = "token"
[train.overlong]
buffer = 1
"""


def test_settings_come_from_a_file_and_single_ones_from_flags(folder):
    (folder / "files").mkdir()
    (folder / "files" / "run.toml").write_text(FILE)
    called("files/run.toml", "--train.epochs", 2, "--steps=1")
    rows = read_jsonl(folder / "run/metrics.jsonl")
    assert [row["step"] for row in rows] == [1] and rows[0]["policy/policy/updates"] == 2


def test_roles_have_adapters_of_their_own_or_share_one(folder):
    pytest.importorskip("peft", reason="adapters need the extra lora")
    roles = ("solver", "verifier", "corrector")
    flags = [f"--environment.rewards.{role}=tiny_rewards:digits" for role in roles]
    flags += ["--steps=1", "--problems_per_step=2", "--rollouts.group=4", "--rollouts.branches=1"]
    flags += ["--sampling.max_tokens=6", "--team.lora=2"]
    for out, model, names in (
        ("own", "--model", ["corrector_0", "solver_0", "verifier_0"]),
        ("shared", "--team.model.solver,verifier,corrector", ["solver-verifier-corrector"]),
    ):
        called("arithmetic-solve-verify-correct", *flags, model, "one", "--out", out)
        assert sorted(weights(folder / out / "step-00000001")) == names


@pytest.mark.parametrize("more", [[], ["--team.lora", 4], ["--train.offload"]], ids=str)
def test_a_dry_run_prints_the_memory_and_starts_nothing(folder, more):
    memory = ["--dry-run", "--gpu-memory", "1e-6"]
    printed = search("--model", "one", "--out", "run", *memory, *more, code=3)
    assert "of 1e-06 GiB: IT DOES NOT FIT" in printed
    assert ("\n  host " in printed) == ("--train.offload" in more)
    assert not (folder / "run").exists()


def test_a_dry_run_says_what_the_credit_rule_needs_and_rejects_what_lacks_it(folder):
    dry = ["--model", "one", "--dry-run", "--gpu-memory", 99]
    printed = search(*dry, "--credit", "c3")
    assert printed.startswith("credit: c3, which needs two or more turns on each input")
    with pytest.raises(ConfigError):
        called("arithmetic-solve-verify-correct", *dry, "--credit", "c3", "--rollouts", "own")
    with pytest.raises(ConfigError):
        called("arithmetic-solve-verify-correct", *dry, "--credit", "mars2")


def test_the_help_fits_a_terminal_of_80_columns():
    texts = [USAGE, *map(entry, setting_rows(RunSettings()))]
    assert max(len(line) for text in texts for line in text.splitlines()) <= 80
