from pathlib import Path

import pytest
from rows import read_rows

from mars_env.grading.code.extract import extract_program

ROWS = read_rows(Path(__file__).with_name("extracts.jsonl"))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: repr(row["text"]))
def test_programs(row):
    found, why = extract_program(row["text"], row.get("name", "f"))
    assert found == row["program"] and (found is None) == bool(why)


@pytest.mark.parametrize("piece", ["'<|im_end|>' ", "    ```python\n", "- ```\n", "<|im_end|>#\n", "~", " "])
def test_long_texts(piece):
    assert extract_program("x = 1 #" + piece * 100_000)[0]
    extract_program("~~~" + piece * 100_000 + "`")
