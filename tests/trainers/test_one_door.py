"""The local trainer, TRL and OpenRLHF train on the same rows, made in one place; files hold them too."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from command_line import run_cli
from messages import raises
from toy_training import tiny_model, toy_groups

import mars_env
from mars_env.envs import GroupedSettings
from mars_env.errors import ConfigError, StoreError
from mars_env.problems import ProblemSet
from mars_env.rollout import Store, groups_of
from mars_env.trainers import local, trl
from mars_env.trainers.config import TrainConfig
from mars_env.trainers.openrlhf.rollouts.responses import ADVANTAGE, BatchShape, responses
from mars_env.trainers.sample_files import read_samples, sample_from_row, sample_to_row, write_samples
from mars_env.trainers.samples import turn_samples
from mars_env.types import Action, Completion, Problem, Tree

TEMPERATURE, GROUP = 0.7, 6


@pytest.fixture
def trees():
    """Two problems, six real samples each; one reward is unknown."""
    torch.set_num_threads(1)
    groups = toy_groups(tiny_model(), 0, problems=2, size=GROUP)
    trees = []
    for group in groups:
        problem = Problem(group.id, "", None)
        turns = tuple(replace(turn, problem_id=problem.id) for turn in group.turns)
        trees.append(Tree(f"{problem.id}#0", problem, turns))
    lost = replace(trees[0].turns[3], reward=None)
    chain = replace(trees[0].turns[4], action=called(trees[0].turns[4].action))
    return [replace(trees[0], turns=(*trees[0].turns[:3], lost, chain, trees[0].turns[5])), trees[1]]


def called(action):
    """The same action, with two results of tools between three completions."""
    [first] = action.completions
    completions = [first]
    for result in ((3, 5, 4), (6,)):
        read = (*completions[-1].prompt_ids, *completions[-1].token_ids, *result)
        completions.append(replace(first, prompt_ids=read))
    return Action(action.text, tuple(completions))


def row(ids, mask, logprobs, advantage):
    """A row as all trainers read it; float32, as tensors hold it."""
    single = [round(float(torch.tensor(value)), 6) for value in (*logprobs, advantage)]
    return tuple(ids), tuple(map(int, mask)), tuple(single)


def canonical(samples):
    return [row(s.ids, s.mask, s.logprobs, s.advantage) for s in samples]


def rows_of_the_local_trainer(trees, config, monkeypatch):
    batches = []

    def kept(samples, vocabulary=None):
        batches.append(collate(samples, vocabulary))
        return batches[-1]

    collate = local.collate
    monkeypatch.setattr(local, "collate", kept)
    local.LocalTrainer({"mars": local.Policy(tiny_model())}, config).step(groups_of(trees))
    [batch] = batches
    assert batch.temperatures.tolist() == pytest.approx([TEMPERATURE] * len(batch))
    found = []
    for i, (prompt, length) in enumerate(zip(batch.prompts.tolist(), batch.lengths.tolist(), strict=True)):
        mask = [0] * prompt + batch.mask[i][:length].int().tolist()
        ids = batch.ids[i][: prompt + length].tolist()
        found.append(row(ids, mask, batch.rollout[i][:length].tolist(), batch.advantages[i, 0].item()))
    return found


def rows_of_trl(trees, config, monkeypatch):
    async def played(*_, **__):
        return trees

    monkeypatch.setattr(trl, "collect", played)
    game = mars_env.make("aime-solve").game
    problems = ProblemSet("toy", [tree.problem for tree in trees])
    team = trl.TeamRollouts(game, {}, problems, rollouts=GroupedSettings(group=GROUP), config=config)
    trainer = SimpleNamespace(
        model=SimpleNamespace(training=True),
        num_generations=GROUP,
        scale_rewards="none",
        accelerator=SimpleNamespace(num_processes=1),
        state=SimpleNamespace(global_step=0),
        temperature=TEMPERATURE,
        processing_class=SimpleNamespace(pad_token_id=0),
    )
    columns = team([tree.problem.id for tree in trees for _ in range(GROUP)], trainer)
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    return [
        row(
            r["prompt_ids"] + r["completion_ids"],
            [0] * len(r["prompt_ids"]) + r["env_mask"],
            r["logprobs"],
            r["team_advantage"],
        )
        for r in rows
        if any(r["env_mask"])  # the others fill the step up
    ]


def rows_of_openrlhf(trees, config, _):
    samples = turn_samples(groups_of(trees), config)
    shape = BatchShape(ranks=1, rollout_micro=4, train_micro=4, batch=32)
    found = []
    for r in responses(samples, shape, temperature=TEMPERATURE, padding_token=0, ages={}):
        if r["action_ranges"]:  # the others fill the update up
            places = range(len(r["observation_tokens"]))
            mask = [int(any(start <= i < end for start, end in r["action_ranges"])) for i in places]
            logprobs = r["rollout_log_probs"][r["action_ranges"][0][0] :]
            found.append(row(r["observation_tokens"], mask, logprobs, r["extra_logs"][ADVANTAGE]))
    return found


@pytest.mark.parametrize("advantage", ["group_normalised", "mean_centred", "leave_one_out"])
@pytest.mark.parametrize("rows_of", [rows_of_the_local_trainer, rows_of_trl, rows_of_openrlhf])
def test_every_trainer_gets_the_same_rows_for_the_same_turns(trees, monkeypatch, rows_of, advantage):
    config = TrainConfig(advantage=advantage, learning_rate=1e-4)
    expected = canonical(turn_samples(groups_of(trees), config))
    assert len(expected) == 2 * GROUP - 1
    assert sum(mask[i : i + 5] == (1, 0, 0, 0, 1) for _, mask, _ in expected for i in range(len(mask))) == 1
    assert rows_of(trees, config, monkeypatch) == expected


def test_a_chain_in_one_row_trains_as_its_completions_do(trees):
    """Means over tokens do not depend on how tokens are divided into rows."""

    def weights(trees):
        policy = local.Policy(tiny_model())
        local.LocalTrainer({"mars": policy}, TrainConfig(learning_rate=1e-3)).step(groups_of(trees))
        return [parameter.detach() for parameter in policy.model.parameters()]

    chain = trees[0].turns[4]
    apart = replace(chain, action=replace(chain.action, completions=chain.action.completions[::-1]))
    assert [len(turn.action.chains) for turn in (chain, apart)] == [1, 3]
    several = replace(trees[0], turns=(*trees[0].turns[:4], apart, trees[0].turns[5]))
    for one, other in zip(weights(trees), weights([several, trees[1]]), strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=0)


def test_a_file_holds_the_same_rows_to_the_last_bit(trees, tmp_path):
    samples = turn_samples(groups_of(trees), TrainConfig())
    assert write_samples(tmp_path / "samples.jsonl", samples) == len(samples)
    assert list(read_samples(tmp_path / "samples.jsonl")) == samples


def test_the_command_line_writes_them(trees, tmp_path):
    with Store(tmp_path / "run", {"title": "toy"}, [tree.problem for tree in trees]) as store:
        for tree in trees:
            store.write_turns(tree.turns)
            store.write_tree(tree, {})
    run_cli(
        "export", tmp_path / "run", tmp_path / "s.jsonl", "--format", "samples", "--advantage", "mean_centred"
    )
    assert list(read_samples(tmp_path / "s.jsonl")) == turn_samples(
        groups_of(trees), TrainConfig(advantage="mean_centred")
    )


def test_what_cannot_be_trained_on_is_refused_or_skipped(trees):
    first = trees[1].turns[0]
    bare = replace(first, action=replace(first.action, completions=(Completion("text only"),)))
    changed = [trees[0], replace(trees[1], turns=(bare, *trees[1].turns[1:]))]
    with raises(ConfigError):
        turn_samples(groups_of(changed), TrainConfig())
    kept = turn_samples(groups_of(changed), TrainConfig(), skip=True)
    whole = turn_samples(groups_of(trees), TrainConfig())
    assert kept == [
        sample for sample in whole if (sample.tree_id, sample.turn_id) != (first.tree_id, first.id)
    ]


@pytest.mark.parametrize(
    "changes",
    [
        {"schema": "mars-env.samples/0"},
        {"schema": None},
        {"logprobs": [-0.5]},
        {"logprobs": [-0.5, -9999.0]},
        {"completion_ids": [1, -1]},
        {"advantage": "1"},
        {"agent": 5},
        {"truncated": 0},
        {"versions": [[0, -1]]},
        {"completion_mask": [1, 0, 1]},
        {"completion_mask": [2] * 8},
    ],
)
def test_rows_of_another_form_are_refused_in_one_sentence(trees, changes):
    good = sample_to_row(turn_samples(groups_of(trees), TrainConfig())[0])
    assert sample_from_row(good).ids
    with raises(ValueError):
        sample_from_row(good | changes)


def test_a_file_of_another_export_is_refused_with_its_line(tmp_path):
    path = tmp_path / "sft.jsonl"
    path.write_text('{"prompt": "2 + 2?", "completion": "4"}\n')
    with raises(StoreError):
        list(read_samples(path))
    with raises(StoreError):
        list(read_samples(tmp_path / "nothing.jsonl"))
