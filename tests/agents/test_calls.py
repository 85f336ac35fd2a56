"""Calls in the forms that models write them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tool_calls import add, call

from mars_env.agents import tool
from mars_env.agents.calls import parse_calls


def run(code: str, options: list[int] | None = None, label: str | None = None) -> str:
    "Run code."
    return code


TOOLS = {"add": tool(add), "run": tool(run)}
CODE = 'x = "a"\n\tprint(x)'
IN_TAGS = f"<function=run>\n<parameter=code>\n{CODE}\n</parameter>\n</function>"


def parsed(text, fenced=False):
    return [(each.name, each.arguments) for each in parse_calls(text, TOOLS, fenced=fenced)]


def tagged(words):
    return f"I call.\n<tool_call>\n{words}\n</tool_call>"


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("no call", []),
        (call("a") + "\n" + call("b"), [("a", {}), ("b", {})]),
        (call("a").removesuffix("</tool_call>"), [("a", {})]),
        (tagged('{"name": "run", "arguments": {"code": "x\n\ty"}}'), [("run", {"code": "x\n\ty"})]),
        (tagged(json.dumps({"name": "run", "arguments": '{"code": "1"}'})), [("run", {"code": "1"})]),
        (tagged('{"name": "add", "parameters": {"a": 1}}'), [("add", {"a": 1})]),
        (tagged('{"name": "add", "arguments": null}'), [("add", {})]),
        (tagged('```json\n{"name": "add", "arguments": {"a": 1}}\n```'), [("add", {"a": 1})]),
        (tagged('[{"name": "add", "arguments": {"a": 1}}, {"name": "b"}]'), [("add", {"a": 1}), ("b", {})]),
        (tagged(IN_TAGS), [("run", {"code": CODE})]),
        (f"{IN_TAGS}\n</tool_call>", [("run", {"code": CODE})]),
        ("<function=add><parameter=a>1</parameter></function>" * 2, [("add", {"a": 1})] * 2),
        ("<function=run><parameter=code>1</parameter><parameter=options>[1]</parameter>"
         "<parameter=label>2</parameter></function>", [("run", {"code": "1", "options": [1], "label": "2"})]),
        ("<function=other><parameter=a>1</parameter></function>", [("other", {"a": 1})]),
        (call("run", code="<function=add></function>"), [("run", {"code": "<function=add></function>"})]),
    ],
)  # fmt: skip
def test_calls_are_read(text, calls):
    assert parsed(text) == calls


@pytest.mark.parametrize(
    "words",
    [
        '{"name": "add", "arguments": {"a": 1,}}', "", "[]", "[1]", "3", '{"arguments": {}}', '{"name": 3}',
        '{"name": "add", "arguments": 3}', '{"name": "add", "arguments": "{not json"}', "[" * 100_000,
        '{"name": "add", "arguments": {"a": ' + "1" * 5000 + "}}",
    ],
)  # fmt: skip
def test_what_is_no_call_says_so(words):
    [mistaken] = parse_calls(tagged(words), TOOLS)
    assert mistaken.mistake and not mistaken.name


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("I run\n```python\nprint(1)\n```", [("python", {"code": "print(1)\n"})]),
        ("```python\nprint(1)\n```\nSo it is 1.", []),
        ("```python\nx\n```\nand\n```python\ny\n```\n", [("python", {"code": "y\n"})]),
    ],
)
def test_fenced_blocks_are_read(text, calls):
    assert parsed(text, fenced=True) == calls


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**18), 10**18) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(st.text(), st.dictionaries(st.text(), values))
def test_a_call_in_json_is_read_as_it_was_written(name, arguments):
    written = {"name": name, "arguments": arguments}
    [read] = parse_calls(tagged(json.dumps(written).replace("</", "<\\/")), TOOLS)
    assert (read.name, read.arguments, json.loads(read.written)) == (name, arguments, written)
