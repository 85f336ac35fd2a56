"""Digests of users' code."""

import importlib
import os
import subprocess
import sys
from functools import lru_cache, partial

from mars_env.identity import identity_of

PROMPT = "A"


def digest(part):
    return identity_of(part)["code"]


def helper():
    return PROMPT


@lru_cache
def cached():
    return PROMPT


def with_helper(seen):
    return helper()


def with_cached(seen):
    return cached()


class Uses:
    """An agent that reads the prompt."""

    def act(self):
        return helper()


def makes(seen):
    return Uses()


def test_constants_count_that_code_refers_to(monkeypatch):
    parts = (helper, with_helper, with_cached, Uses, makes, partial(with_helper, "x"))
    before = list(map(digest, parts))
    monkeypatch.setitem(globals(), "PROMPT", "B")
    assert all(one != other for one, other in zip(before, map(digest, parts), strict=True))
    monkeypatch.setitem(globals(), "PROMPT", "A")
    assert before == list(map(digest, parts))


def test_closures_defaults_and_code_count_and_docstrings_do_not():
    def closed(prompt, by="x"):
        def solver(seen, by=by):
            return prompt

        return solver

    def documented(seen):
        """It has one."""
        return seen + 1

    def plain(seen):
        return seen + 1

    assert digest(closed("a")) == digest(closed("a"))
    assert len({digest(closed("a")), digest(closed("b")), digest(closed("a", by="y"))}) == 3
    assert digest(plain) == digest(documented)
    assert digest(partial(closed, "a")) != digest(partial(closed, "b"))
    assert digest(lambda seen: seen + 1) != digest(lambda seen: seen - 1)


def test_what_code_changes_itself_does_not_count():
    def counting():
        calls, seen_before = 0, []

        def solver(seen):
            nonlocal calls
            calls += 1
            seen_before.append(seen)
            return "4"

        return solver

    solver = counting()
    before = digest(solver)
    solver("?")
    assert digest(solver) == before


def test_many_functions_may_refer_to_each_other(tmp_path, monkeypatch):
    every = ", ".join(f"f{i}" for i in range(30))
    (tmp_path / "made_here.py").write_text("".join(f"def f{i}(): return {every}\n" for i in range(30)))
    monkeypatch.syspath_prepend(tmp_path)
    assert digest(importlib.import_module("made_here").f0)


def test_a_digest_is_the_same_in_every_process():
    code = """
from mars_env.identity import identity_of
def f(seen):
    return seen in {"a", "b", "c"}, [x for x in seen if x in ("d", 1, 2.5)], {"k": seen}
print(identity_of(f)["code"])
"""
    told = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in "12"
    }
    assert len(told) == 1 and told.pop().strip()
