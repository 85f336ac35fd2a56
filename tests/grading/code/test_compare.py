import json
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rows import read_rows

from mars_env.grading.code.compare import (
    has_room_for,
    output_key,
    outputs_match,
    preview,
    value_key,
    values_match,
)
from mars_env.grading.code.values import decode, encode

ROWS = read_rows(Path(__file__).with_name("outputs.jsonl"))


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_outputs(row):
    found = outputs_match(row["expected"], row["actual"], comparison=row["comparison"])
    assert found is row["right"]


def test_tolerance_and_exactness():
    assert outputs_match("10", "10.09", tolerance=0.01)
    assert not outputs_match("10", "10.2", tolerance=0.01)
    assert outputs_match("0.0", "0.1", tolerance=0.1)
    assert not outputs_match("a b ", "a b", exact=True)
    assert outputs_match("a b \n", "a b ", exact=True)


def test_a_key_is_the_same_for_equal_results():
    assert output_key(b"1  2 \n\n") == output_key(b"1 2") != output_key(b"12")
    assert value_key(encode(("result", (1, [2])))) == value_key(encode(("result", [1, (2,)])))
    assert value_key(encode(("result", [1, 2]))) != value_key(encode(("result", [1, [2]])))
    assert not has_room_for([1, 2], 10**6) and has_room_for(["a" * 10**6], 10**6)


def test_a_key_takes_little_memory():
    tracemalloc.start()
    assert value_key(b'["tuple","result",["list"' + b',["seen",1]' * 1000 + b"]]")
    assert tracemalloc.get_traced_memory()[1] < 20 << 20
    tracemalloc.stop()


def through(value):
    return decode(encode(value), hashed=False)


@pytest.mark.parametrize(
    ("expected", "actual", "right"),
    [
        (1, True, False),
        (2, 2.0, False),
        (2.0, 2, True),
        (2.0, True, False),
        (2.0, 2**1024 - 1, False),
        ([0.3, [0.7]], [0.1 + 0.2, [0.1 * 7]], True),
        ([1, 2], {1: 2}, False),
        ([1], {1}, False),
        ("a", b"a", False),
        ({"a": [1]}, {"a": (1,)}, True),
        ({"1": 2}, {1: 2}, True),
        ({"1": 2}, {1: 2, "1": 2}, False),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ({"None": 1}, {None: 1}, False),
        (float("inf"), float("inf"), True),
        (float("inf"), 1e308, False),
        (0.33333, 1 / 3, True),
        (0.3333, 1 / 3, False),
    ],
)
def test_values(expected, actual, right):
    assert values_match(expected, through(actual)) is right


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)


@given(json_values, json_values)
def test_what_has_no_room_does_not_match(one, other):
    for value in (one, other):
        data = encode(value)
        assert not values_match(one, decode(data, hashed=False)) or has_room_for(one, len(data))


def test_there_is_room_for_each_way_to_write_a_number():
    for expected, actual in ((2.0**1000, 2**1000), ({str(2**1000): 1}, {2**1000: 1}), (10**5000, 10**5000)):
        assert values_match(expected, through(actual)) and has_room_for(expected, len(encode(actual)))


@given(json_values)
def test_a_value_matches_itself(value):
    assert values_match(json.loads(json.dumps(value)), through(value))


def test_preview_is_bounded():
    shared = [0]
    for _ in range(60):
        shared = [shared, shared]
    assert len(preview(shared)) < 400
    assert len(preview("x" * 10**6)) < 400
    assert preview(1 << 100_000) == "<integer of 100001 bits>"
    assert preview(through({"a": 1})) == "{'a': 1}"
    assert preview([1, "a", (2,)]) == "[1, 'a', (2,)]"
    assert preview([*range(9)], 20) == "[0, 1, 2, 3, 4, 5, 6..."
