"""Made-up rows of the real sets, in the schemas of the hub, by the set's name (and form)."""

import json
from pathlib import Path

_DAPO = (
    "Solve the following math problem step by step. The last line of your response should be of the form "
    "Answer: $Answer (without quotes) where $Answer is the answer to the problem.\n\n{}\n\n"
    'Remember to put your answer on its own line after "Answer:".'
)


def _dapo(problem, answer, index):
    return {
        "data_source": "math_dapo",
        "prompt": [{"content": _DAPO.format(problem), "role": "user"}],
        "ability": "MATH",
        "reward_model": {"ground_truth": answer, "style": "rule-lighteval/MATH_v2"},
        "extra_info": {"index": index},
    }


_ROWS = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))
MATHEMATICS, CODE = _ROWS["mathematics"], _ROWS["code"]
MATHEMATICS["dapo-math-17k"] = [
    _dapo("Find $x$.", "34", "uuid-1"),
    _dapo("Find  $x$. ", "34", "uuid-1"),
    _dapo("Find $y$.", "-3", "uuid-2"),
    *(_dapo("Find $z$.", answer, f"uuid-{i}") for i, answer in ((3, "1"), (4, "2"), (5, "1"))),
]
CODE["taco"] = {name: value for name, value in CODE["apps, call"].items() if name != "problem_id"}
