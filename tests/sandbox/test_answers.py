"""What a remote executor answers is read as JSON is, but in proportion to what it may hold."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mars_env.sandbox import answers
from mars_env.sandbox.answers import read_json

SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=9,
)
SPELLED = st.lists(
    st.sampled_from(
        [
            "\\",
            "\\\\",
            '\\"',
            "\\n",
            "\\u0041",
            "\\ud83d",
            "\\ude00",
            "\\u00",
            "u",
            "d83d",
            '"',
            "é",
            "😀",
            "\n",
        ]
    )
).map("".join)
"""Texts that are right or wrong between quotation marks, as they come."""


@given(VALUES, st.booleans(), st.sampled_from([None, 2]), st.integers(12, 40))
def test_it_reads_what_the_library_reads(value, ascii_only, indent, piece):
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(answers, "PIECE", piece)
        assert read_json(text) == json.loads(text)


@given(SPELLED, st.integers(12, 20))
def test_texts_end_where_the_library_ends_them_however_they_are_cut(spelled, piece):
    text = f'"{spelled}"'
    try:
        expected = json.loads(text)
    except ValueError:
        expected = ValueError
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(answers, "PIECE", piece)
        try:
            found = read_json(text)
        except ValueError:
            found = ValueError
    assert found == expected


@given(st.text(alphabet='{}[]",:\\ \nu0a1.-e"tnfNI', max_size=40))
def test_rubbish_is_read_as_the_library_reads_it_or_refused(text):
    try:
        expected = json.loads(text)
    except (ValueError, RecursionError):
        with pytest.raises(ValueError):
            read_json(text)
        return
    try:
        found = read_json(text)
    except ValueError:  # NaN, and what is nested too deeply
        return
    assert found == expected


@pytest.mark.parametrize(("text", "why"), [
    ("[" * 20, "nested too deeply"), ('{"a":' * 9 + "1" + "}" * 9, "nested too deeply"),
    ("[" + "[]," * 2000 + "[]]", "too many values"), ('{"a": 1} 2', "continues after the value"),
    ("NaN", "NaN"), ('"abc', "without end"), ("", "no value"), ('{"a" 1}', "no ':'"), ("[1 2]", "no ','"),
    ("1" * 5000, "continues after"),
])  # fmt: skip
def test_what_is_no_answer_is_refused(text, why):
    with pytest.raises(ValueError, match=why):
        read_json(text)


@pytest.mark.parametrize(
    "hostile", ["[" + "[]," * (1 << 22) + "[]]", "[" + "1," * (1 << 22) + "1]", "[" * (1 << 24)]
)
def test_hostile_structure_is_read_no_further_than_its_bound(hostile):
    reader = answers._Reader(hostile, lambda: None)
    with pytest.raises(ValueError, match=r"too many values|too deeply"):
        reader.value(answers.MOST_DEPTH)
    assert reader.at <= 4 * answers.MOST_VALUES


def test_no_step_decodes_more_than_a_piece(monkeypatch):
    sizes = []
    loads = json.loads
    monkeypatch.setattr(
        answers.json, "loads", lambda text, **how: sizes.append(len(text)) or loads(text, **how)
    )
    assert read_json('"' + "x\\n" * 300_000 + '"') == "x\n" * 300_000
    assert len(sizes) > 10 and max(sizes) <= answers.PIECE + 2


def test_long_texts_are_read_with_pauses_between_their_pieces(monkeypatch):
    monkeypatch.setattr(answers, "PIECE", 10)
    calls = []
    assert read_json('{"a": "%s"}' % ("x" * 95), between=lambda: calls.append(1)) == {"a": "x" * 95}
    assert len(calls) >= 10
