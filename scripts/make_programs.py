"""Makes the embedded set `programs`: statements and tests, with every expected result found by brute force.

python scripts/make_programs.py           # writes mars_env/problems/data/programs.jsonl
python scripts/make_programs.py --check   # fails if the file is not what brute force gives
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from programs.easy import EASY
from programs.hard import HARD
from programs.medium import MEDIUM
from programs.spec import problem_of

from mars_env.files import write_atomically
from mars_env.problems.written import problem_row

DATA = Path(__file__).parents[1] / "mars_env" / "problems" / "data" / "programs.jsonl"


def text() -> str:
    problems = map(problem_of, (*EASY, *MEDIUM, *HARD))
    return "".join(json.dumps(problem_row(problem)) + "\n" for problem in problems)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare only")
    if parser.parse_args().check:
        return int(DATA.read_text(encoding="utf-8") != text())
    write_atomically(DATA, text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
