"""The miniature's language: exact both ways, and total on any text."""

import random

from hypothesis import given
from hypothesis import strategies as st

from mars_env.miniature import protocol as p
from mars_env.miniature.model import TOKEN_IDS, build_tokenizer
from studies.marsrl.demonstrations import ROLES, Faults, demonstrate, draw_chain, review, tell, write_solution

STATEMENT = "Work modulo 1000. Start with a = 882. Then b = a - 27, c = b - 0, d = c + 64. What is d?"
TOKENIZER = build_tokenizer()


@given(st.lists(st.sampled_from(p.PIECES), max_size=80))
def test_any_stream_survives_being_text(stream: list[str]) -> None:
    text = p.flip("".join(stream))
    assert p.pieces(text) == stream


@given(st.lists(st.sampled_from(p.PIECES), max_size=80))
def test_the_tokenizer_reads_and_writes_the_very_pieces(stream: list[str]) -> None:
    ids = TOKENIZER("".join(stream))["input_ids"]
    assert ids == [TOKEN_IDS[piece] for piece in stream]
    assert TOKENIZER.decode(ids, skip_special_tokens=True) == "".join(stream)


@given(st.text() | st.lists(st.sampled_from((*p.VOCABULARY, "x", "７", " ")), max_size=200).map("".join))
def test_prompts_of_hostile_texts_are_bounded_and_in_the_language(text: str) -> None:
    prompt = p.corrector_prompt(STATEMENT, text, text)
    ids = TOKENIZER(prompt)["input_ids"]
    assert TOKEN_IDS[p.PAD] not in ids and TOKEN_IDS[p.END] not in ids
    assert len(ids) <= 4 + 4 * p.MAX_TERMS + p.SOLUTION_TOKENS + p.REPORT_TOKENS + 3
    assert [ids.count(TOKEN_IDS[mark]) for mark in (p.SOLVE, p.VERIFY, p.CORRECT)] == [1, 1, 1]
    assert "".join(TOKENIZER.convert_ids_to_tokens(ids)) == prompt


@given(st.integers(0, 2**32))
def test_a_statement_is_read_as_it_was_told(seed: int) -> None:
    chain = draw_chain(random.Random(seed))
    assert p.read_statement(tell(chain)) == chain


def test_the_prompts_follow_each_other() -> None:
    assert p.solver_prompt(STATEMENT) == "a:288b: - 72c: - 00d: + 46<|solve|>"
    verify = p.verifier_prompt(STATEMENT, "a: = 882\nb: - 27 = 8")
    assert verify == p.solver_prompt(STATEMENT) + "a: = 288\nb: - 72 = 8<|verify|>"
    correct = p.corrector_prompt(STATEMENT, "a: = 882\nb: - 27 = 8", "a: = 882 | 882 ok\ngo on from a:")
    assert correct == verify + "a: = 288 | 288 ok\ngo on from a:<|correct|>"


@given(st.integers(0, 2**32))
def test_a_faultless_solution_passes_or_is_continued_to_the_answer(seed: int) -> None:
    rng = random.Random(seed)
    chain = draw_chain(rng)
    solution = p.flip("".join(write_solution(chain, rng)).removesuffix(p.END))
    found = review(chain, solution, rng)
    assert found.passed == (len(chain.terms) <= p.STEPS)
    if not found.passed:
        again = write_solution(chain, rng, start=found.place, value=found.value)
        assert p.flip("".join(again)).endswith(f"\\boxed{{{chain.values[-1]:03d}}}{p.END}")


@given(st.integers(0, 2**32))
def test_a_review_stops_at_the_first_wrong_step(seed: int) -> None:
    rng = random.Random(seed)
    chain = draw_chain(rng)
    solution = p.flip("".join(write_solution(chain, rng, wrong=0.5, wild=0.5)).removesuffix(p.END))
    found = review(chain, solution, rng)
    right = f"\\boxed{{{chain.values[-1]:03d}}}" in solution
    assert found.passed <= right
    assert found.value == chain.values[found.place]
    assert found.report.endswith(p.RIGHT if found.passed else p.WRONG)


@given(st.integers(0, 2**32), st.sampled_from(ROLES))
def test_demonstrations_fit_the_limits(seed: int, role: str) -> None:
    faults = Faults(solver=0.3, verifier=0.3, corrector=0.3, glance=0.5, lazy=0.5, mark_weight=4)
    row = demonstrate(role, random.Random(seed), faults)  # type: ignore[arg-type]
    assert len(row.completion) == len(row.weights)
    assert len(row.completion) <= (p.REPORT_TOKENS if role == "verifier" else p.SOLUTION_TOKENS)
    assert set(row.completion) <= set(p.VOCABULARY)
