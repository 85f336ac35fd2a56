"""The agent file with the miniature in the place of vLLM; tests/engines has the own command line itself."""

import asyncio
import json
import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
from messages import raises

from mars_env.errors import ConfigError
from mars_env.miniature import load
from mars_env.models.requests import Sampled
from mars_env.trainers.config import Overlong
from mars_env.trainers.openrlhf.agent_file import executor
from mars_env.trainers.openrlhf.agent_file.__main__ import main
from mars_env.trainers.openrlhf.agent_file.executor import AgentExecutor
from mars_env.trainers.openrlhf.settings import TeamSettings
from mars_env.types import Grade, Sampling

SETTINGS = TeamSettings(
    env="arithmetic-solve-verify-correct",
    options={"schedule": "training", "rounds": 1},
    agents="mars_env.miniature.agents:team",
    problems=20,
    group=4,
    branches=1,
    eval_problems=5,
    eval_problem_options={"split": "test"},
    eval_options={"rounds": 1},
)
ROWS = 12


class MiniatureEngine:
    """Samples with the miniature, as `AgentFileEngine` does with vLLM."""

    def __init__(self, engine):
        self.model = engine

    async def sample(self, ids, requests):
        [first, *_] = requests
        sampling = Sampling(first["temperature"], max_tokens=first["max_tokens"], seed=0)
        completions = await self.model.complete(ids, len(requests), sampling)
        return [Sampled(c.token_ids, c.logprobs, c.finish_reason, ()) for c in completions]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "team.json"
    path.write_text(SETTINGS.model_dump_json(exclude_defaults=True), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def model():
    return load()


@pytest.fixture
def ask(model, monkeypatch):
    """What OpenRLHF's engine does with an agent file: n calls with one object of sampling parameters."""
    monkeypatch.setattr(executor, "AgentFileEngine", MiniatureEngine)

    async def ask(executor, prompt, label, n, max_length=256, **changes):
        plain = {"temperature": 0.85, "top_p": 1.0, "top_k": -1, "max_tokens": 24, "logprobs": 1}
        given = {
            "sampling_params": SimpleNamespace(**plain | changes), "max_length": max_length,
            "hf_tokenizer": model.tokenizer, "llm_engine": model, "images": None,
        }  # fmt: skip
        calls = (executor.execute(prompt=prompt, label=label, **given) for _ in range(n))
        return await asyncio.gather(*calls)

    return ask


async def test_the_calls_of_a_prompt_share_one_tree(ask):
    executor = AgentExecutor(SETTINGS)
    prompts = [problem.id for problem in SETTINGS.training_problems()][:8]
    families = await asyncio.gather(*(ask(executor, prompt, "train", ROWS) for prompt in prompts))
    trained = 0
    for prompt, rows in zip(prompts, families, strict=True):
        assert {row["prompt"] for row in rows} == {prompt}
        assert math.fsum(row["reward"] for row in rows) == pytest.approx(0, abs=1e-6)
        real = [row for row in rows if not row["extra_logs"]["filler"]]
        trained += len(real)
        for row in real:
            [(start, end)] = row["action_ranges"]
            assert end == len(row["observation_tokens"]) == len(row["rollout_log_probs"])
            assert max(row["rollout_log_probs"][start:end]) <= 0
            assert start < end
    assert trained >= 8  # a group of mixed rewards, at least
    rewards = [row["reward"] for rows in families for row in rows]
    assert max(rewards) > 0 > min(rewards)


async def test_without_correction_there_are_no_log_probabilities(ask):
    prompt = SETTINGS.training_problems()[0].id
    rows = await ask(AgentExecutor(SETTINGS), prompt, "train", ROWS, logprobs=None)
    assert {row["rollout_log_probs"] for row in rows} == {None}


async def test_evaluation_gives_raw_scores(ask):
    executor = AgentExecutor(SETTINGS)
    problems = SETTINGS.evaluation_problems()
    assert len(problems) == 5
    rows = [
        row
        for problem in problems
        for row in await ask(executor, problem.id, "evaluate", 2, temperature=0.0, logprobs=None)
    ]
    assert {row["reward"] for row in rows} <= {0.0, 1.0}
    assert sum(row["reward"] for row in rows) >= 2
    assert all(len(row["observation_tokens"]) > 2 for row in rows)


async def test_an_answer_that_cannot_be_judged_is_not_wrong(ask):
    class Lost:
        async def grade(self, problem, text):
            return Grade.unknown("lost")

    executor = AgentExecutor(SETTINGS)
    executor._games["evaluate"] = replace(executor._games["evaluate"], grader=Lost())
    [row] = await ask(executor, SETTINGS.evaluation_problems()[0].id, "evaluate", 1)
    assert math.isnan(row["reward"])


async def test_an_episode_without_an_answer_in_which_something_is_unknown_is_not_wrong(ask, monkeypatch):
    executor = AgentExecutor(SETTINGS)
    play = executor._play

    async def played(*arguments):
        tree = await play(*arguments)
        unknown = replace(tree.turns[0], grade=Grade.unknown("lost"))
        return replace(tree, final=None, turns=(unknown, *tree.turns[1:]))

    prompt = SETTINGS.evaluation_problems()[0].id
    monkeypatch.setattr(executor, "_play", played)
    [row] = await ask(executor, prompt, "evaluate", 1)
    assert math.isnan(row["reward"])

    async def finished(*arguments):
        return replace(await play(*arguments), final=None)

    monkeypatch.setattr(executor, "_play", finished)
    [row] = await ask(executor, prompt, "evaluate", 1)
    assert row["reward"] == 0.0


@pytest.mark.parametrize(
    ("prompt", "label", "n", "changes", "settings"),
    [
        ("first", "", ROWS, {}, {}),
        ("elsewhere/1", "train", ROWS, {}, {}),
        ("first", "train", ROWS - 1, {}, {}),
        ("first", "train", ROWS, {"top_p": 0.9}, {}),
        ("first", "train", ROWS, {"max_length": 162}, {}),
        ("first", "train", ROWS, {}, {"overlong": Overlong(limit=4096)}),
    ],
)
async def test_misfit(ask, prompt, label, n, changes, settings):
    prompt = SETTINGS.training_problems()[0].id if prompt == "first" else prompt
    with raises(ConfigError):
        await ask(AgentExecutor(SETTINGS.model_copy(update=settings)), prompt, label, n, **changes)


def test_settings_are_read_from_the_file_that_the_environment_names(file, monkeypatch):
    monkeypatch.delenv(executor.SETTINGS, raising=False)
    with raises(ConfigError):
        AgentExecutor()
    monkeypatch.setenv(executor.SETTINGS, str(file))
    assert AgentExecutor()._settings == SETTINGS


def test_the_command_writes_prompts_and_prints_flags(file, tmp_path, capsys):
    assert main([str(file), str(tmp_path)]) == 0
    flags = capsys.readouterr().out.split()
    given = dict(zip(flags[::2], flags[1::2], strict=True))
    assert given["--rollout.n_samples_per_prompt"] == str(ROWS)
    rows = [json.loads(line) for line in (tmp_path / "train.jsonl").read_text().splitlines()]
    assert [row["input"] for row in rows] == [problem.id for problem in SETTINGS.training_problems()]
    assert given["--eval.dataset"] == str(tmp_path / "evaluate.jsonl")
    assert {json.loads(line)["label"] for line in (tmp_path / "evaluate.jsonl").open()} == {"evaluate"}


@pytest.mark.parametrize(
    "content",
    [
        b'{"env": "arithmetic-solve", "staleness": 2}',
        b'{"env": "arithmetic-solve", "grup": 4}',
        b'{"env": "arithmetic-solve", "group": "many"}',
        b'{"env": ',
        b"\xff",
    ],
)
def test_wrong_settings(content, tmp_path, capsys):
    path = tmp_path / "team.json"
    path.write_bytes(content)
    assert main([str(path), str(tmp_path)]) == main([str(tmp_path / "nowhere.json"), str(tmp_path)]) == 1
    assert len(capsys.readouterr().err.splitlines()) == 2
    assert main(["only one"]) == 2


def test_paths_are_absolute_and_those_that_do_not_reach_openrlhf_whole_are_refused(
    file, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    assert main(["team.json", "prompts"]) == 0
    assert f"--data.prompt_dataset {tmp_path}/prompts/train.jsonl" in capsys.readouterr().out
    for folder in ("my prompts", "me@lab"):  # a shell would divide the one, OpenRLHF the other
        assert main(["team.json", folder]) == 1
        told = capsys.readouterr()
        assert told.err and not told.out
