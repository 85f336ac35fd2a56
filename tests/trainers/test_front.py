"""`mars_env.train`: a game, a model and problems are enough."""

import mars_env
from mars_env import ask, game
from mars_env.agents import RoleAgent
from mars_env.models import tiny_model
from mars_env.trainers import MARSRL
from mars_env.types import Sampling


class Adder(RoleAgent):
    template = "{{ problem }}{{ first }}"


def has_digit(turn, path, problem):
    return float(any(letter.isdigit() for letter in turn.text))


@game(
    max_turns=2, roles={"adder": Adder, "checker": Adder}, rewards={"checker": has_digit, "adder": has_digit}
)
def added_twice(problem):
    first = yield ask("adder", problem=problem.statement)
    second = yield ask("checker", problem=problem.statement, first=first.text)
    return second


def test_a_game_is_trained_by_one_call(tmp_path):
    sums = [mars_env.Problem(f"{a}", f"{a}+1=", str(a + 1)) for a in range(4)]
    changes = {"steps": 3, "problems_per_step": 2, "sampling": Sampling(max_tokens=1)}
    run = MARSRL.model_copy(update=changes)
    history = mars_env.train(
        added_twice, models=tiny_model("0123456789+="), problems=sums, run=run, out=tmp_path / "run"
    )
    assert [step.step for step in history] == [1, 2, 3] and {*history[0].roles} == {"adder", "checker"}
