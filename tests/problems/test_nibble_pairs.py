"""The set `nibbles` with two registers."""

import pytest
from messages import raises

from mars_env.errors import ConfigError
from mars_env.problems import load_problems
from mars_env.problems.code_nibbles import (
    NIBBLE_OPERATIONS,
    PUBLIC,
    nibble_line,
    nibble_pair_program,
    nibble_table,
    nibbles_problems,
)


def test_pairs_are_reproducible_split_and_apart_from_single_registers():
    one = load_problems("nibbles", registers=2, seed=1)
    assert [one[i] for i in (0, 9, 10**6)] == [
        nibbles_problems(registers=2, seed=1)[i] for i in (0, 9, 10**6)
    ]
    train = {p.statement for p in nibbles_problems(registers=2)[:200]}
    test = {p.statement for p in nibbles_problems(registers=2, split="test")[:200]}
    assert len(train) > 190 and not train & test
    assert one.by_id(one[3].id) == one[3]
    with pytest.raises(KeyError):
        one.by_id(nibbles_problems(seed=1)[3].id)
    with raises(ConfigError):
        nibbles_problems(registers=3)


def test_tests_of_a_pair_come_register_by_register_and_its_solution_passes_them():
    for problem in nibbles_problems(registers=2, level=(1, 3))[:20]:
        tests = problem.reference["tests"]
        public = [tuple(t["arguments"]) for t in tests if t["public"]]
        assert public == [(x, r) for r in (0, 1) for x in PUBLIC] and len(tests) == 32
        namespace: dict = {}
        exec(problem.reference["solutions"][0], namespace)  # noqa: S102  (our own text)
        assert all(namespace["f"](*t["arguments"]) in t["accept"] for t in tests)
        assert all(f"f({x}, {r}) = " in problem.statement for x, r in public)
        assert not any(f"f({x}, {r}) = " in problem.statement for x, r in ((1, 0), (14, 1)))


def test_a_pair_program_computes_its_tables():
    for name in NIBBLE_OPERATIONS:
        namespace: dict = {}
        exec(nibble_pair_program([name], [name, "inc"]), namespace)  # noqa: S102  (our own text)
        assert tuple(namespace["f"](x, 0) for x in range(16)) == nibble_table([name])
        assert tuple(namespace["f"](x, 1) for x in range(16)) == nibble_table([name, "inc"])
    assert nibble_line("v", "floor") == "v = max(v, 4)"  # the x of max stays
