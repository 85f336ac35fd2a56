"""A small real chat model plays solve-verify-correct on problems from a file; the report is printed.

    python examples/real_model.py rows.jsonl                      # rows {"id", "problem", "answer"}
    python examples/real_model.py gsm8k_test.jsonl --set gsm8k    # rows as openai/gsm8k has them
    python examples/real_model.py rows.jsonl --engine hf --limit 10 --rounds 1 --out runs/real

The model is SmolLM2-135M-Instruct, which scripts/make_smollm2.py makes. It is far too small for such
problems: this shows the whole path, from the file to the report. Run it where vLLM is installed (`make
test-engines` makes .venv-engines), or with --engine hf and the two packages that the script names.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import rich

import mars_env

SCRIPT = Path(__file__).parents[1] / "scripts" / "make_smollm2.py"
OPTIONS = {"vllm": "eager=true&", "hf": ""}


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("problems", type=Path, help="a jsonl or parquet file")
    parser.add_argument("--set", help="the set whose columns the rows have, e.g. gsm8k; else our own")
    parser.add_argument("--env", default="aime-solve-verify-correct", help="the environment that is played")
    parser.add_argument("--engine", choices=OPTIONS, default="vllm")
    parser.add_argument("--model", help="another checkpoint or name")
    parser.add_argument("--limit", type=int, help="how many problems, from the first")
    parser.add_argument("--samples", type=int, default=1, help="of each problem")
    parser.add_argument("--rounds", type=int, help="of correction, at most; else the environment's own 10")
    parser.add_argument("--max-tokens", type=int, default=512, help="of a turn")
    parser.add_argument("--temperature", type=float, default=0.7)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="keep the run here; the same command continues it")
    return parser.parse_args()


def main() -> None:
    """Make the checkpoint, read the problems, play, report."""
    given = arguments()
    model = given.model
    if model is None:
        made = subprocess.run([sys.executable, SCRIPT], stdout=subprocess.PIPE, text=True, check=True)
        model = made.stdout.splitlines()[-1]
    if given.set:
        problems = mars_env.load_problems(given.set, source=given.problems)
    else:
        problems = mars_env.load_problems(given.problems)
    sampling = f"{OPTIONS[given.engine]}temperature={given.temperature}&max_tokens={given.max_tokens}"
    settings = {} if given.rounds is None else {"rounds": given.rounds}
    report = mars_env.evaluate(
        given.env,
        agents=f"{given.engine}:{model}?{sampling}",
        problems=problems,
        limit=given.limit,
        samples=given.samples,
        seed=given.seed,
        out=given.out,
        **settings,
    )
    rich.print(report)


if __name__ == "__main__":
    main()
