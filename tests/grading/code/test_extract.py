from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rows import read_rows

from mars_env.grading.code.extract import extract_program

ROWS = read_rows(Path(__file__).with_name("extracts.jsonl"))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: repr(row["text"]))
def test_programs(row):
    found, why = extract_program(row["text"], row.get("name", "f"))
    assert (found and found.replace("\r", "")) == (row["program"] and row["program"].replace("\r", ""))
    assert (found is None) == bool(why)


@given(st.text(st.sampled_from("`~\npython <think>/a")))
def test_any_text(text):
    found, why = extract_program(text)
    assert (found is None) == bool(why)


@pytest.mark.parametrize("piece", ["'<|im_end|>' ", "    ```python\n", "- ```\n", "<|im_end|>#\n", "~", " "])
def test_long_texts(piece):
    assert extract_program("x = 1 #" + piece * 100_000)[0]
    extract_program("~~~" + piece * 100_000 + "`")
