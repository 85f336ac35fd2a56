"""Id and statement of a row of code; the statement tells the name of the function that the tests call."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from mars_env.problems.rows import BadField, Row, text_of

IDS = ("id", "task_id", "question_id", "problem_id", "name")
STATEMENTS = ("prompt", "problem", "question", "description", "question_content", "text")


def id_of(row: Row, default: str | None) -> str:
    """A row's id, or the default.

    Raises:
        BadField: It has none, and there is no default.
    """
    for field in IDS:
        if row.get(field) not in (None, ""):
            return text_of(row, field)
    if default is None:
        raise BadField("id", "is missing")
    return default


def statement_of(row: Row, reference: Mapping[str, Any]) -> str:
    r"""A row's statement, with the starter code or the name of the function that the tests call.

    Raises:
        BadField: It has none.

    Example:
        >>> statement_of({"prompt": "Write a function to add."}, {"entry_point": "add"})
        'Write a function to add.\n\nName the function `add`.'
    """
    field = next((name for name in STATEMENTS if row.get(name)), "prompt")
    if not isinstance(row.get(field), str) or not row[field].strip():
        raise BadField(field, "must be a non-empty text")
    text: str = row[field]
    if row.get("starter_code"):
        text = (
            f"{text.rstrip()}\n\nStart from this code:\n\n```python\n{str(row['starter_code']).rstrip()}\n```"
        )
    else:
        name = reference.get("fn_name") or reference.get("entry_point") or ""
        if name and not _tells(text, name):
            text = f"{text.rstrip()}\n\nName the function `{name}`."
    return text


def _tells(text: str, name: str) -> bool:
    """Whether a statement tells a function's name: it calls or marks it, or the name is no ordinary word.

    Example:
        >>> _tells("Write a function to add.", "add"), _tells("Return `add(1, 2)`.", "add")
        (False, True)
    """
    if not name.isalpha() or not name.islower():
        return name in text
    before, after = r"(?:[`'\"]|\b(?:function|method|named|called|def|class) +)", r"[`'\"(]"
    return re.search(rf"{before}{name}\b|(?<!\w){name}{after}", text) is not None
