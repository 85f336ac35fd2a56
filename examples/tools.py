"""A team that uses Python, on problems in the style of AIME: scripted, or a checkpoint that is trained, too.

python examples/tools.py [HuggingFaceTB/SmolLM2-135M-Instruct]
"""

import json
import sys

import mars_env
from mars_env.agents import Corrector, Solver, Verifier, python_tool
from mars_env.models import HFModel, ScriptedModel
from mars_env.problems import ProblemSet
from mars_env.sync import run_sync
from mars_env.trainers import RunSettings, TrainConfig, make_team, train
from mars_env.types import Problem, Sampling

SUM = Problem("sum", "Find the sum of all positive divisors of 360.", reference="1170")
REST = Problem("rest", "Find the remainder when 7^2026 is divided by 1000.", reference="649")
env = mars_env.make("aime-solve-verify-correct", problems=ProblemSet("two", [SUM, REST]), rounds=1)


def write(prompt, sample, seed):
    """What a good model would write: a call, then what the tool said."""
    if "tool_response" in (last := prompt[-1]["content"]):
        return f"\\boxed{{{last.split()[1]}}}\nCorrectness: Correct"
    code = "pow(7, 2026, 1000)" if "7^" in str(prompt) else "sum(d for d in range(1, 361) if 360 % d == 0)"
    return f"<tool_call>{json.dumps({'name': 'python', 'arguments': {'code': code}})}</tool_call>"


if sys.argv[1:]:
    given = {"sampling": Sampling(max_tokens=64), "train": TrainConfig(call_cost=0.01, learning_rate=1e-5)}
    small = {"steps": 3, "problems_per_step": 2, "rollouts": {"group": 2, "branches": 1}}
    settings = RunSettings(team={"tools": "python"}, **given, **small)
    team = make_team(settings, env.possible_agents, [HFModel(sys.argv[1], dtype="float32")])
    for step in run_sync(train(env.game, team, env.problems, settings)):
        print(step.step, {role: metrics["trained"] for role, metrics in step.roles.items()})
    agents = team.agents
else:
    agents = [role(ScriptedModel(write), tools=[python_tool()]) for role in (Solver, Verifier, Corrector)]
print(mars_env.evaluate("aime-solve-verify-correct", agents=agents, problems=env.problems, rounds=1))
