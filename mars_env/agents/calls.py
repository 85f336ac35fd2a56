"""Calls of tools in a message, in the forms that models write them."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from mars_env.agents.tools import Tool


@dataclass(frozen=True, slots=True)
class Call:
    """A call that a model wrote: `written` as JSON, or in its own words if a `mistake` makes it no call."""

    written: str
    name: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    mistake: str = ""


def parse_calls(text: str, tools: Mapping[str, Tool], *, fenced: bool = False) -> list[Call]:
    r"""The calls in a message: in tags, or the fenced block of Python at its end.

    In tags stands an object with ``name`` and ``arguments``, or a list of these, as JSON; or Qwen3-Coder's
    ``<function=name><parameter=key>text</parameter></function>``, whose texts are read as the schemas of
    `tools` say.

    Example:
        >>> [call] = parse_calls('Add.\n<tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call>', {})
        >>> call.name, call.arguments
        ('add', {'a': 1})
    """
    if fenced:
        block = _FENCED.search(text)
        return [make_call("python", {"code": block[1]})] if block else []
    calls = []
    for match in TAGGED.finditer(text):
        body = match[0] if match[1] is None else match[1].strip()
        if body.startswith("<function="):
            calls += [_parse_function(name, words, tools) for name, words in _FUNCTION.findall(body)]
        else:
            calls += parse_json_calls(body)
    return calls


TAGGED: Final = re.compile(
    r"<tool_call>(.*?)(?:</tool_call>|\Z)|<function=[^>\n]{1,64}>.*?(?:</function>|\Z)", re.S
)
"""A call, or several, with the tags around them."""

_FUNCTION: Final = re.compile(r"<function=([^>\n]{1,64})>(.*?)(?:</function>|\Z)", re.S)
_PARAMETER: Final = re.compile(r"<parameter=([^>\n]{1,64})>\n?(.*?)\n?(?:</parameter>|\Z)", re.S)
_FENCED: Final = re.compile(r"```(?:python|py)[ \t]*\n((?:(?!```).)*)```\s*\Z", re.S)
_FENCE: Final = re.compile(r"```\w*\n(.*)```", re.S)


def parse_json_calls(text: str) -> list[Call]:
    """The call that a text holds as JSON, or several; the text may be fenced, and strings hold raw lines."""
    fence = _FENCE.fullmatch(text)
    try:
        value = json.loads(fence[1] if fence else text, strict=False)
        values = value if isinstance(value, list) and value else [value]
        return [parse_call(value) for value in values]
    except (ValueError, RecursionError):
        return [Call(text, mistake="the call is not valid JSON")]


def parse_call(value: Any) -> Call:
    """A call from a JSON value; a ValueError or RecursionError if its arguments are a string and not JSON."""
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        return Call(json.dumps(value), mistake="a call is an object with a name and arguments")
    arguments = value.get("arguments") or value.get("parameters") or {}
    if isinstance(arguments, str):
        arguments = json.loads(arguments, strict=False)
    if not isinstance(arguments, dict):
        return Call(json.dumps(value), mistake="the arguments of a call are an object")
    return make_call(value["name"], arguments)


def make_call(name: str, arguments: Mapping[str, Any]) -> Call:
    """A call with arguments that can be written as JSON."""
    return Call(json.dumps({"name": name, "arguments": arguments}), name, arguments)


def _parse_function(name: str, body: str, tools: Mapping[str, Tool]) -> Call:
    schemas = tools[name].parameters.get("properties", {}) if name in tools else {}
    return make_call(
        name, {key: _parse_argument(text, schemas.get(key)) for key, text in _PARAMETER.findall(body)}
    )


def _parse_argument(text: str, schema: Any) -> Any:
    """Text where the schema takes a string; else the value that it is as JSON, if it is one."""
    options = [schema, *schema.get("anyOf", ())] if isinstance(schema, dict) else []
    if any(isinstance(option, dict) and option.get("type") == "string" for option in options):
        return text
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return text
