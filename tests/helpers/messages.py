"""Tests check an error's type and fields; the sentences are kept in tests/messages.json.

``MARS_ENV_MESSAGES=write pytest -n 0 FILES`` renews all entries of these files.
"""

import atexit
import json
import os
import re
import sys
import tempfile
from collections import defaultdict
from contextlib import contextmanager
from pathlib import Path

import pytest

FILE = Path(__file__).parents[1] / "messages.json"
WRITE = os.environ.get("MARS_ENV_MESSAGES") == "write"

_seen = defaultdict(list)  # the messages of this process, by test
_CHANGING = [
    (re.escape(sys.prefix), "<environment>"),
    (re.escape(str(FILE.parents[1])), "<repository>"),
    (rf"{re.escape(tempfile.gettempdir())}/[^\s'\",;:()]*", "<path>"),
    (r"127\.0\.0\.1(:|', )\d+", "<address>"),
    (r"\b(0x[0-9a-f]+|[0-9a-f]{12,})\b", "<hex>"),
    (r"\.py, line \d+", ".py, line <n>"),
    (r"(known rules are|Known:|no search '\w+':) .*", r"\1 <names>"),  # other tests register rules
]


@contextmanager
def raises(*errors):
    """As ``pytest.raises``, and the message is the one that is kept for this test."""
    with pytest.raises(errors) as caught:
        yield caught
    _compare(str(caught.value))


def _compare(message):
    test = os.environ["PYTEST_CURRENT_TEST"].rpartition(" ")[0]
    for pattern, name in _CHANGING:
        message = re.sub(pattern, name, message)
    _seen[test].append(message)
    if not WRITE:
        kept = json.loads(FILE.read_text("utf-8")).get(test, [])
        assert _seen[test] == kept[: len(_seen[test])], "see tests/helpers/messages.py"


def _write():
    files = {test.partition("::")[0] for test in _seen}
    kept = json.loads(FILE.read_text("utf-8"))
    others = {test: lines for test, lines in kept.items() if test.partition("::")[0] not in files}
    text = json.dumps({**others, **_seen}, ensure_ascii=False, indent=0, sort_keys=True)
    FILE.write_text(text + "\n", "utf-8")


if WRITE:
    atexit.register(_write)
