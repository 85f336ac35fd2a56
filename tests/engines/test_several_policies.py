"""Two policies in one OpenRLHF run, on a CPU: Ray, DeepSpeed, vLLM; trees of MARS2, shaped credit, GSPO."""

import pickle
import shutil
import sys
from pathlib import Path

import openrlhf_on_cpu
import pytest
from openrlhf_on_cpu import logged, weights
from tiny_checkpoint import tiny_checkpoint

RUN = Path(openrlhf_on_cpu.__file__).with_name("two_policies_run.py")
VLLM_KL = 0.02
"""Engine and trainer compute in bfloat16: 0.0005 apart here. The weights of another update are 0.14 apart."""


def same(a, b):
    """OpenRLHF writes a tied embedding once more, as the head."""
    shared = a.keys() & b.keys()
    return a.keys() ^ b.keys() <= {"lm_head.weight"} and all(a[name].equal(b[name]) for name in shared)


def gap(experiences):
    """Mean difference of a token's log-probability between the engine that sampled it and the trainer."""
    import torch

    masks = [e.action_mask.bool() for e in experiences]
    pairs = zip(experiences, masks, strict=True)
    differences = [(e.rollout_log_probs - e.action_log_probs)[mask].abs() for e, mask in pairs]
    return torch.cat(differences).mean().item()


SETTINGS = {
    **openrlhf_on_cpu.MINIATURE,
    "seed": 2,  # the first update's problem is another than the second's
    "steps": 2,
    "checkpoint_every": 1,
    "problems_per_step": 1,
    "environment.limit": 2,
    "environment.rewards.coder": "two_policies_run:reward",
    "engine.context": 4096,
    "sampling.max_tokens": 12,
    "train.learning_rate": 1e-2,
    "train.tree_credit": {},
    "train.overlong": None,
    "train.kl_coefficient": 0,
    "openrlhf.rollout.micro_batch_size": 4,
    "openrlhf.train.micro_batch_size": 4,
    "openrlhf.ckpt.save_hf": True,
}
"""Two updates of one tree each."""


def launched(folder, environment, name, bases, settings):
    """Run the launcher in a process of its own; what it trained."""
    out = folder / f"{name}.pickle"
    models = {f"team.model.{policy}": str(path) for policy, path in bases.items()}
    settings = {**openrlhf_on_cpu.folders(folder), **SETTINGS, **models, **settings}
    words = [sys.executable, RUN, out, "programs-tree-search", *openrlhf_on_cpu.words(settings)]
    openrlhf_on_cpu.ended_well(words, folder, environment)
    return pickle.loads(out.read_bytes())


@pytest.fixture(scope="module")
def run(cluster, tmp_path_factory):
    """A run: its folder, what the policies began with, and its updates."""
    folder = tmp_path_factory.mktemp("two")
    bases = {
        "coder_0": tiny_checkpoint(folder / "base_one", 0, 64),
        "coder_1": tiny_checkpoint(folder / "base_two", 1, 96, tied=True),
    }
    return folder, bases, launched(folder, cluster, "run", bases, {})


def rows_trained(experiences):
    """Ids, advantages and the engine's log-probabilities of each row, without the weights of MARS2's loss."""
    from mars_env.trainers.losses import truncated_weights

    for e in experiences:
        masks = e.action_mask.bool()
        plain = e.advantages / truncated_weights(e.action_log_probs, e.rollout_log_probs, masks)
        rows = zip(e.sequences, e.attention_mask.bool(), masks, plain, e.rollout_log_probs, strict=True)
        for ids, seen, mask, advantages, logprobs in rows:
            if mask.any():
                yield ids[seen].tolist(), advantages[mask].tolist(), logprobs[mask].tolist()


def test_advantages_are_the_local_trainers_and_each_policy_sees_its_own_turns(run):
    from transformers import AutoModelForCausalLM

    from mars_env.trainers.config import TrainConfig, TreeCredit
    from mars_env.trainers.local import LocalTrainer
    from mars_env.trainers.policy import Policy

    _, bases, updates = run
    assert len(updates) == 2
    policies = {
        name: Policy(AutoModelForCausalLM.from_pretrained(base, dtype="float32"))
        for name, base in bases.items()
    }
    local = LocalTrainer(policies, TrainConfig(tree_credit=TreeCredit()))
    for update in updates:
        [tree] = update["groups"]
        assert len(tree.turns) == 8
        advantages = local.estimator(update["groups"])
        expected = {"coder_0": [], "coder_1": []}
        for turn in tree.turns:
            assert turn.policy == turn.agent
            if (turn.tree_id, turn.id) in advantages:
                [completion] = turn.action.completions
                ids = [*completion.prompt_ids, *completion.token_ids]
                values = [advantages[turn.tree_id, turn.id]] * len(completion.token_ids)
                expected[turn.policy].append((ids, values, list(completion.logprobs)))
        for policy, rows in expected.items():
            found = sorted(rows_trained(update["experiences"].get(policy, ())))
            assert [ids for ids, *_ in found] == [ids for ids, *_ in sorted(rows)]
            for (_, *numbers), (_, *others) in zip(found, sorted(rows), strict=True):
                for values, other in zip(numbers, others, strict=True):
                    assert values == pytest.approx(other, abs=1e-6)


def test_each_policy_samples_from_its_own_weights_and_its_own_stream(run):
    _, _, updates = run
    for update in updates:
        for experiences in update["experiences"].values():
            assert gap(experiences) < VLLM_KL
        sampled = [turn.action.completions[0].token_ids for turn in update["groups"][0].turns]
        assert len(set(sampled)) == len(sampled)


def test_an_idle_policy_stays_as_it_is_bit_by_bit(run):
    folder, bases, updates = run
    idle_in = [i for i, update in enumerate(updates) if "coder_1" not in update["experiences"]]
    assert len(idle_in) == 1
    assert all("coder_0" in update["experiences"] for update in updates)
    history = {
        name: [weights(base)]
        + [weights(folder / "checkpoints" / name / f"global_step{step}_hf") for step in (1, 2)]
        for name, base in bases.items()
    }
    for update in range(2):
        assert not same(history["coder_0"][update], history["coder_0"][update + 1])
        assert same(history["coder_1"][update], history["coder_1"][update + 1]) == (update in idle_in)


def test_completions_tell_the_version_of_their_own_policy(run):
    _, _, updates = run
    trained = {"coder_0": 0, "coder_1": 0}
    for update in updates:
        for turn in update["groups"][0].turns:
            [completion] = turn.action.completions
            assert completion.versions == ((trained[turn.policy], len(completion.token_ids)),)
        for policy in update["experiences"]:
            trained[policy] += 1
    assert trained == {"coder_0": 2, "coder_1": 1}


def test_both_checkpoints_load_and_are_those_of_the_last_update(run):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder, _bases, _ = run
    for name, hidden in (("coder_0", 64), ("coder_1", 96)):
        saved = folder / "model" / name
        model = AutoModelForCausalLM.from_pretrained(saved)
        assert model.config.hidden_size == hidden
        assert len(AutoTokenizer.from_pretrained(saved)) == model.config.vocab_size
        assert same(weights(saved), weights(folder / "checkpoints" / name / "global_step2_hf"))
        assert (folder / "checkpoints" / name / "_actor" / "latest").read_text() == "global_step2"


@pytest.fixture(scope="module")
def resumed(cluster, run):
    """The run again, as if killed while it saved its second update; now asynchronous and with a KL term.

    It takes the second checkpoint of one policy away: tests of the first run come before those of this one.
    """
    folder, bases, _ = run
    actor = folder / "checkpoints" / "coder_1" / "_actor"
    shutil.rmtree(actor / "global_step2")
    (actor / "latest").write_text("global_step1")
    more = {
        "steps": 4,
        "pipeline.staleness": 1,
        "train.kl_coefficient": 0.01,
        "openrlhf.ref.num_nodes": 1,
        "openrlhf.ref.num_gpus_per_node": 1,
        "evaluation.every": 4,
        "evaluation.limit": 2,
        "evaluation.settings": {"nodes": 2},
    }
    return launched(folder, cluster, "resumed", bases, more)


def test_a_run_that_ended_while_it_saved_goes_on_from_what_all_have_saved(run, resumed):
    folder, bases, updates = run
    assert len(resumed) == 3
    assert resumed[0]["groups"][0].id == updates[1]["groups"][0].id, "the second update is trained again"
    assert [update["groups"][0].id[-2:] for update in resumed] == ["#1", "#2", "#3"]
    checkpoints = {name: folder / "checkpoints" / name for name in bases}
    before = {name: weights(path / "global_step1_hf") for name, path in checkpoints.items()}
    after = {name: weights(path / "global_step2_hf") for name, path in checkpoints.items()}
    assert same(after["coder_1"], before["coder_1"]), "it was idle again"
    assert not same(after["coder_0"], before["coder_0"])
    for name, path in checkpoints.items():
        assert (path / "_actor" / "latest").read_text() == "global_step4"
        assert same(weights(folder / "model" / name), weights(path / "global_step4_hf"))


def test_asynchronous_updates_keep_the_bound_of_staleness(resumed):
    trained = {"coder_0": 1, "coder_1": 1}
    for update in resumed:
        for turn in update["groups"][0].turns:
            for version, _ in turn.action.completions[0].versions:
                assert trained[turn.policy] - 1 <= version <= trained[turn.policy]
        for policy in update["experiences"]:
            trained[policy] += 1
    assert trained["coder_0"] == 4


def test_the_reference_is_what_the_policy_began_with(run, resumed):
    """The first update after the resume: the trainer is one update away from its reference."""
    import torch

    [experience, *_] = resumed[0]["experiences"]["coder_0"]
    mask = experience.action_mask.bool()
    apart = (experience.base_action_log_probs - experience.action_log_probs)[mask].abs().mean()
    assert apart > 4 * VLLM_KL
    assert gap(resumed[0]["experiences"]["coder_0"]) < VLLM_KL
    assert torch.isfinite(experience.base_action_log_probs[mask]).all()


def test_the_team_is_evaluated_and_logged(run, resumed):
    rows = logged(run[0])
    assert [update for update, figures in rows.items() if "eval_num_samples" in figures] == [4]
    assert (rows[4]["eval_num_samples"], rows[4]["eval_faults"], rows[4]["role/coder/turns"]) == (2, 0, 8)
    assert "policy/coder_0/vllm_kl" in rows[1]
