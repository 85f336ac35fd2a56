"""How the JSON that a model replies with is read."""

import json
from collections.abc import Sequence
from typing import Any, Final

MAX_JSON: Final = 50_000
"""Most characters of a text that is read as a JSON object."""


def parse_json_object(text: str) -> dict[str, Any] | None:
    r"""The JSON object that a text, or a code fence, consists of.

    None for anything else: a second object, a key twice, more than `MAX_JSON` characters.

    Example:
        >>> parse_json_object('```json\n{"met": true}\n```'), parse_json_object('{"met": true, "met": false}')
        ({'met': True}, None)
    """
    text = text.strip()
    if len(text) > MAX_JSON:
        return None
    if text.startswith("```") and text.endswith("```"):
        text = text.removeprefix("```json").removeprefix("```").removesuffix("```")
    try:
        value = json.loads(text, object_pairs_hook=_once)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("a key occurs twice")
    return members
