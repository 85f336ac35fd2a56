"""What a run must have in common with the one that it continues."""

import pytest
import torch
from toy_training import tiny_model

from mars_env.agents import Solver
from mars_env.models import ScriptedModel
from mars_env.trainers.checkpoints import describe_team, fingerprint_weights
from mars_env.trainers.local import Policy


def test_only_weights_that_no_checkpoint_holds_have_a_fingerprint():
    one, same, other = tiny_model(seed=0), tiny_model(seed=0), tiny_model(seed=1)
    told = fingerprint_weights(
        {"mars": Policy(tiny_model(), reference=one), "free": Policy(tiny_model(seed=2))}
    )
    assert told.keys() == {"mars"}
    assert told == fingerprint_weights({"mars": Policy(other, reference=same)})
    assert told != fingerprint_weights({"mars": Policy(tiny_model(), reference=other)})


def test_the_base_of_adapters_has_a_fingerprint_whatever_the_adapters_have_learnt():
    pytest.importorskip("peft", reason="adapters need the extra lora")
    from mars_env.trainers.lora import add_adapters

    def policies(seed):
        adapters = add_adapters(tiny_model(seed), ["solver", "verifier"], seed=0)
        return {name: Policy(adapter) for name, adapter in adapters.items()}

    learning = policies(0)
    before = fingerprint_weights(learning)
    with torch.no_grad():
        for parameter in learning["solver"].model.parameters():
            parameter += 1
    assert before == fingerprint_weights(learning) == fingerprint_weights(policies(0))
    assert before != fingerprint_weights(policies(1))


def test_of_the_models_of_trained_policies_only_counts_how_they_read_messages():
    class Engine(ScriptedModel):
        options = None

        def identity(self):
            return {**super().identity(), "template_options": self.options}

    def told(trained, **options):
        return describe_team(
            {"solver_0": Solver(options.pop("model", ScriptedModel(["4"])), **options)}, trained
        )

    other = Engine(["5"])
    assert told(["scripted"])["solver_0"]["model"] == {}
    assert told([]) != told([], model=other)
    assert told(["scripted"]) != told(["scripted"], system="Be brief.")
    before = told(["scripted"], model=other)
    other.options = {"enable_thinking": False}
    assert before != told(["scripted"], model=other)
