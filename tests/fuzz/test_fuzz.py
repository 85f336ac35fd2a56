"""Untrusted input of every reader: its own errors alone, and time that grows with the length of the input.

`corpus.json` has minimal inputs that once mattered, or that are at an edge. A test takes as long as
its examples take: `MARS_ENV_FUZZ=100` in the environment draws a hundred times as many.
"""

import json
import os
import time
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mars_env.envs.verdicts import read_judgement
from mars_env.errors import ConfigError, MarsError
from mars_env.grading.code.compare import Comparison, outputs_match, preview, values_match
from mars_env.grading.code.values import BadValue, decode
from mars_env.grading.math.extract import extract_answer
from mars_env.grading.math.judge import judge
from mars_env.grading.math.nodes import OverLimit
from mars_env.models.openai_dialect import completions_of, context_of, embedded_error, retry_after
from mars_env.net import UNREADABLE, Refusal, plain_json
from mars_env.problems.files import load_file
from mars_env.serving.wire import read_request
from mars_env.trainers.row_checks import check_rows
from mars_env.trainers.run_file import load_run
from mars_env.types import Sampling

CORPUS = json.loads(Path(__file__).with_name("corpus.json").read_text(encoding="utf-8"))
WORDS = (
    "\\boxed{", "}", "{", "$", "\\frac", "\\text{", "answer", "is", "The", "=", "Correctness:", "Correct",
    "Wrong", "**", "\n", " ", "4", "-", ",", "(", ")", "<think>", "</think>", "或", "\ud800", "\u202e", "\0",
)  # fmt: skip
TEXTS = st.lists(st.sampled_from(WORDS) | st.text(max_size=3), max_size=40).map("".join)
KEYS = st.sampled_from(
    ["choices", "message", "content", "usage", "index", "error", "code", "finish_reason", "logprobs", "data",
     "id", "parent", "max_model_len", "messages", "role", "model", "n", "seed", "stream", "tests",
     "token_ids", "prompt_token_ids", "completion_tokens", "problem", "answer", "tool_calls"]
)  # fmt: skip
LEAVES = (
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS | st.sampled_from(["user", "m", "stop"])
)
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=20,
)
KINDS = st.sampled_from(
    ["list", "tuple", "set", "dict", "Counter", "deque", "seen", "changed", "named", "handle", "int",
     "halves", "standard", "complex", "bytes"]
)  # fmt: skip
TREES = st.recursive(
    LEAVES | st.just("ff"),
    lambda inner: st.tuples(KINDS, inner, inner) | st.tuples(KINDS, inner) | st.tuples(KINDS),
    max_leaves=12,
)
MACROS = [
    "\\frac", "\\sqrt", "\\pi", "\\{", "\\text{", "\\le ", "\\cup ", "10", "0.5", "\\infty", "\\pm ",
    "\\binom", "!",
]  # fmt: skip
NAMES = [
    "train", "sampling", "rollouts", "steps", "pipeline", "max_tokens", "group", "learning_rate",
    "staleness",
]  # fmt: skip
BYTES = st.binary(max_size=60) | JSON.map(lambda value: json.dumps(value).encode())

more = settings(max_examples=100 * int(os.environ.get("MARS_ENV_FUZZ", "1")))


def corpus(name):
    """The inputs of the corpus beside those that a strategy draws."""
    return st.sampled_from(CORPUS[name])


@more
@given(corpus("answers") | TEXTS)
def test_answers_are_read_or_not_found(text):
    for strict in (False, True):
        found = extract_answer(text, strict=strict)
        assert found.answer is None or isinstance(found.answer, str)


@more
@given(corpus("verdicts") | TEXTS)
def test_verdicts_are_read_or_malformed(text):
    judgement = read_judgement(text)
    assert not judgement.passed or "Correctness: Correct".lower() in text.lower()


@more
@given(corpus("json").map(str.encode) | BYTES)
def test_answers_of_servers_are_completions_or_cannot_be_read(body):
    sampling = Sampling(max_tokens=9)
    try:
        for each in completions_of(body, 1, sampling, processed=False, version=0):
            assert isinstance(each.text, str) and each.sampled_tokens >= 0
    except (*UNREADABLE, MarsError):
        pass
    error = embedded_error(body)
    assert error is None or 100 <= error[0] < 1000
    context = context_of(body, "m")
    assert context is None or context > 0


@more
@given(corpus("headers") | st.text(max_size=30))
def test_a_server_makes_a_client_wait_for_two_minutes_at_most(header):
    assert 0 <= retry_after(header) <= 120


@more
@given(corpus("json").map(str.encode) | BYTES, st.sampled_from(["math", "code"]))
def test_requests_of_clients_are_questions_or_refused(body, kind):
    try:
        wanted = read_request(plain_json(body), "m", kind)
    except (Refusal, MarsError, *UNREADABLE[:1], RecursionError) as error:
        assert not isinstance(error, Refusal) or 400 <= error.status < 500
    else:
        assert wanted.n >= 1 and wanted.problem.statement


@pytest.mark.parametrize(
    "read",
    [load_file, lambda path: list(check_rows(path.read_bytes().splitlines()))],
    ids=["problems", "samples"],
)
@more
@given(
    lines=st.lists(corpus("rows").map(lambda row: row.encode("utf-8", "surrogatepass")) | BYTES, max_size=4)
)
def test_files_are_read_or_refused_in_one_line(tmp_path_factory, read, lines):
    path = tmp_path_factory.mktemp("fuzz") / "rows.jsonl"
    path.write_bytes(b"\n".join(lines))
    try:
        read(path)
    except MarsError as error:
        assert "\n" not in str(error) and len(str(error)) < 2000


MATHS = st.lists(st.sampled_from([*"0123456789+-*/^()[]{},.:;=<>_%$ xyπ∞", *MACROS]), max_size=16).map(
    "".join
)


@more
@given(corpus("mathematics") | MATHS, corpus("mathematics") | MATHS | TEXTS)
def test_answers_are_judged_or_over_a_limit(reference, answer):
    try:
        equal, why = judge(reference, answer)
    except OverLimit:
        return
    assert equal is (why == "")


@more
@given(
    JSON.map(lambda value: json.dumps(value).encode()) | TREES.map(lambda value: json.dumps(value).encode())
)
def test_values_of_programs_are_read_and_compared_or_bad(data):
    try:
        value = decode(data, hashed=False)
    except BadValue:
        return
    assert values_match(json.loads(data), value) in (True, False)
    preview(value)


@more
@given(st.text(max_size=30) | st.text("0123456789.eE+- \n", max_size=30), st.text("01.e- \n", max_size=30))
@pytest.mark.parametrize("comparison", get_args(Comparison))
def test_outputs_are_compared(comparison, expected, actual):
    assert outputs_match(expected, expected, comparison=comparison)
    assert outputs_match(expected, actual, comparison=comparison) in (True, False)


@more
@given(JSON | st.dictionaries(st.sampled_from(NAMES), JSON | st.dictionaries(st.sampled_from(NAMES), LEAVES)))
def test_settings_are_valid_or_refused(given):
    try:
        load_run("arithmetic-solve-verify-correct", given if isinstance(given, dict) else {"train": given})
    except ConfigError as error:
        assert len(str(error)) < 4000


PIECES = (
    "answer is ", "answer: \\[", "\\", "\\boxed 5, ", "\\boxed{1} and ", "*", "1", '"a" ', "> a\n", "$$\n",
    "\\[\n", "<s>", "</s>", "<answer>", "𝟐", "A: ",
)  # fmt: skip


@pytest.mark.parametrize("word", [*WORDS, *PIECES])
@pytest.mark.parametrize("read", [extract_answer, read_judgement])
def test_time_grows_with_the_length(read, word):
    """So long a text takes a fraction of a second of CPU time; what is quadratic takes minutes."""
    began = time.process_time()
    read(r"\boxed{1}" * (word == "}") + word * (200_000 // len(word)))
    assert time.process_time() - began < 12
