"""Same rollouts, same numbers: advantages, losses and gradients of the local trainer, of OpenRLHF and of TRL.

Everything runs in this process, on CPU tensors, with the real classes of the three. docs/other-trainers.md
says which settings correspond.
"""

import asyncio
import copy
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import pytest
import torch
from real_engines import shaken

from mars_env import load_problems
from mars_env.envs import Game, GroupedSettings, SolveVerifyCorrect, grouped
from mars_env.envs.solve_verify_correct import TRAINING
from mars_env.grading import grader_for
from mars_env.miniature import load
from mars_env.miniature.agents import LIMITS, MiniatureAgent
from mars_env.rollout import collect, groups_of
from mars_env.rollout.groups import step_jobs
from mars_env.trainers.config import Credit, Overlong, TrainConfig, TreeCredit
from mars_env.trainers.local import LocalTrainer, Policy
from mars_env.trainers.openrlhf.agent_file.rows import training_rows
from mars_env.trainers.openrlhf.rollouts.responses import BatchShape, responses
from mars_env.trainers.samples import turn_samples
from mars_env.types import Tree

AGREE = 1e-5
TEMPERATURE = 0.8
TRL_CAP = 1.2


@dataclass(frozen=True)
class Case:
    """One loss in the words of each trainer."""

    local: dict
    openrlhf: dict  # arguments of its PolicyLoss
    trl: dict = field(default_factory=dict)  # attributes of its trainer
    old: str = "rollout"  # whose log-probabilities the ratio's denominator is
    kl: float = 0.0
    team: dict = field(default_factory=dict)  # settings of the team, which OpenRLHF and TRL do not have
    bite: tuple = ()  # metrics that show that they act


pytestmark = pytest.mark.usefixtures("shim")

CLIP = {"clip_low": 0.2, "clip_high": 0.28}
CLIP_EPS = {"clip_eps_low": 0.2, "clip_eps_high": 0.28}
EPSILON = {"epsilon_low": 0.2, "epsilon_high": 0.28}
GSPO = {"policy_loss_type": "gspo", "clip_eps_low": 3e-4, "clip_eps_high": 4e-4}
CASES = {
    "token-mean": Case({"aggregation": "token-mean", **CLIP}, CLIP_EPS, EPSILON),
    "sequence-mean": Case(
        {"aggregation": "sequence-mean", **CLIP},
        {**CLIP_EPS, "token_level_loss": False},
        {**EPSILON, "loss_type": "grpo"},
    ),
    "dual clip": Case({**CLIP, "dual_clip": 1.3}, {**CLIP_EPS, "dual_clip": 1.3}, {**EPSILON, "delta": 1.3}),
    "gspo": Case(  # of MARS2: `openrlhf_on_cpu.MARS2_LOSS`
        {"ratio": "sequence"},
        GSPO,
        {
            "loss_type": "grpo",
            "importance_sampling_level": "sequence",
            "epsilon_low": 3e-4,
            "epsilon_high": 4e-4,
        },
    ),
    "importance correction": Case(
        {"aggregation": "token-mean", "tis_cap": TRL_CAP, "tis_veto": None},
        {
            "is_correction_level": "token",
            "is_correction_mode": "clip",
            "is_correction_threshold": [0.0, TRL_CAP],
        },
        {},
        old="trainer",
    ),
    "gspo with weights": Case(  # MARS2's
        {"ratio": "sequence"},
        GSPO,
        old="trainer",
        team={"tis_cap": 1.1, "tis_veto": 0.7},
        bite=("importance", "vetoed"),
    ),
    "mastered tokens": Case(  # MarsRL's
        {"ratio": "token"},
        {},
        old="trainer",
        team={"tis_cap": 1.2, "dmmpt_threshold": 0.9},
        bite=("mastered",),
    ),
    "kl": Case({"aggregation": "token-mean", "kl_coefficient": 0.1}, {}, {"beta": 0.1}, kl=0.1),
}


@pytest.fixture(scope="module")
def before():
    """The weights that play."""
    torch.set_num_threads(1)
    return load()


@pytest.fixture(scope="module")
def groups(before):
    """MarsRL: groups of a Solver, Verifiers and Correctors on four problems, one turn of unknown reward."""
    agents = {f"{r}_0": MiniatureAgent(r, before, temperature=TEMPERATURE, max_tokens=24) for r in LIMITS}
    grower = grouped(GroupedSettings(group=5, branches=1))
    game = Game(SolveVerifyCorrect(TRAINING), grader_for("math"), grower=grower)
    problems = load_problems("arithmetic", seed=1, split="train")
    jobs = step_jobs(problems, step=0, problems_per_step=4, seed=1)
    trees = asyncio.run(collect(game, agents, jobs, seed=1))
    first, *rest = groups_of(trees)
    lost = replace(first.turns[0], reward=None)
    called = [with_calls(turn) if i % 2 else turn for i, turn in enumerate(first.turns[1:])]
    return [replace(first, turns=(lost, *called)), *rest]


def with_calls(turn):
    """The turn as one that called a tool twice: what was sampled, a result, and again."""
    [first] = turn.action.completions
    completions = [first]
    for result in ((7, 5, 9), (6,)):
        read = (*completions[-1].prompt_ids, *completions[-1].token_ids, *result)
        completions.append(replace(first, prompt_ids=read))
    action = replace(turn.action, completions=tuple(completions))
    assert len(action.chains) == 1
    return replace(turn, action=action)


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
def after(before):
    """Weights a few updates later: ratios differ from 1, some are clipped."""
    return shaken(load().module.float(), seed=0, size=0.005)


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
        use_bias_correction_kl=False,  # TRL's default weighs the k3 term with the ratio
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


def local_numbers(case, groups, config, before, after):
    """Loss and gradient of one update by `LocalTrainer`, whole."""
    module = copy.deepcopy(after)
    changes = {"max_grad_norm": 1e9, "old_logprobs": case.old, **case.local, **case.team}
    config = config.model_copy(update=changes)
    trainer = LocalTrainer({"miniature": Policy(module, reference=before.module)}, config)
    figures = trainer.step(groups).policies["miniature"]
    assert case.old == "trainer" or figures["clipped"] > 0
    assert all(0 < figures[name] < 1 for name in case.bite), figures
    return figures["loss"], gradient(module)


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
    rows = responses(samples, shape, temperature=TEMPERATURE, padding_token=0, ages={})
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


def experiences(rows, kind, credit=None, policy=None):
    """What OpenRLHF makes of the rows: its generator's conversion, its replay buffer, its padding.

    `policy` gives the log-probabilities that the weights of `credit` are computed of.
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
            maker.credit, mask = credit, batch.attention_mask
            with torch.no_grad():
                batch.action_log_probs = actor(policy)(
                    batch.sequences, batch.action_mask, attention_mask=mask
                )
    batches = maker.compute_advantages_and_returns(batches)
    items = [item for batch in batches for item in split_experience_batch(batch)]
    return [make_experience_batch(items[i : i + 4]) for i in range(0, len(items), 4)]


def openrlhf_numbers(case, batches, before, after):
    """Loss and gradient of one optimiser step over plain micro-batches."""
    from openrlhf.utils.loss_utils import iter_grad_accum_global_norm

    windows = iter_grad_accum_global_norm(iter(batches), None, len(batches), lambda batch: batch.action_mask)
    return summed(case, windows, before, after, len(batches))  # as DeepSpeed with accumulated gradients


def summed(case, windows, before, after, divisor=1):
    """Loss and gradient over micro-batches and their denominators: OpenRLHF's actor and loss."""
    from openrlhf.models.loss import PolicyLoss, aggregate_loss
    from openrlhf.models.utils import compute_approx_kl

    module = copy.deepcopy(after)
    policy, reference, loss_of = actor(module), actor(before.module), PolicyLoss(**case.openrlhf)
    total = 0.0
    for batch, denominators in windows:
        logp = policy(batch.sequences, batch.action_mask, attention_mask=batch.attention_mask)
        old = logp.detach() if case.old == "trainer" else batch.rollout_log_probs * batch.action_mask
        loss, *_ = loss_of(
            logp,
            old,
            batch.advantages,
            action_mask=batch.action_mask,
            rollout_log_probs=batch.rollout_log_probs,
            **denominators,
        )
        if case.kl:
            with torch.no_grad():
                base = reference(batch.sequences, batch.action_mask, attention_mask=batch.attention_mask)
            kl = compute_approx_kl(logp, base, log_probs_old=old, kl_estimator="k3")
            loss = loss + case.kl * aggregate_loss(kl, batch.action_mask, **denominators)
        loss = loss / divisor
        loss.backward()
        total += loss.item()
    return total, gradient(module)


def trl_numbers(case, samples, trainer, before, after):
    """Loss and gradient by TRL's trainer."""
    module = trainer.model
    module.load_state_dict(after.state_dict())
    module.zero_grad()
    module.train()
    plain = {
        "loss_type": "dapo", "importance_sampling_level": "token", "beta": 0.0,
        "epsilon_low": 0.2, "epsilon_high": 0.2, "delta": None,
    }  # fmt: skip
    for name, value in (plain | case.trl).items():
        setattr(trainer.args if name == "delta" else trainer, name, value)
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
    if case.old == "rollout":
        inputs["old_per_token_logps"] = sampled
    if case.kl:
        module.load_state_dict(before.module.state_dict())
        with torch.no_grad():
            inputs["ref_per_token_logps"], *_ = trainer._get_per_token_logps_and_entropies(
                module, ids, mask, width
            )
        module.load_state_dict(after.state_dict())
    trainer.use_vllm = trainer.vllm_importance_sampling_correction = case.old == "trainer"
    if case.old == "trainer":
        with torch.no_grad():
            old, *_ = trainer._get_per_token_logps_and_entropies(module, ids, mask, width)
        gap = (old - sampled) * inputs["completion_mask"] * inputs["tool_mask"]
        inputs["importance_sampling_ratio"] = gap.exp().clamp(max=TRL_CAP)  # its mode "token_truncate"
    loss = trainer._compute_loss(module, inputs)
    loss.backward()
    return loss.item(), gradient(module)


CREDIT = TrainConfig(tree_credit=TreeCredit(), overlong=Overlong(limit=24, buffer=8))


@pytest.mark.parametrize("which", ["groups", "tree"])
@pytest.mark.parametrize("name", CASES)
def test_losses_and_gradients_agree(request, name, which, before, after, trl_trainer):
    case, rollouts = CASES[name], request.getfixturevalue(which)
    config = TrainConfig() if which == "groups" else CREDIT
    samples = turn_samples(rollouts, config)
    loss, slope = local_numbers(case, rollouts, config, before, after)
    launched = experiences(*by_the_launcher(samples), Credit(**case.team), after)
    others = {"launcher": openrlhf_numbers(case, launched, before, after)}
    if not case.team:
        agent_file = experiences(*by_the_agent_file(samples))
        others["agent file"] = openrlhf_numbers(case, agent_file, before, after)
        others["TRL"] = trl_numbers(case, samples, trl_trainer, before, after)
    assert abs(loss) > 50 * AGREE
    assert slope.norm() > 100 * AGREE
    for trainer, (other, other_slope) in others.items():
        assert other == pytest.approx(loss, abs=AGREE), trainer
        assert (other_slope - slope).abs().max() < AGREE, trainer


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


def dynamic_numbers(case, buffer, strategy, before, after):
    """Loss and gradient of one optimiser step over dynamic batches, which DeepSpeed divides by nothing."""
    from openrlhf.utils.loss_utils import get_loss_batch_info

    batches = [buffer.collate_fn([buffer[number]]) for number in range(len(buffer))]
    denominators = [
        get_loss_batch_info(
            strategy, batch.action_mask, replay_buffer=buffer, step=number, dynamic_batch=True
        )
        for number, batch in enumerate(batches)
    ]
    return summed(case, zip(batches, denominators, strict=True), before, after)


@pytest.mark.parametrize("name", ["token-mean", "sequence-mean", "gspo", "importance correction"])
def test_dynamic_batches_equal_plain_ones(name, groups, before, after, one_rank):
    case, samples = CASES[name], turn_samples(groups, TrainConfig())
    plain = experiences(*by_the_launcher(samples))
    loss, slope = openrlhf_numbers(case, plain, before, after)
    buffer, strategy = dynamic_buffer(plain, tokens=600, batch_size=120)
    rows = sum(len(batch.sequences) for batch in plain)
    assert len(buffer) < len(plain) < rows  # passes of one update: dynamic, plain of 4 rows, one by one
    other, other_slope = dynamic_numbers(case, buffer, strategy, before, after)
    assert sum(buffer.dynamic_optimizer_step) == 1
    assert other == pytest.approx(loss, abs=1e-6)
    assert (other_slope - slope).abs().max() < 1e-6


@pytest.mark.parametrize(("rows", "batch_size"), [(7, 120), (24, 24), (24, 12), (36, 20)])
def test_dynamic_batches_lose_no_row_of_an_update_of_any_size(rows, batch_size, groups, one_rank):
    samples = turn_samples(groups, TrainConfig())[:rows]
    shape = BatchShape(ranks=1, rollout_micro=1, train_micro=1, batch=batch_size)
    made, maker = by_the_launcher(samples)
    made = responses(samples, shape, temperature=TEMPERATURE, padding_token=0, ages={})
    buffer, _ = dynamic_buffer(experiences(made, maker), tokens=400, batch_size=batch_size)
    indices = [i for part in buffer.dynamic_indices for i in part]
    assert sorted(indices) == list(range(len(made)))
    assert sum(buffer.dynamic_optimizer_step) == -(-len(made) // batch_size)


@pytest.mark.parametrize(("name", "counted"), [("token-mean", "tokens"), ("sequence-mean", "rows")])
def test_fillers_of_the_agent_file_count_in_the_denominators(groups, name, counted, before, after):
    """And in nothing else: the loss is smaller by their share, which docs/other-trainers.md says."""
    samples, case = turn_samples(groups, TrainConfig()), CASES[name]
    bare, _ = openrlhf_numbers(case, experiences(*by_the_agent_file(samples)), before, after)
    filled, _ = openrlhf_numbers(case, experiences(*by_the_agent_file(samples, 7)), before, after)
    real = len(samples) if counted == "rows" else sum(sum(s.completion_mask) for s in samples)
    assert filled == pytest.approx(bare * real / (real + 7), abs=AGREE)
