import json
from pathlib import Path

import pytest

from mars_env.models.openai_dialect import (
    biasing_fields,
    completions_of,
    context_of,
    embedded_error,
    error_text,
    is_filtered,
    is_too_long,
    message_text,
    retry_after,
)
from mars_env.models.requests import NO_LIMIT
from mars_env.types import Sampling

ROWS = json.loads(Path(__file__).with_name("dialect.json").read_text("utf-8"))
IDS = {"text": "x", "token_ids": [4], "prompt_token_ids": [1], "logprobs": {"token_logprobs": [-0.5]}}


def rows_of(name):
    """A test for each row of a table of dialect.json."""
    [names] = {tuple(row) for row in ROWS[name]}
    return pytest.mark.parametrize(names, [tuple(row.values()) for row in ROWS[name]])


def answer(*choices, **fields):
    return json.dumps({"choices": list(choices), **fields}).encode()


def read(*choices, sampling=None, fields=(), **how):
    """The completions of an answer with these choices, and with these fields beside them."""
    how = {"processed": False, "version": 0, **how}
    return completions_of(answer(*choices, **dict(fields)), len(choices), sampling or Sampling(), **how)


def test_choices_come_in_the_order_of_their_indices():
    two = read({"index": 1, "text": "two"}, {"index": 0, "text": "one", "finish_reason": "length"}, version=3)
    assert [(c.text, c.finish_reason, c.versions) for c in two] == [
        ("one", "length", ()),
        ("two", "stop", ()),
    ]


def test_a_refusal_instead_of_content_is_no_answer():
    said = [{"message": {"content": text, "refusal": "No."}, "finish_reason": "stop"} for text in (None, "4")]
    assert [(c.text, c.finish_reason) for c in read(*said)] == [("", "content_filter"), ("4", "stop")]


def test_log_probabilities_are_kept_where_they_are_those_that_were_sampled_from():
    for sampling, processed, kept in (
        *((Sampling(), False, True), (Sampling(temperature=0.5), False, False)),
        *((Sampling(temperature=0.5), True, True), (Sampling(top_p=0.5), False, False)),
        *((Sampling(top_k=-1), False, True), (Sampling(top_k=5), False, False)),
    ):
        [found] = read(IDS, sampling=sampling, processed=processed, version=3)
        assert found.trainable is kept and found.versions == ((3, 1),)


@pytest.mark.parametrize("unknown", [None, -9999.0, -9999, float("nan"), float("-inf"), float("inf"), 0.5])
def test_unknown_log_probabilities(unknown):
    for told in (
        {"token_logprobs": [-0.5, unknown]},
        {"content": [{"logprob": value} for value in (-0.5, unknown)]},
    ):
        [found] = read({**IDS, "token_ids": [4, 5], "logprobs": told})
        assert found.token_ids == (4, 5) and found.logprobs == () and not found.trainable


@pytest.mark.parametrize("payload", [b"{}", b"[]", b"no", answer(), answer({"text": 5}), answer("text")])
def test_what_is_no_answer_raises(payload):
    with pytest.raises((ValueError, KeyError, TypeError, AttributeError)):
        completions_of(payload, 1, Sampling(), processed=False, version=0)


WRONG_NUMBERS = [
    *({"usage": {"completion_tokens": value}} for value in ("many", float("nan"), -1, True, 1.5, 10**30)),
    {"usage": {"prompt_tokens": float("inf")}},
    {"prompt_token_ids": [-1]},
    *({"logprobs": {"token_logprobs": [v, -1.0]}} for v in ("-1", False)),
    {"logprobs": {"token_logprobs": [-1.0]}},
    {"logprobs": {"content": [{"logprob": -1.0}] * 3}},
    *({"token_ids": ids} for ids in ([1, -2], [1, True], [1, 2.0], "12", [1, 2**60])),
]


@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("wrong", WRONG_NUMBERS, ids=str)
def test_a_number_that_is_none_is_no_answer(wrong, temperature):
    right = {"text": "4", "token_ids": [1, 2], "logprobs": {"token_logprobs": [-0.5, 0.0]}}
    sampling = Sampling(temperature=temperature)
    assert read(right, sampling=sampling)
    with pytest.raises((ValueError, TypeError)):
        read({**right, **wrong}, sampling=sampling, fields=wrong)


def test_rounding_above_zero_is_forgiven():
    [found] = read({**IDS, "logprobs": {"token_logprobs": [1e-4]}})
    assert found.logprobs == (0.0,)


@rows_of("finish reasons")
def test_what_the_context_cut_off_is_told_from_a_limit_of_its_own(why, choices, usage, context, reasons):
    told = [{"index": i, "text": "so", "finish_reason": reason} for i, reason in enumerate(choices)]
    found = read(*told, sampling=Sampling(max_tokens=8), fields={"usage": usage}, context=context)
    assert [completion.finish_reason for completion in found] == reasons, why


def test_token_ids_and_thinking_are_counted():
    told = [{"text": "so", "finish_reason": "length", "token_ids": [1] * n} for n in (8, 7)]
    found = read(*told, sampling=Sampling(max_tokens=8))
    assert [completion.finish_reason for completion in found] == ["length", "context"]
    usage = {"prompt_tokens": 32, "completion_tokens": 9, "total_tokens": 135}
    [found] = read({"text": "4"}, fields={"usage": usage})
    assert (found.prompt_tokens, found.completion_tokens) == (32, 103)


@pytest.mark.parametrize("usage", [3.0, None, [], "3", {"completion_tokens": 3.0, "total_tokens": 3.0}])
def test_a_usage_of_another_form_spoils_no_answer(usage):
    [found] = read({"text": "4"}, fields={"usage": usage})
    assert found.text == "4"
    assert found.completion_tokens == (3 if isinstance(usage, dict) else 0)


@pytest.mark.parametrize("reason", [
    "abort", "ERROR", "insufficient_system_resource", "network_error", "timeout", "cancelled", "new", 3,
])  # fmt: skip
def test_a_completion_that_the_server_broke_off_is_no_answer(reason):
    good, bad = ({"text": "so", "finish_reason": told} for told in ("stop", reason))
    assert read(good)
    with pytest.raises(ValueError):
        read(good, bad)


@pytest.mark.parametrize(
    "usage", [{}, {"completion_tokens": 3}, {"completion_tokens": 3, "prompt_tokens": 9}]
)
@pytest.mark.parametrize("context", [None, 100])
@pytest.mark.parametrize("ids", [[], [1, 2, 3]])
def test_without_a_limit_only_the_context_cuts_off(usage, context, ids):
    told = [{"text": "so", "finish_reason": reason, "token_ids": ids} for reason in ("length", "stop")]
    sampling = Sampling(max_tokens=NO_LIMIT)
    found = read(*told, sampling=sampling, fields={"usage": usage}, context=context)
    assert [completion.finish_reason for completion in found] == ["context", "stop"]


@rows_of("refusals")
def test_refusals_for_length_are_known_by_their_words(status, error, too_long):
    assert is_too_long(status, json.dumps({"error": error}).encode()) is too_long


@pytest.mark.parametrize("payload", [
    b"", b"[]", b"{}", b'{"data": 5}', b'{"data": [5]}', b'{"data": [{"id": "m"}]}', b"[" * 99_999,
    b'{"data": [{"id": "m", "max_model_len": "9"}]}', b'{"data": [{"id": "m", "max_model_len": -1}]}',
    b'{"data": [{"id": "m", "parent": "base"}]}', b'{"data": [{"id": "m", "parent": "m"}]}',
])  # fmt: skip
def test_a_list_of_models_that_tells_nothing(payload):
    assert context_of(payload, "m") is None


def test_an_adapter_holds_what_its_base_model_holds():
    listed = [{"id": "base", "max_model_len": 4096}, {"id": "mine", "max_model_len": None, "parent": "base"}]
    assert context_of(json.dumps({"data": listed}).encode(), "mine") == 4096


@rows_of("fields")
def test_fields_that_change_the_distribution_are_known(fields, names):
    assert biasing_fields(fields) == names
    [found] = read(IDS, processed=True, biased=bool(names))
    assert found.trainable is not bool(names)


@rows_of("parts")
def test_content_in_parts_is_put_together(content, text):
    assert message_text({"content": content}) == text


@pytest.mark.parametrize(("content", "text"), [("a", "<think>b</think>a"), (None, "<think>b")])
def test_thinking_that_a_server_parts_is_put_back(content, text):
    for name in ("reasoning", "reasoning_content"):
        assert message_text({"content": content, name: "b"}) == text


@pytest.mark.parametrize("content", [5, ["4"], [{"type": "text", "text": 4}], [{"type": "image_url"}]])
def test_content_that_is_no_text_is_none(content):
    with pytest.raises((TypeError, AttributeError)):
        message_text({"content": content})


@rows_of("errors")
def test_an_error_that_is_told_in_an_answer_has_its_status(payload, status):
    told = embedded_error(json.dumps(payload).encode())
    assert told[0] == status and error_text(told[1]) == "no"


@pytest.mark.parametrize("payload", [b"", b"[]", b"{}", b'{"choices": [{"text": "4"}]}', b'{"error": null}'])
def test_an_answer_without_an_error_tells_none(payload):
    assert embedded_error(payload) is None


def test_filters_are_known_by_their_codes():
    assert is_filtered(b'{"error": {"code": "data_inspection_failed", "message": "no"}}')
    assert not is_filtered(b'{"error": {"code": "invalid_request_error", "message": "content_filter"}}')
    assert not is_filtered(b"content_filter")


@pytest.mark.parametrize("header", ["Mon, 01 Jan 2024 00:00:00 +99999999999999999999", "Mon, 32 Jan", "-3"])
def test_a_time_that_is_none_is_no_wait(header):
    assert retry_after(header) == 0.0
