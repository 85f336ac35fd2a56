"""PromptCoT 2.0's cold start, E-step and M-step on random tiny models, and that a killed loop continues."""

from dataclasses import replace

import pytest
import torch
from letters import Writing
from tiny_team import flat

from mars_env.errors import ConfigError, ContextError, StoreError
from mars_env.methods.promptcot.designs import Design, score_design
from mars_env.methods.promptcot.training import (
    PROBLEM,
    RATIONALE,
    Designers,
    Loop,
    alternate,
    cold_start,
    e_step,
    explain,
    m_step,
)
from mars_env.miniature.model import ModelSize, build_model, build_tokenizer
from mars_env.miniature.protocol import END, PAD
from mars_env.models import HFModel
from mars_env.seeds import derive_seed
from mars_env.trainers.config import TrainConfig
from mars_env.types import Sampling

VOCABULARY = [PAD, END, *"abcdxyz/:;"]
SAMPLING = Sampling(max_tokens=3)
CONFIG = TrainConfig(learning_rate=1e-2)
DESIGNS = [Design((c,), x, z) for c, x, z in (("a", "xx", "cd"), ("b", "yz", "d"), ("a", "zx", "dd"))]


def designers(seed=0):
    tokenizer = build_tokenizer(VOCABULARY, [PAD, END], "[a-dxyz/:;]")
    shape = ModelSize(hidden=16, feed_forward=16, layers=1)
    p, q = (
        HFModel((build_model(seed + i, len(VOCABULARY), shape), tokenizer), device="cpu", name=name)
        for i, name in enumerate((PROBLEM, RATIONALE))
    )
    return Designers(p, q, Writing())


def test_the_texts_of_both_models_have_exact_ids():
    both, design = designers(), DESIGNS[0]
    text, rationale = both.problem_text(design), both.rationale_text(design)
    ids = both.problem.encode
    assert (text.prompt_ids, text.token_ids) == (ids("a:"), (*ids("cd;"), *ids("xx"), 1))
    assert (rationale.prompt_ids, rationale.token_ids) == (ids("a/xx:"), (*ids("cd"), 1))
    with pytest.raises(ConfigError):
        both.problem_text(replace(design, rationale=""))


def test_a_cold_start_teaches_both_models_their_designs():
    both = designers()
    curve = cold_start(both, both.trainer(CONFIG), DESIGNS, steps=80, batch=3)
    assert curve[-1][PROBLEM] < 0.5 < curve[0][PROBLEM] and curve[-1][RATIONALE] < 0.5
    with pytest.raises(ConfigError):
        cold_start(both, both.trainer(CONFIG), [], steps=1)


async def test_the_e_step_imitates_the_sample_with_the_largest_r_and_nothing_else():
    both, loop = designers(), Loop(batch=2, candidates=6, sampling=SAMPLING, seed=5)
    cold_start(both, both.trainer(CONFIG), DESIGNS, steps=15)
    expected, rewards = [], []
    for place, design in enumerate(DESIGNS[:2]):  # by hand: sample, score, choose
        seed = derive_seed(5, "rationales", 7, place)
        prompt = both.writing.from_problem(design.concepts, design.problem)
        samples = await both.rationale.complete(prompt, 6, replace(SAMPLING, seed=seed))
        found = [replace(design, rationale=c.text) for c in samples if c.text.strip(";") and not c.cut]
        found = [d for d in found if ";" not in d.rationale]
        joint = [(await score_design(both.problem, both.writing, d)).joint for d in found]
        rewards.append(joint)
        expected.append(found[joint.index(max(joint))])
    other = designers()
    for mine, theirs in ((other.problem, both.problem), (other.rationale, both.rationale)):
        mine.module.load_state_dict(theirs.module.state_dict())
    before = flat(both.problem.module)
    texts, scores = await e_step(both, DESIGNS[:2], loop, 7)
    both.trainer(CONFIG).imitate(texts.completions)
    assert [len(row) for row in scores] == [len(row) for row in rewards]
    for mine, theirs in zip(scores, rewards, strict=True):
        assert mine == pytest.approx(theirs, abs=1e-3)
    assert max(map(len, rewards)) > 1
    other.trainer(CONFIG).imitate({RATIONALE: [other.rationale_text(d) for d in expected]})
    assert torch.equal(flat(both.rationale.module), flat(other.rationale.module))
    assert torch.equal(flat(both.problem.module), before)


async def test_the_m_step_imitates_greedy_rationales():
    both, loop = designers(), Loop(sampling=SAMPLING)
    cold_start(both, both.trainer(CONFIG), DESIGNS, steps=60)
    explained = await explain(both, DESIGNS, SAMPLING)
    assert explained == await explain(both, DESIGNS, SAMPLING)  # greedy: no randomness
    other = designers()
    other.problem.module.load_state_dict(both.problem.module.state_dict())
    before = flat(both.rationale.module)
    both.trainer(CONFIG).imitate((await m_step(both, DESIGNS, loop)).completions)
    other.trainer(CONFIG).imitate({PROBLEM: [other.problem_text(d) for d in explained if d]})
    assert torch.equal(flat(both.problem.module), flat(other.problem.module))
    assert torch.equal(flat(both.rationale.module), before)


@pytest.mark.parametrize("improve", [True, False])
async def test_a_loop_that_stops_continues_bitwise_the_same(tmp_path, improve):
    loop = Loop(steps=4, batch=2, candidates=3, sampling=SAMPLING, improve_rationales=improve)

    async def run(folder, steps):
        both = designers()
        cold_start(both, both.trainer(CONFIG), DESIGNS, steps=15)
        fixed = flat(both.rationale.module)
        shorter = loop.model_copy(update={"steps": steps})
        trainer = both.trainer(CONFIG, DESIGNS, shorter)
        figures = await alternate(both, trainer, DESIGNS, shorter, directory=folder, checkpoint_every=1)
        assert torch.equal(flat(both.rationale.module), fixed) != improve
        return flat(both.problem.module), flat(both.rationale.module), figures

    whole = await run(tmp_path / "whole", 4)
    await run(tmp_path / "cut", 2)
    rest, each = await run(tmp_path / "cut", 4), 1 + improve
    assert torch.equal(whole[0], rest[0]) and torch.equal(whole[1], rest[1])
    assert [metrics.step for metrics in rest[2]] == [*range(2 * each + 1, 4 * each + 1)]
    assert [m.policies for m in whole[2][2 * each :]] == [m.policies for m in rest[2]]


@pytest.mark.parametrize(("designs", "changes"), [(DESIGNS[:2], {}), (DESIGNS, {"seed": 1})])
async def test_the_directory_of_another_loop_is_refused(tmp_path, designs, changes):
    loop = Loop(steps=1, batch=2, candidates=2, sampling=SAMPLING)

    async def run(designs, **changes):
        both = designers()
        chosen = loop.model_copy(update=changes)
        trainer = both.trainer(CONFIG, designs, chosen)
        figures = await alternate(both, trainer, designs, chosen, directory=tmp_path)
        return len(figures), trainer.steps

    assert await run(DESIGNS) == (2, 2)
    with pytest.raises(StoreError):
        await run(designs, **changes)
    assert await run([replace(d, rationale="") for d in DESIGNS], steps=2) == (2, 4)  # they are not read


def narrowed(both, context):
    """The same, with a problem model of a shorter context."""
    pair = both.problem.module, both.problem.tokenizer
    return replace(both, problem=HFModel(pair, device="cpu", name=PROBLEM, context=context))


async def test_texts_beyond_the_problem_models_context_neither_end_the_loop_nor_are_trained_on():
    both = designers()
    cold_start(both, both.trainer(CONFIG), DESIGNS, steps=60)
    loop = Loop(candidates=8, sampling=SAMPLING)
    _, fitting = await e_step(narrowed(both, len("a:d;zx") + 1), DESIGNS, loop, 0)
    _, everything = await e_step(both, DESIGNS, loop, 0)
    assert sum(map(len, fitting)) < sum(map(len, everything)) <= 24
    explained = [design for design in await explain(both, DESIGNS, SAMPLING) if design is not None]
    lengths = [len(t.prompt_ids) + len(t.token_ids) for t in map(both.problem_text, explained)]
    assert min(lengths) < max(lengths)
    asked = narrowed(both, max(lengths) - 1)
    texts = await m_step(asked, DESIGNS, Loop(sampling=SAMPLING))
    assert len(texts.completions[PROBLEM]) == sum(length < max(lengths) for length in lengths)
    with pytest.raises(ContextError):
        cold_start(asked, asked.trainer(CONFIG), explained, steps=1)
