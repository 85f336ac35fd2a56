"""Same rollouts, same numbers: advantages, losses and gradients of the local trainer, of OpenRLHF and of TRL.

Everything runs in this process, on CPU tensors, with the real classes of the three. docs/other-trainers.md
says which settings correspond.
"""

import asyncio
import copy
import itertools
from dataclasses import dataclass, replace
from functools import cache
from types import SimpleNamespace

import pytest
import torch
from real_engines import shaken
from turns import called

from mars_env import load_problems
from mars_env.envs import Game, GroupedSettings, grouped, solve_verify_correct
from mars_env.grading import grader_for
from mars_env.miniature import CHECKPOINT, load
from mars_env.miniature.agents import LIMITS, MiniatureAgent
from mars_env.rollout import collect, groups_of
from mars_env.rollout.groups import step_jobs
from mars_env.trainers import local
from mars_env.trainers.config import Overlong, TrainConfig, TreeCredit
from mars_env.trainers.credit_rules import CREDIT_RULES
from mars_env.trainers.forward import score
from mars_env.trainers.local import LocalTrainer
from mars_env.trainers.openrlhf.arguments import parsed_arguments
from mars_env.trainers.openrlhf.rollouts.responses import ADVANTAGE, BatchShape, responses, training_rows
from mars_env.trainers.openrlhf.translation import complete_flags
from mars_env.trainers.policy import Policy
from mars_env.trainers.recipes import MARS2, MARSRL, RunSettings
from mars_env.trainers.samples import turn_samples
from mars_env.types import Grade, Tree

AGREE = 1e-5
TEMPERATURE = 0.8


@dataclass(frozen=True)
class Case:
    """A loss, the rollouts that are trained on, and metrics that show that its parts act on stale samples."""

    train: TrainConfig
    rollouts: str = "groups"
    bite: tuple = ()


pytestmark = pytest.mark.usefixtures("shim")

CLIP = {"clip_low": 0.2, "clip_high": 0.28}
TREE = {"tree_credit": TreeCredit(), "overlong": Overlong(limit=24, buffer=8)}
CASES = {
    "MARSRL": Case(MARSRL.train, bite=("clipped",)),
    "MARS2": Case(MARS2.train.model_copy(update=TREE), "tree", ("clipped", "vetoed")),
    "token-mean": Case(TrainConfig(tis_veto=None, clip_high=0.02), bite=("clipped",)),
    "sequence-mean": Case(TrainConfig(aggregation="sequence-mean", tis_veto=None, **CLIP), "tree"),
    "gspo": Case(TrainConfig(ratio="sequence", tis_veto=None, **TREE), "tree", ("clipped",)),
    "cap and veto": Case(TrainConfig(tis_cap=1.1, tis_veto=0.7), bite=("vetoed",)),
    "mastered tokens": Case(TrainConfig(dmmpt_threshold=0.9), bite=("mastered",)),
    "kl": Case(TrainConfig(kl_coefficient=0.1, aggregation="sequence-mean"), bite=("kl",)),
}
CREDIT = {
    **{rule: TrainConfig(credit=rule) for rule in CREDIT_RULES},
    "balance": TrainConfig(balance=True),
    "majority": TrainConfig(labels="majority"),
    "imitate": TrainConfig(imitate="reference"),
}
"""Every way to credit a team, by name."""


@cache
def parsed_run(config):
    """OpenRLHF's arguments of a run file with these settings of the update, by its own parser."""
    overlong = config.overlong
    run = RunSettings(
        backend="openrlhf",
        out="run",
        environment={"id": "arithmetic-solve-verify-correct"},
        team={"model": str(CHECKPOINT)},
        engine={"context": 4096},
        sampling={"max_tokens": overlong.limit} if overlong else {},
        train=config,
        openrlhf={"vllm": {"num_engines": 1}},
    )
    return parsed_arguments(complete_flags(run))


def policy_loss_arguments(config):
    """What OpenRLHF's actor gives `PolicyLoss` of those arguments, and the weight of the KL term."""
    args = parsed_run(config)
    advantage = args.algo.advantage
    loss = {
        "clip_eps_low": args.actor.eps_clip_low_high[0],
        "clip_eps_high": args.actor.eps_clip_low_high[1],
        "dual_clip": args.actor.dual_clip,
        "token_level_loss": args.actor.loss_agg_mode == "token-mean",
        "policy_loss_type": args.actor.policy_loss_type,
        "is_correction_level": advantage.is_correction_level,
        "is_correction_mode": advantage.is_correction_mode,
        "is_correction_gating": advantage.is_correction_gating,
        "is_correction_threshold": advantage.is_correction_threshold,
    }
    return loss, args.algo.kl.init_coef


@pytest.fixture(scope="module")
def before():
    """The weights that play, and the reference."""
    torch.set_num_threads(1)
    return load()


@pytest.fixture(scope="module")
def groups(before):
    """MarsRL: groups of a Solver, Verifiers and Correctors on four problems, one turn of unknown reward."""
    agents = {f"{r}_0": MiniatureAgent(r, before, temperature=TEMPERATURE, max_tokens=24) for r in LIMITS}
    grower = grouped(GroupedSettings(group=5, branches=1))
    game = Game(solve_verify_correct(schedule="training"), grader_for("math"), grower=grower)
    problems = load_problems("arithmetic", seed=1, split="train")
    jobs = step_jobs(problems, step=0, problems_per_step=4, seed=1)
    trees = asyncio.run(collect(game, agents, jobs, seed=1))
    first, *rest = groups_of(trees)
    lost = replace(first.turns[0], reward=None)
    others = [
        replace(turn, action=called(turn.action, (7, 5, 9), (6,))) if i % 2 else turn
        for i, turn in enumerate(first.turns[1:])
    ]
    return [replace(first, turns=(lost, *others)), *rest]


@pytest.fixture(scope="module")
def tree(groups):
    """The same turns as the nodes of search trees, with parents and rewards along them."""
    turns = iter([turn for group in groups for turn in group.turns][:16])
    ids = ["0", "1", "2", "0.0", "0.1", "1.0", "0.0.0", "2.0"]
    rewards = {
        "p0#0": [0.0, 0.5, 1.0, 1.0, 0.0, None, 0.25, 1.0],
        "p1#0": [0.0, 0.0, 0.0, 1.0, 0.0, 0.5, 0.0, 0.0],
    }
    trees = []
    for name, values in rewards.items():
        nodes = tuple(
            replace(
                turn, tree_id=name, id=id, parent_id=id.rpartition(".")[0] or None, group_id=name, reward=r
            )
            for id, r, turn in zip(ids, values, turns, strict=False)
        )
        trees.append(Tree(name, None, nodes))
    return groups_of(trees)


@pytest.fixture(scope="module")
def old(before):
    """The weights before the update, by staleness: those that play, or a few updates later."""
    return [load().module.float(), shaken(load().module.float(), seed=1, size=0.005)]


@pytest.fixture(scope="module")
def after(old):
    """The weights in the second pass of an update, by staleness: ratios differ from 1."""
    return [shaken(copy.deepcopy(module), seed=0, size=0.005) for module in old]


@pytest.fixture(scope="module")
def trl_trainer(before, tmp_path_factory):
    """TRL's trainer, for its loss alone."""
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    arguments = GRPOConfig(
        output_dir=str(tmp_path_factory.mktemp("trl")),
        use_cpu=True,
        bf16=False,
        per_device_train_batch_size=2,
        num_generations=2,
        temperature=TEMPERATURE,
        report_to=[],
        gradient_checkpointing=False,
    )
    return GRPOTrainer(
        model=load().module.float(),
        reward_funcs=lambda completions, **_: [0.0] * len(completions),
        args=arguments,
        train_dataset=Dataset.from_dict({"prompt": ["a"]}),
        processing_class=before.tokenizer,
    )


def gradient(module):
    return torch.cat([p.grad.flatten() for p in module.parameters()])


def local_numbers(config, groups, before, old, after, monkeypatch):
    """Losses, gradients and metrics of the second pass of an update by `LocalTrainer`, by policy."""
    modules = {turn.policy: copy.deepcopy(after) for group in groups for turn in group.turns}
    policies = {name: Policy(module, reference=before.module) for name, module in modules.items()}

    def scored(module, *args, **options):  # passes of the policy itself are of the weights before the update
        return score(module if module is before.module else old, *args, **options)

    monkeypatch.setattr(local, "score", scored)
    changes = {"max_grad_norm": 1e9, "epochs": 2, "learning_rate": 0.0}
    trainer = LocalTrainer(policies, config.model_copy(update=changes))
    figures = trainer.step(groups).policies
    return {name: (figures[name]["loss"], gradient(modules[name]), figures[name]) for name in modules}


def arguments(n):
    """OpenRLHF's, as far as its experience maker reads them."""
    space = SimpleNamespace
    return space(
        algo=space(
            advantage=space(estimator="dr_grpo", gamma=1.0, lambd=1.0, no_std_norm=False),
            kl=space(use_loss=False, estimator="k1"),
        ),
        rollout=space(n_samples_per_prompt=n, micro_batch_size=3, max_new_tokens=64),
        reward=space(clip_range=(-10, 10), overlong_buffer_len=None, stop_properly_penalty_coef=None),
        train=space(dynamic_batch_enable=False, batch_size=120),
        data=space(max_len=512),
    )


def by_the_launcher(samples):
    """Rows and experience maker of the launcher: rows of padding, advantages from the rows."""
    from mars_env.trainers.openrlhf.workers.trainer import TeamExperienceMaker

    shape = BatchShape(ranks=1, rollout_micro=3, train_micro=4, batch=120)
    rows = responses(samples, shape, temperature=TEMPERATURE, padding_token=0)
    return rows, TeamExperienceMaker


def by_the_agent_file(samples, fillers=0):
    """Rows of the agent file, and OpenRLHF's own maker: "dr_grpo" takes off their mean, which is zero."""
    from openrlhf.trainer.ppo_utils.experience_maker import RemoteExperienceMaker

    rows = training_rows(samples, len(samples) + fillers, temperature=TEMPERATURE, filler=0)
    return [row | {"prompt": "", "label": ""} for row in rows], RemoteExperienceMaker


def actor(module):
    """OpenRLHF's actor."""
    from openrlhf.models.actor import Actor

    made = Actor(module, temperature=TEMPERATURE)
    made.packing_samples = False
    return made


def experiences(rows, kind, old, credit=None):
    """What OpenRLHF makes of the rows: its generator's conversion, its replay buffer, its padding.

    `old` gives the log-probabilities before the update; `credit` says how the launcher weights tokens.
    """
    from openrlhf.trainer.ppo_utils.experience import make_experience_batch, split_experience_batch
    from openrlhf.trainer.ppo_utils.samples_generator import SamplesGenerator

    generator = SamplesGenerator.__new__(SamplesGenerator)
    made = [generator._process_response_into_experience(row) for row in rows]
    space = SimpleNamespace
    maker = kind(*[None] * 4, space(value=0.0), space(args=arguments(len(rows))), space(pad_token_id=0))
    batches = maker.split_rollout_samples(made)
    for batch in batches:
        batch.kl = torch.zeros_like(batch.action_mask, dtype=torch.float32)
        if credit is not None:
            maker.credit = credit
        with torch.no_grad():
            seen = batch.attention_mask
            batch.action_log_probs = actor(old)(batch.sequences, batch.action_mask, attention_mask=seen)
    batches = maker.compute_advantages_and_returns(batches)
    items = [item for batch in batches for item in split_experience_batch(batch)]
    return [make_experience_batch(items[i : i + 4]) for i in range(0, len(items), 4)]


def openrlhf_numbers(config, batches, before, after, **correction):
    """Loss and gradient of one optimiser step over plain micro-batches."""
    from openrlhf.utils.loss_utils import iter_grad_accum_global_norm

    windows = iter_grad_accum_global_norm(iter(batches), None, len(batches), lambda batch: batch.action_mask)
    # As DeepSpeed with accumulated gradients.
    return summed(config, windows, before, after, len(batches), **correction)


def summed(config, windows, before, after, divisor=1, **correction):
    """Loss and gradient over micro-batches and their denominators: OpenRLHF's actor, the launcher's loss."""
    from openrlhf.models.loss import PolicyLoss

    from mars_env.trainers.openrlhf.workers.actors import LossWithKL

    module = copy.deepcopy(after)
    policy, reference = actor(module), actor(before.module)
    arguments, kl_coefficient = policy_loss_arguments(config)
    loss_of = LossWithKL(PolicyLoss(**{**arguments, **correction}), config)
    loss_of.coefficient, total = kl_coefficient, 0.0
    for batch, denominators in windows:
        seen = {"attention_mask": batch.attention_mask}
        logp = policy(batch.sequences, batch.action_mask, **seen)
        with torch.no_grad():
            loss_of.reference = reference(batch.sequences, batch.action_mask, **seen)
        loss, *_ = loss_of(
            logp,
            batch.action_log_probs,
            batch.advantages,
            action_mask=batch.action_mask,
            rollout_log_probs=batch.rollout_log_probs,
            **denominators,
        )
        loss = loss / divisor
        loss.backward()
        total += loss.item()
    return total, gradient(module)


def trl_numbers(config, samples, trainer, old, after):
    """Loss and gradient by TRL's trainer."""
    module = trainer.model
    module.load_state_dict(after.state_dict())
    module.zero_grad()
    module.train()
    settings = {
        "loss_type": "dapo" if config.mean == "token-mean" else "grpo",
        "importance_sampling_level": config.ratio, "beta": 0.0,
        "epsilon_low": config.clip[0], "epsilon_high": config.clip[1],
    }  # fmt: skip
    for name, value in settings.items():
        setattr(trainer, name, value)
    trainer.current_gradient_accumulation_steps = 1
    trainer.args.steps_per_generation = 1
    prompts = [torch.tensor(s.prompt_ids) for s in samples]
    completions = [torch.tensor(s.completion_ids) for s in samples]

    def right(rows, value=0):
        return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=value)

    def left(rows):
        return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_side="left")

    inputs = {
        "prompt_ids": left(prompts),
        "prompt_mask": left([torch.ones_like(p) for p in prompts]),
        "completion_ids": right(completions),
        "completion_mask": right([torch.ones_like(c) for c in completions]),
        "tool_mask": right([torch.tensor(s.completion_mask) for s in samples], 1),
        "advantages": torch.tensor([s.advantage for s in samples]),
        "num_items_in_batch": torch.tensor(sum(sum(s.completion_mask) for s in samples)),
    }
    ids = torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], 1)
    mask = torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], 1)
    width = inputs["completion_ids"].shape[1]
    sampled = right([torch.tensor(s.logprobs) for s in samples])

    module.load_state_dict(old.state_dict())
    with torch.no_grad():
        [inputs["old_per_token_logps"], *_] = trainer._get_per_token_logps_and_entropies(
            module, ids, mask, width
        )
    module.load_state_dict(after.state_dict())
    gap = (inputs["old_per_token_logps"] - sampled) * inputs["completion_mask"] * inputs["tool_mask"]
    inputs["importance_sampling_ratio"] = gap.exp().clamp(max=config.tis_cap)  # its mode "token_truncate"
    trainer.use_vllm = trainer.vllm_importance_sampling_correction = True
    loss = trainer._compute_loss(module, inputs)
    loss.backward()
    return loss.item(), gradient(module)


def of_two(groups):
    """The same groups, in which every second turn is of another policy."""
    names = itertools.cycle(["miniature", "second"])
    return [
        replace(group, turns=tuple(replace(turn, policy=next(names)) for turn in group.turns))
        for group in groups
    ]


@pytest.mark.parametrize("stale", [0, 1])
@pytest.mark.parametrize(("name", "policies"), [*((name, 1) for name in CASES), ("MARSRL", 2), ("MARS2", 2)])
def test_losses_and_gradients_agree(
    request, name, stale, policies, before, old, after, trl_trainer, monkeypatch
):
    case = CASES[name]
    config, rollouts = case.train, request.getfixturevalue(case.rollouts)
    rollouts = rollouts if policies == 1 else of_two(rollouts)
    old, after = old[stale], after[stale]
    numbers = local_numbers(config, rollouts, before, old, after, monkeypatch)
    assert len(numbers) == policies
    for policy, (loss, slope, figures) in numbers.items():
        assert policies == 2 or not stale or all(0 < figures[part] < 1 for part in case.bite), figures
        samples = [s for s in turn_samples(rollouts, config) if s.policy == policy]
        launched = experiences(*by_the_launcher(samples), old, config)
        others = {"launcher": openrlhf_numbers(config, launched, before, after)}
        if config.tis_veto is None:  # TRL has none, nor a weight for its KL term
            others["TRL"] = trl_numbers(config, samples, trl_trainer, old, after)
        assert abs(loss) > 50 * AGREE
        assert slope.norm() > 100 * AGREE
        for trainer, (other, other_slope) in others.items():
            assert other == pytest.approx(loss, abs=AGREE), trainer
            assert (other_slope - slope).abs().max() < AGREE, trainer


def for_every_rule(groups):
    """The same groups with what some rules read: answers, verdicts, gains from the reference."""
    right, wrong = (r"\boxed{1}", Grade.correct()), (r"\boxed{2}", Grade.wrong("another value"))
    answers = itertools.cycle([right, wrong, right])
    verdicts = itertools.cycle([("Correct", 0.5), ("Wrong", -1.0), ("Correct", 2.0)])

    def completed(turn):
        if turn.role != "verifier":
            text, grade = next(answers)
            return replace(turn, action=replace(turn.action, text=text), grade=grade)
        verdict, gain = next(verdicts)
        completions = tuple(replace(c, informed_gain=gain) for c in turn.action.completions)
        action = replace(turn.action, completions=completions)
        return replace(turn, action=action, info={**turn.info, "verdict": verdict})

    return [replace(group, turns=tuple(map(completed, group.turns))) for group in groups]


@pytest.mark.parametrize("name", CREDIT)
def test_every_way_to_credit_a_team_gives_the_same_rows(name, groups, before, old, after, monkeypatch):
    config, rollouts = CREDIT[name], for_every_rule(groups)
    [(loss, slope, _)] = local_numbers(config, rollouts, before, old[1], after[1], monkeypatch).values()
    samples = turn_samples(rollouts, config)
    launched = experiences(*by_the_launcher(samples), old[1], config)
    rows = [float(value) for batch in launched for value in batch.info[ADVANTAGE]]
    assert rows[: len(samples)] == pytest.approx([sample.advantage for sample in samples], abs=1e-6)
    assert any(rows) and not any(rows[len(samples) :])
    other, other_slope = openrlhf_numbers(config, launched, before, after[1])
    assert other == pytest.approx(loss, abs=AGREE)
    assert (other_slope - slope).abs().max() < AGREE


@pytest.mark.parametrize("stale", [0, 1])
def test_the_agent_file_has_openrlhfs_own_correction(groups, stale, before, old, after, monkeypatch):
    config, old, after = MARSRL.train, old[stale], after[stale]
    [(loss, slope, _)] = local_numbers(config, groups, before, old, after, monkeypatch).values()
    rows = experiences(*by_the_agent_file(turn_samples(groups, config)), old)
    correction = {
        "is_correction_level": "token", "is_correction_mode": "clip",
        "is_correction_threshold": [0.0, config.tis_cap],
    }  # fmt: skip
    other, other_slope = openrlhf_numbers(config, rows, before, after, **correction)
    assert other == pytest.approx(loss, abs=AGREE)
    assert (other_slope - slope).abs().max() < AGREE


class OneRank:
    """OpenRLHF's strategy of a run of one rank, as far as dynamic batches ask for it."""

    ring_attn_group = None

    def __init__(self, args):
        self.args = args
        group = SimpleNamespace(get_group=lambda: None)
        self.ds_device_mesh = {"dp": group}

    def all_reduce(self, value, op):
        return value


@pytest.fixture
def one_rank(monkeypatch):
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: "cpu")
    yield
    torch.distributed.destroy_process_group()


def dynamic_buffer(batches, tokens, batch_size):
    """OpenRLHF's replay buffer with the rows, divided by tokens as `TeamPolicyActor.fit` has it divided."""
    from openrlhf.trainer.ppo_utils.experience import split_experience_batch
    from openrlhf.trainer.ppo_utils.replay_buffer import NaiveReplayBuffer

    from mars_env.trainers.openrlhf.workers.actors import one_update, optimizer_steps

    buffer = NaiveReplayBuffer.__new__(NaiveReplayBuffer)
    buffer.dynamic_batch, buffer.packing_samples = True, False
    buffer.items = [item for batch in batches for item in split_experience_batch(batch)]
    args = arguments(len(buffer.items))
    args.train.batch_size, args.train.max_tokens_per_gpu = batch_size, tokens
    args.rollout.batch_size, args.ds = 1000, SimpleNamespace(ring_attn_size=1, tensor_parallel_size=1)
    strategy, rows = OneRank(args), len(buffer.items)
    given = args.train.batch_size, args.rollout.batch_size, args.rollout.n_samples_per_prompt
    with one_update(args, rows, optimizer_steps(rows, batch_size)):
        buffer.setup_dynamic_batch(strategy)
    assert given == (args.train.batch_size, args.rollout.batch_size, args.rollout.n_samples_per_prompt)
    return buffer, strategy


def dynamic_numbers(config, buffer, strategy, before, after):
    """Loss and gradient of one optimiser step over dynamic batches, which DeepSpeed divides by nothing."""
    from openrlhf.utils.loss_utils import get_loss_batch_info

    batches = [buffer.collate_fn([buffer[number]]) for number in range(len(buffer))]
    denominators = [
        get_loss_batch_info(
            strategy, batch.action_mask, replay_buffer=buffer, step=number, dynamic_batch=True
        )
        for number, batch in enumerate(batches)
    ]
    return summed(config, zip(batches, denominators, strict=True), before, after)


@pytest.mark.parametrize("name", ["token-mean", "sequence-mean", "gspo", "kl"])
def test_dynamic_batches_equal_plain_ones(name, groups, before, old, after, one_rank):
    config, samples, after = CASES[name].train, turn_samples(groups, TrainConfig()), after[1]
    plain = experiences(*by_the_launcher(samples), old[1], config)
    loss, slope = openrlhf_numbers(config, plain, before, after)
    buffer, strategy = dynamic_buffer(plain, tokens=600, batch_size=120)
    rows = sum(len(batch.sequences) for batch in plain)
    assert len(buffer) < len(plain) < rows  # passes of one update: dynamic, plain of 4 rows, one by one
    other, other_slope = dynamic_numbers(config, buffer, strategy, before, after)
    assert sum(buffer.dynamic_optimizer_step) == 1
    assert other == pytest.approx(loss, abs=1e-6)
    assert (other_slope - slope).abs().max() < 1e-6


@pytest.mark.parametrize(("rows", "batch_size"), [(7, 120), (24, 24), (24, 12), (36, 20)])
def test_dynamic_batches_lose_no_row_of_an_update_of_any_size(rows, batch_size, groups, old, one_rank):
    samples = turn_samples(groups, TrainConfig())[:rows]
    shape = BatchShape(ranks=1, rollout_micro=1, train_micro=1, batch=batch_size)
    made, maker = by_the_launcher(samples)
    made = responses(samples, shape, temperature=TEMPERATURE, padding_token=0)
    buffer, _ = dynamic_buffer(experiences(made, maker, old[0]), tokens=400, batch_size=batch_size)
    indices = [i for part in buffer.dynamic_indices for i in part]
    assert sorted(indices) == list(range(len(made)))
    assert sum(buffer.dynamic_optimizer_step) == -(-len(made) // batch_size)


@pytest.mark.parametrize(("name", "counted"), [("token-mean", "tokens"), ("sequence-mean", "rows")])
def test_fillers_of_the_agent_file_count_in_the_denominators(groups, name, counted, before, old, after):
    """And in nothing else: the loss is smaller by their share, which docs/other-trainers.md says."""
    samples, config, after = turn_samples(groups, TrainConfig()), CASES[name].train, after[0]

    def loss_with(fillers):
        rows = experiences(*by_the_agent_file(samples, fillers), old[0])
        return openrlhf_numbers(config, rows, before, after)[0]

    bare, filled = loss_with(0), loss_with(7)
    real = len(samples) if counted == "rows" else sum(sum(s.completion_mask) for s in samples)
    assert filled == pytest.approx(bare * real / (real + 7), abs=AGREE)
