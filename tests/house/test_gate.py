"""The gate: marks of templates, control tokens of dialects, roles, quotations, surrogates."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mars_env.gate import (
    DIALECT_TOKENS,
    SERVED,
    THINKING_TOKENS,
    Marks,
    Spellings,
    break_control_tokens,
    break_roles,
    fill_template,
    map_strings,
    quoted,
    safe_messages,
    without_surrogates,
)

TOKENS = sorted(DIALECT_TOKENS | THINKING_TOKENS)
PIECES = st.sampled_from([*TOKENS, *(token[:-1] for token in TOKENS), *(token[1:] for token in TOKENS)])
TEXTS = st.lists(PIECES | st.text(max_size=5), max_size=8).map("".join)
CODE = "if (a <| b) { s = '</div>' + \"<b>\"; } // <-[0] a[i] <<x> [INST"


@given(TEXTS)
def test_no_text_spells_a_control_token(text):
    broken = break_control_tokens(text)
    assert not any(token in broken for token in TOKENS)


@given(st.text())
def test_other_text_is_byte_identical(text):
    if not any(token in text for token in TOKENS):
        assert break_control_tokens(text) == text


@pytest.mark.parametrize("token", TOKENS)
def test_one_visible_character_breaks_a_token(token):
    broken = break_control_tokens(f"4{token}5")
    assert broken == f"4{token[0]}_{token[1:]}5"
    assert Marks("<solution></solution>").guarded(token) == token  # a template has marks of its own


@given(st.lists(st.text(min_size=2, max_size=5), min_size=1, max_size=6), st.data())
def test_spellings_are_found_where_they_overlap(names, data):
    text = "".join(data.draw(st.lists(st.sampled_from(names) | st.text(max_size=3), max_size=6)))
    spellings = Spellings(names)
    expected = [i for i in range(len(text)) if any(text.startswith(name, i) for name in names)]
    assert spellings.starts(text) == expected
    assert not spellings.starts(spellings.broken(text))
    assert not any(spellings.starts(part) for part in spellings.parts(text))


def test_code_passes_every_gate_unchanged():
    template = "<problem>{problem}</problem><solution>{solution}</solution>"
    assert break_control_tokens(CODE) == CODE and break_roles(CODE) == CODE
    filled = fill_template(template, {"problem": "p", "solution": CODE})
    assert filled == f"<problem>p</problem><solution>{CODE}</solution>"


PARTS = ["<", "/", "solution", "SOLUTION", ">", " ", "\t", "x", "<solution>", "</ Solution>"]


@given(st.lists(st.sampled_from(PARTS), max_size=12).map("".join))
def test_a_field_stays_inside_of_its_marks(text):
    filled = fill_template("<solution>{solution}</solution>", {"solution": text})
    inside = filled.removeprefix("<solution>").removesuffix("</solution>").casefold()
    assert not re.search(r"<\s*/?\s*solution\s*>", inside)
    if "<" not in text:
        assert inside == text.casefold()


def test_fields_are_filled_once():
    filled = fill_template("{a} {b} {c}", {"a": "{b}", "b": "{a}"})
    assert filled == "{b} {a} {c}"


def test_a_servers_messages_are_safe():
    call = {"function": {"name": "f", "arguments": json.dumps({"a": "<｜User｜>"}, ensure_ascii=False)}}
    messages = [
        {"role": "user", "content": "<think>a</think><|im_end|>\ud800"},
        {"role": "assistant", "content": "<think>a</think><|im_end|>", "tool_calls": [call]},
    ]
    user, assistant = safe_messages(messages)
    assert user["content"] == "<_think>a<_/think><_|im_end|>\ufffd"
    assert assistant["content"] == "<think>a</think><_|im_end|>"
    arguments = assistant["tool_calls"][0]["function"]["arguments"]
    assert json.loads(arguments) == {"a": "<_｜User｜>"}
    tool = {
        "function": {"name": "f", "parameters": {"properties": {"</s>": {"type": "string", "role": "</s>"}}}}
    }
    [safe] = map_strings([tool], SERVED.broken)
    assert safe["function"]["parameters"]["properties"] == {"<_/s>": {"type": "string", "role": "<_/s>"}}
    assert safe_messages(messages, Spellings(["a</"]))[0]["content"].startswith("<think>a_</think><|im_end|>")


def test_every_line_of_a_quotation_is_marked():
    lines = quoted("All tests passed.\n\n  x").split("\n")
    assert lines == ["| All tests passed.", "| ", "|   x"]


@given(st.text(st.characters()) | st.text(st.characters(categories=["Cs", "Lu"])))
def test_lone_surrogates_are_replaced_and_nothing_else(text):
    clean = without_surrogates(text)
    assert clean.encode().decode() == clean
    if not any("\ud800" <= letter <= "\udfff" for letter in text):
        assert clean == text
