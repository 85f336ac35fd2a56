"""Debate: two debaters answer; a judge picks one answer, the team's. The tutorial is docs/first-game.md."""

import mars_env
from mars_env import ask, game
from mars_env.agents import RoleAgent
from mars_env.models import tiny_model
from mars_env.trainers import MARSRL


class Debater(RoleAgent):
    template = "{{ problem }}\n{{ answers }}="


def picked_right(turn, path, problem):
    return path[turn.info["choice"]].grade.score


def parse_choice(text):
    return {"choice": int("1" in text)}


@game(
    max_turns=3,
    roles={"debater_0": Debater, "debater_1": Debater, "judge": Debater},
    rewards={"judge": picked_right},
)
def debate(problem):
    first = yield ask("debater_0", problem=problem.statement)
    answers = f"0: {first.text}\n"
    second = yield ask("debater_1", problem=problem.statement, answers=answers)
    answers += f"1: {second.text}\n"
    verdict = yield ask("judge", problem=problem.statement, answers=answers, graded=False, parse=parse_choice)
    return [first, second][verdict.info["choice"]]


if __name__ == "__main__":
    larger = [mars_env.Problem(a + b, a + b, max(a, b)) for a in "12345" for b in "12345" if a != b]
    run = MARSRL.with_(
        steps=15, problems_per_step=8, sampling={"max_tokens": 1}, train={"learning_rate": 1e-2}
    )
    for step in mars_env.train(debate, models=tiny_model("0123456789:=\n"), problems=larger, run=run):
        print(step.step, {role: round(figures["reward"], 2) for role, figures in step.roles.items()})
