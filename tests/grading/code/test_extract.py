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
    text = "```python\nf = lambda x: x\n```\nFor example:\n```python\nf(2) == 2\n```"
    assert extract_program(text, "f")[0].startswith("f = ")
    assert extract_program(text)[0] == extract_program(text, "g")[0] == "f(2) == 2\n"


@given(st.text(st.sampled_from("`~\npython <think>/a")))
def test_any_text(text):
    found, why = extract_program(text)
    assert (found is None) == bool(why)


@pytest.mark.parametrize(
    "piece", ["'<|im_end|>' ", "    ```python\n", "- ```\n", "<|im_end|>#\n", "```", "~", " "]
)
def test_long_texts(piece):
    assert extract_program("x = 1 #" + piece * 100_000)[0]
    extract_program("~~~" + piece * 100_000 + "`")


@pytest.mark.parametrize(
    "code",
    ["y = x\n    return y", "if x:\n    return x\nreturn 0", "for i in x:\n        return x\n    return 0"],
)
def test_completing_a_prompt(code):
    namespace = {}
    exec(complete_prompt("def f(x):\n", code, "f"), namespace)  # noqa: S102  (texts of this test)
    assert namespace["f"]([1]) == [1] and not namespace["f"]([])
