"""Two models search one tree of programs; the same budget without a tree stands beside it.

python examples/search_two_models.py http://localhost:8000/v1#one http://localhost:8001/v1#two
python examples/search_two_models.py           # two scripted coders, in seconds
"""

import sys

import mars_env


def careless(observation, seed):
    """Prints its input."""
    return "```python\nprint(input())\n```"


def lucky(observation, seed):
    """Guesses one of three programs."""
    guesses = ("print(sum(map(int, input())))", "print(input()[::-1])", "print(len(input()))")
    return f"```python\n{guesses[seed % 3]}\n```"


agents = sys.argv[1:3] if len(sys.argv) > 2 else [careless, lucky]
for algorithm in ("best-of-n", "ab-mcts-a"):
    report = mars_env.evaluate(
        "programs-tree-search",
        agents=agents,
        limit=4,
        nodes=8,
        algorithm=algorithm,
        out=f"runs/{algorithm}",
    )
    print(f"{algorithm}: {report.headline}")
print(mars_env.compare("runs/best-of-n", "runs/ab-mcts-a"))
