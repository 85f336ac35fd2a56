"""Evaluate a team of one API model on AIME 2025, with what the run may cost.

export MY_KEY=...
python examples/evaluate_api.py 'https://api.example.com/v1#model-name?api_key_env=MY_KEY&max_tokens=16384'

The first call downloads the problems (pip install -e '.[datasets]'); a file of your own works as well. The
same command continues an interrupted run.
"""

import argparse

import mars_env

parser = argparse.ArgumentParser(description="Evaluate a team of one API model.")
parser.add_argument("agents", help="an endpoint, the model's name and its options")
parser.add_argument("--problems", default="aime25", help="a problem set or a file")
parser.add_argument("--limit", type=int, help="how many problems, from the first")
parser.add_argument("--out", default="runs/api")
given = parser.parse_args()

report = mars_env.evaluate(
    "aime-solve-verify-correct",
    agents=given.agents,
    problems=given.problems,
    limit=given.limit,
    samples=4,
    prices={"": (0.15, 0.60)},  # of a million tokens, read and sampled; the empty name: any model
    out=given.out,
)
print(report)
print(f"{report.headline}; {report.cost:.4f} dollars")
