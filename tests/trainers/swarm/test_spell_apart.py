"""SPELL with samplers in another place: its rollouts are apart from the training, and end alike."""

import asyncio

import torch

from mars_env.methods.spell.training import MEMORY, SpellRun, SpellSettings, train_spell
from mars_env.models import BatchLimits, HFModel
from mars_env.trainers import Policy, make_team
from mars_env.trainers.swarm import Swarm, run_sampler
from studies.spell import lookups

SETTINGS = lookups.run_settings(seed=3, steps=2, clusters=3, rate=1e-3)
SPELL = SpellSettings(group=4, verifiers=2, fresh=2, questions=3, tries=2, verifier_turns=2.0)


def model(start):
    """The warm start with weights of its own. Each sample is a batch, whatever the timing."""
    module = lookups.build_model(0, len(lookups.VOCABULARY), lookups.SHAPE)
    module.load_state_dict(start.module.state_dict())
    return HFModel((module, start.tokenizer), device="cpu", name="speller", batch=BatchLimits(1))


async def test_with_samplers_elsewhere_a_run_is_bitwise_the_run_in_one_process(tmp_path):
    """All three roles act in the sampler; documents, memory, grading and rewards stay in the learner."""
    torch.set_num_threads(1)
    start = lookups.warm_started(steps=60)
    clusters = lookups.clusters(3, 4)
    here, there, trained = model(start), model(start), model(start)
    team = make_team(SETTINGS, lookups.NAMES, [here], agent=lookups.player)
    await train_spell(SpellRun(team, clusters, SETTINGS, SPELL), directory=tmp_path / "here")

    policies = {"speller": Policy(trained.module, trained.tokenizer)}
    names = dict.fromkeys(lookups.NAMES, "speller")
    async with Swarm(names, policies, tmp_path / "weights") as swarm:
        players = {name: lookups.player(name, there) for name in lookups.NAMES}
        sampler = asyncio.create_task(run_sampler(players, {"speller": there}, swarm.url))
        run = SpellRun(swarm.team, clusters, SETTINGS, SPELL)
        history = await train_spell(run, directory=tmp_path / "apart")
    assert await sampler > 0 and len(history) == 2
    memories = [(tmp_path / name / MEMORY).read_text() for name in ("here", "apart")]
    assert memories[0] == memories[1] and "question" in memories[0]
    one, other = here.module.state_dict(), trained.module.state_dict()
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert any(not torch.equal(one[name], value) for name, value in start.module.state_dict().items())
