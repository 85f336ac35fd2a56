"""Finds the program in a completion, in time linear in its length: docs/code-grading.md says which it is."""

import re
from collections.abc import Mapping
from typing import Any

from mars_env.grading.message import CONTROL, without_opening
from mars_env.grading.thinking import UNCLOSED_THINKING, after_thinking

_PYTHON = r"(?:python|py|pypy|ipython)[0-9.]*"
_FENCE = re.compile(
    rf"^(?:([ \t]*)(`{{3,}}+|~{{3,}}+)([^\n`]*+)"
    rf"|[^\s#\"'`>][^\n\"]*?(?<=[\s:>])(`{{3,}})({_PYTHON})[ \t]*)$",
    re.MULTILINE | re.IGNORECASE,
)
"""A fence on its own line, or one labelled as Python that ends a line."""
_TAG = r"(?:</[a-z]{2,20}>)?[ \t]*"
_INNER_FENCE = re.compile(rf"(?<!`)`{{3,}}{_TAG}$", re.MULTILINE)
_ITEM = re.compile(r"^ {0,9}(?:[0-9]{1,3}[.)]|[-*+])[ \t]", re.MULTILINE)
_FUTURE = re.compile(r"^from __future__ import .*\n", re.MULTILINE)

NO_PROGRAM = "no program was found"


def extract_program(text: str, *names: str) -> tuple[str | None, str]:
    r"""The program in a completion, or None, and the reason why there is none.

    Example:
        >>> extract_program("So:\n```python\nprint(1)\n```\nIt prints:\n```\n1\n```")
        ('print(1)\n', '')
    """
    begun = without_opening(text)
    answer = None if begun is None else after_thinking(begun)
    if answer is None:
        return None, UNCLOSED_THINKING
    text = answer.removeprefix("\ufeff")
    if not text.strip():
        return None, NO_PROGRAM
    blocks = _blocks(text)
    if not blocks:
        return _ended(text), ""
    labelled = [code for label, code in blocks if re.fullmatch(_PYTHON, label)]
    chosen = labelled or [code for label, code in blocks if not label]
    chosen = [code for code in chosen if code.strip()]
    if not chosen:
        return None, NO_PROGRAM
    defining = [code for code in chosen if any(defines(code, name) for name in names)]
    return (defining or chosen)[-1], ""


def asked_names(reference: Any) -> tuple[str, ...]:
    """The functions and classes of which the tests of a code problem ask for one; none without tests."""
    tests = reference if isinstance(reference, Mapping) else {}
    names = tests.get("fn_name"), tests.get("entry_point"), tests.get("method") and "Solution"
    return tuple(name for name in names if isinstance(name, str) and name)


def _blocks(text: str) -> list[tuple[str, str]]:
    blocks: list[tuple[str, str]] = []
    fence, label, start, indent, closed = "", "", 0, 0, 0
    listed = _ITEM.search(text)
    for match in _FENCE.finditer(text):
        if match[1] is None:  # a fence at the end of a line of prose only opens
            margin, mark, info = 0, match[4], match[5]
        else:
            margin, mark, info = len(match[1].expandtabs(4)), match[2], match[3].strip()
        if not fence:
            if margin > 3 and not (listed and listed.start() < match.start()):
                continue
            if CONTROL.search(text, closed, match.start()):
                break  # the message ended before this fence
            words = re.split(r"[\s,:{}]+", info.strip("{}. ").lower(), maxsplit=1)
            fence, label, start, indent = mark, words[0], match.end() + 1, margin
        elif mark[0] == fence[0] and len(mark) >= len(fence) and margin <= indent + 3:
            rest = re.sub(_TAG, "", info, count=1)
            ended = CONTROL.match(rest)
            if not rest or ended:
                blocks.append((label, _dedented(text[start : match.start()], indent)))
                fence, closed = "", match.end()
            if ended:
                break
    if fence:
        rest = _until_inner_fence(_ended(text[start:]))
        blocks.append((label, _dedented(rest if rest.endswith("\n") else rest + "\n", indent)))
    return blocks


def _until_inner_fence(code: str) -> str:
    """A program up to the first fence at the end of a line of its own: neither in a text nor in a comment."""
    place, single, double = 0, 0, 0
    for fence in _INNER_FENCE.finditer(code):
        before = code[place : fence.start()]
        place, single, double = fence.start(), single + before.count("'"), double + before.count('"')
        if single % 2 == 0 and double % 2 == 0 and "#" not in before[before.rfind("\n") + 1 :]:
            return code[:place]
    return code


def _dedented(code: str, indent: int) -> str:
    return re.sub(rf"^[ \t]{{1,{indent}}}", "", code, flags=re.MULTILINE) if indent else code


def _ended(code: str) -> str:
    """A program up to the first control token that is neither in a text nor in a comment."""
    place = 0
    while place >= 0 and (token := CONTROL.search(code, place)):
        line = code[code.rfind("\n", 0, token.start()) + 1 : token.start()]
        if not any(sign in line for sign in "'\"#"):
            return code[: token.start()]
        place = code.find("\n", token.end())
    return code


def defines(code: str, name: str) -> bool:
    """Whether a program seems to define a function, class or variable at its top level."""
    word = re.escape(name)
    pattern = rf"^(?:(?:async[ \t]+)?def|class)[ \t]+{word}\b|^{word}[ \t]*(?::[^=\n]+)?=(?!=)"
    return re.search(pattern, code, re.MULTILINE) is not None


def complete_prompt(prompt: str, code: str, entry_point: str) -> str:
    r"""A whole program: a prompt that begins a function, and its body, the function, or all of it again.

    Example:
        >>> complete_prompt("import math\ndef f(x):\n", "def f(x): return math.pi", "f")
        'import math\n\ndef f(x): return math.pi'
    """
    if defines(code, entry_point):
        first = "".join(_FUTURE.findall(code))  # Python wants these imports at the top
        return first + preamble(prompt, entry_point) + "\n" + _FUTURE.sub("", code)
    joined = prompt if prompt.endswith("\n") else prompt + "\n"
    return joined + _as_body(code)


def preamble(prompt: str, entry_point: str) -> str:
    """The part of a prompt before the function's head: imports and helpers."""
    heads = list(re.finditer(rf"^(?:async[ \t]+)?def[ \t]+{re.escape(entry_point)}\b", prompt, re.MULTILINE))
    if not heads:
        return prompt
    start = heads[-1].start()
    lines = prompt[:start].split("\n")
    while len(lines) > 1 and lines[-2].startswith("@"):  # its decorators belong to the function
        lines.pop(-2)
    return "\n".join(lines)


def _as_body(code: str) -> str:
    """The lines of a function's body, indented; the first line may have lost its indentation."""
    lines = code.split("\n")
    first = next((i for i, line in enumerate(lines) if line.strip()), None)
    if first is None or lines[first][0] in " \t":
        return code
    rest = [line for line in lines[first + 1 :] if line.strip() and not line.lstrip().startswith("#")]
    opens = lines[first].rstrip().endswith(":")  # then the next line is deeper than the body itself
    if rest and all(_indent(line) > 0 for line in rest) and (not opens or _indent(rest[0]) > 4):
        lines[first] = "    " + lines[first]
        return "\n".join(lines)
    return "\n".join("    " + line if line.strip() else line for line in lines)


def _indent(line: str) -> int:
    line = line.expandtabs(4)
    return len(line) - len(line.lstrip())
