"""A Solver and a Verifier that use Python, on problems in the style of AIME.

python examples/tools.py                       # a scripted model, in seconds
python examples/tools.py hf:HuggingFaceTB/SmolLM2-135M-Instruct
"""

import json
import sys

import mars_env
from mars_env.agents import Corrector, Solver, Verifier, python_tool
from mars_env.agents.registry import make_model
from mars_env.models import ScriptedModel
from mars_env.types import Problem, Sampling

PROBLEMS = [
    Problem("divisors", "Find the sum of all positive divisors of 360.", reference="1170"),
    Problem("remainder", "Find the remainder when 7^2026 is divided by 1000.", reference="649"),
]
CODE = {"divisors": "sum(d for d in range(1, 361) if 360 % d == 0)", "remainder": "pow(7, 2026, 1000)"}


def write(prompt, sample, seed):
    """What a good model would write: a call, then what the tool said."""
    if "tool_response" in prompt[-1]["content"]:
        return f"\\boxed{{{prompt[-1]['content'].split()[1]}}}\nCorrectness: Correct"
    code = next(code for name, code in CODE.items() if name in str(prompt))
    return f"<tool_call>{json.dumps({'name': 'python', 'arguments': {'code': code}})}</tool_call>"


model = make_model(sys.argv[1])[0] if len(sys.argv) > 1 else ScriptedModel(write)
how = {"sampling": Sampling(max_tokens=300), "tools": [python_tool()]}
agents = {"solver": Solver(model, **how), "verifier": Verifier(model, **how), "corrector": Corrector(model)}
report = mars_env.evaluate("aime-solve-verify-correct", agents=agents, problems=PROBLEMS, out="runs/tools")
print(report)
