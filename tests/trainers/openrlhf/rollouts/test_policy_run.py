"""Several policies, several runs of Weights & Biases: wandb's own rules, played by a stand-in."""

import sys
from types import SimpleNamespace as S

import pytest

from mars_env.trainers.openrlhf.policies import arguments_of
from mars_env.trainers.openrlhf.rollouts.policy_run import PolicyRun


class Run:
    def __init__(self, **given):
        self.given, self.rows, self.open = given, [], True

    def define_metric(self, *args, **kwargs):
        pass

    def log(self, row):
        assert self.open, "the run has ended"
        self.rows.append(row)

    def finish(self):
        self.open = False


class Wandb:
    """As wandb: ``reinit=True`` ends the runs that are open, ``"create_new"`` does not."""

    def __init__(self):
        self.runs, self.api = [], S(api_key="known")

    def init(self, *, reinit, **given):
        if reinit != "create_new":
            for run in self.runs:
                run.finish()
        self.runs.append(Run(**given))
        return self.runs[-1]

    def Table(self, columns, data):
        return (tuple(columns), [tuple(row) for row in data])


@pytest.fixture
def wandb(monkeypatch):
    made = Wandb()
    monkeypatch.setitem(sys.modules, "wandb", made)
    return made


def arguments(group=None):
    return S(
        actor=S(model_name_or_path=None),
        ckpt=S(path="c", output_dir="m"),
        train=S(seed=1),
        logger=S(
            tensorboard_dir=None,
            wandb=S(key="secret", org="lab", project="project", group=group, run_name="night"),
        ),
    )


@pytest.mark.parametrize(("group", "expected"), [(None, "night"), ("sweep", "sweep")])
def test_policies_have_runs_of_one_group_that_are_open_together(wandb, group, expected):
    one, two = (PolicyRun(arguments_of(arguments(group), name, "base")) for name in ("one", "two"))
    one.log_train(1, {"policy_loss": 0.5, "nothing": None, "generated_samples": ["text", 1.0]})
    two.log_eval(1, {"eval_aime25_pass1": 0.25})
    one.close()
    two.log_train(2, {"policy_loss": 0.25})
    first, second = wandb.runs
    assert [run.given["name"] for run in wandb.runs] == ["night_one", "night_two"]
    assert {run.given["group"] for run in wandb.runs} == {expected}
    assert first.rows[0]["train/generated_samples"][1] == [(1, "text", 1.0)]
    assert first.rows[1] == {"train/policy_loss": 0.5, "train/global_step": 1}
    assert second.rows == [
        {"eval/eval_aime25_pass1": 0.25, "eval/global_step": 1},
        {"train/policy_loss": 0.25, "train/global_step": 2},
    ]


def test_the_key_is_not_among_the_settings_of_the_run(wandb):
    PolicyRun(arguments())
    [run] = wandb.runs
    assert "secret" not in repr(run.given)
    assert run.given["config"]["logger"]["wandb"]["project"] == "project"
