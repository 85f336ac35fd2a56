"""What a run must have in common with the one that it continues."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_training import tiny_model

from mars_env.agents import Solver
from mars_env.models import ScriptedModel
from mars_env.trainers.checkpoints import describe_team, describe_weights
from mars_env.trainers.policy import Policy


def frozen(model, reference=None):
    return describe_weights({"mars": Policy(model, reference=reference)})["frozen"]


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_a_reference_counts_with_each_of_its_values_and_trained_weights_do_not(data):
    reference = tiny_model()
    before = frozen(tiny_model(seed=1), reference)
    assert before == frozen(tiny_model(seed=2), tiny_model()) and frozen(tiny_model()) == {}
    tensor = data.draw(st.sampled_from([*reference.state_dict().values()])).view(-1)
    place = data.draw(st.integers(0, len(tensor) - 1))
    tensor[place] = torch.nextafter(tensor[place], torch.tensor(torch.inf))
    assert before != frozen(tiny_model(seed=1), reference)


def test_the_base_of_adapters_counts_whatever_the_adapters_have_learnt():
    pytest.importorskip("peft", reason="adapters need the extra lora")
    from mars_env.trainers.lora import add_adapters

    def policies(seed):
        adapters = add_adapters(tiny_model(seed), ["solver", "verifier"], seed=0)
        return {name: Policy(adapter) for name, adapter in adapters.items()}

    learning = policies(0)
    before = describe_weights(learning)
    with torch.no_grad():
        for parameter in learning["solver"].model.parameters():
            parameter += 1
    assert before == describe_weights(learning) == describe_weights(policies(0))
    assert before != describe_weights(policies(1))


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
