"""Made-up rows of the real sets, in the schemas of the hub, by the set's name (and form)."""

import json
from pathlib import Path

_ROWS = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))
MATHEMATICS, CODE = _ROWS["mathematics"], _ROWS["code"]
CODE["taco"] = {name: value for name, value in CODE["apps, call"].items() if name != "problem_id"}
