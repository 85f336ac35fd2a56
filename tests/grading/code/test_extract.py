from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rows import read_rows

from mars_env.grading.code.extract import complete_prompt, extract_program

ROWS = read_rows(Path(__file__).with_name("extracts.jsonl"))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: repr(row["text"]))
def test_programs(row):
    found, why = extract_program(row["text"])
    assert (found and found.replace("\r", "")) == (row["program"] and row["program"].replace("\r", ""))
    assert (found is None) == bool(why)


def test_the_block_that_defines_the_function():
    text = "```python\ndef f(x):\n    return x\n```\nFor example:\n```python\nprint(f(2))\n```"
    assert extract_program(text, "f")[0].startswith("def f")
    assert extract_program(text)[0].startswith("print")
    assert extract_program(text, "g")[0].startswith("print")
    bound = "```python\nf = lambda x: x\n```\n```python\nf == 2\n```"
    assert extract_program(bound, "f")[0].startswith("f = ")


@given(st.text(st.sampled_from("`~\npython <think>/a")))
def test_any_text(text):
    found, why = extract_program(text)
    assert (found is None) == bool(why)


def test_a_docstring_without_fences_around_it_is_no_block():
    program = "def f():\n    '''\n    ```python\n    f()\n    ```\n    '''\n"
    assert extract_program(program) == (program, "")


@pytest.mark.parametrize(
    "piece", ["'<|im_end|>' ", "    ```python\n", "- ```\n", "<|im_end|>#\n", "```", "a```\n"]
)
def test_long_texts(piece):
    assert extract_program("x = 1 #" + piece * 100_000)[0]


PROMPT = "from typing import List\n\n\ndef near(x: List[int]) -> bool:\n    ''' Doc. '''\n"


@pytest.mark.parametrize(
    "code",
    [
        "    return bool(x)\n",
        "    y = x\n    return bool(y)",
        "return bool(x)",
        "y = x\n    return bool(y)",
        "if x:\n    return True\nreturn False",
        "for i in x:\n        return True\n    return False",
        "def near(x: List[int]) -> bool:\n    return bool(x)",
        "from typing import List\n\ndef near(x: List[int]) -> bool:\n    return bool(x)",
        PROMPT + "    return bool(x)",
        "\n\n    return bool(x)\n",
        "# a comment\n    return bool(x)",
    ],
)
def test_completing_a_prompt(code):
    namespace = {}
    exec(complete_prompt(PROMPT, code, "near"), namespace)  # noqa: S102  (texts of this test)
    assert namespace["near"]([1]) is True and namespace["near"]([]) in (False, None)
