"""Rewards of your own: short right answers, and a Verifier that is paid for saving work.

python examples/own_reward.py
"""

import mars_env


def short_and_right(turn, path, problem):
    """A function of a turn, the turns before it and the problem; None is an unknown reward."""
    if turn.grade.score is None:
        return None
    return turn.grade.score - 0.001 * len(turn.text.split())


def saves_work(turn, path, problem):
    """A right acceptance is worth more than a right objection."""
    judged = path[-1].grade
    if judged is None or judged.score is None:
        return None
    if turn.info["malformed"]:
        return 0.0
    accepted = turn.info["verdict"] == "Correct"
    return float(accepted == (judged.score == 1)) * (1.0 if accepted else 0.8)


agents = {
    "solver": lambda observation: r"I guess \boxed{25}.",
    "verifier": lambda observation: "Nothing is justified.\nCorrectness: Wrong",
    "corrector": lambda observation: r"Having read the report, I guess \boxed{26}.",
}
rewards = {"solver": short_and_right, "verifier": saves_work}
report = mars_env.evaluate("aime-solve-verify-correct", agents=agents, rewards=rewards, limit=5)
for role in ("solver", "verifier", "corrector"):
    print(role, round(report.metrics[f"reward:{role}"].estimate.value, 3))
