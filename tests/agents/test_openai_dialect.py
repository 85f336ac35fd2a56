import json

import pytest

from mars_env.agents.context import NO_LIMIT
from mars_env.agents.openai_dialect import (
    completions_of,
    context_of,
    error_text,
    is_too_long,
    messages_json,
    sampling_fields,
)
from mars_env.types import Sampling


def answer(*choices, **fields):
    return json.dumps({"choices": list(choices), **fields}).encode()


def test_choices_come_in_the_order_of_their_indices():
    said = answer({"index": 1, "text": "two"}, {"index": 0, "text": "one", "finish_reason": "length"})
    found = completions_of(said, 2, Sampling(), processed=False, version=3)
    assert [(c.text, c.finish_reason, c.versions) for c in found] == [
        ("one", "length", ()),
        ("two", "stop", ()),
    ]


def test_log_probabilities_are_kept_where_they_are_those_that_were_sampled_from():
    choice = {"text": "x", "token_ids": [4], "prompt_token_ids": [1], "logprobs": {"token_logprobs": [-0.5]}}
    for sampling, processed, kept in (
        *((Sampling(), False, True), (Sampling(temperature=0.5), False, False)),
        *((Sampling(temperature=0.5), True, True), (Sampling(top_p=0.5), False, False)),
        *((Sampling(top_k=-1), False, True), (Sampling(top_k=5), False, False)),
    ):
        [found] = completions_of(answer(choice), 1, sampling, processed=processed, version=3)
        assert found.trainable is kept and found.versions == ((3, 1),)


@pytest.mark.parametrize("payload", [b"{}", b"[]", b"no", answer(), answer({"text": 5}), answer("text")])
def test_what_is_no_answer_raises(payload):
    with pytest.raises((ValueError, KeyError, TypeError, AttributeError)):
        completions_of(payload, 1, Sampling(), processed=False, version=0)


def test_requests_hold_what_was_asked_and_no_more():
    fields = json.loads(
        "{" + sampling_fields(2, Sampling(0.5, max_tokens=7, stop=("#",)), True, True, "max_tokens") + "}"
    )
    assert fields == {
        **{"n": 2, "temperature": 0.5, "top_p": 1.0, "top_k": 0, "max_tokens": 7, "stop": ["#"]},
        **{"return_token_ids": True, "logprobs": True},
    }
    plain = json.loads("{" + sampling_fields(1, Sampling(max_tokens=7), False, False, "limit") + "}")
    assert plain == {"n": 1, "temperature": 1.0, "top_p": 1.0, "limit": 7}
    assert json.loads(messages_json([{"role": "user", "content": "é", "name": "x"}])) == [
        {"role": "user", "content": "é"}
    ]


def test_errors_are_one_line():
    assert error_text(b'{"error": {"message": "too\\nlong"}}') == "too long"
    assert error_text(b"<html>busy</html>") == "<html>busy</html>" and error_text(b"") == "no explanation"


WRONG_NUMBERS = {
    "text": {"usage": {"completion_tokens": "many"}},
    "prompt text": {"usage": {"prompt_tokens": "x"}},
    "nan": {"usage": {"completion_tokens": float("nan")}},
    "infinite": {"usage": {"prompt_tokens": float("inf")}},
    "negative": {"usage": {"completion_tokens": -(10**9)}},
    "bool": {"usage": {"completion_tokens": True}},
    "half": {"usage": {"completion_tokens": 1.5}},
    "huge": {"usage": {"completion_tokens": 10**30}},
    "list": {"usage": {"completion_tokens": [1]}},
    "negative prompt id": {"prompt_token_ids": [-1]},
    "text prompt id": {"prompt_token_ids": ["1"]},
    "nan logprob": {"choice": {"logprobs": {"token_logprobs": [float("nan"), -1.0]}}},
    "positive logprob": {"choice": {"logprobs": {"token_logprobs": [-1.0, 0.5]}}},
    "-inf logprob": {"choice": {"logprobs": {"token_logprobs": [float("-inf"), -1.0]}}},
    "text logprob": {"choice": {"logprobs": {"token_logprobs": ["-1", -1.0]}}},
    "bool logprob": {"choice": {"logprobs": {"token_logprobs": [False, -1.0]}}},
    "short logprobs": {"choice": {"logprobs": {"token_logprobs": [-1.0]}}},
    "long logprobs": {"choice": {"logprobs": {"content": [{"logprob": -1.0}] * 3}}},
    "negative id": {"choice": {"token_ids": [1, -2]}},
    "bool id": {"choice": {"token_ids": [1, True]}},
    "float id": {"choice": {"token_ids": [1, 2.0]}},
    "text id": {"choice": {"token_ids": "12"}},
    "huge id": {"choice": {"token_ids": [1, 2**60]}},
}


@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("name", WRONG_NUMBERS)
def test_a_number_that_is_none_is_no_answer(name, temperature):
    wrong = dict(WRONG_NUMBERS[name])
    right = {"text": "4", "token_ids": [1, 2], "logprobs": {"token_logprobs": [-0.5, 0.0]}}
    choice = {**right, **wrong.pop("choice", {})}
    sampling = Sampling(temperature=temperature)
    read = {"processed": False, "version": 0}
    assert completions_of(answer(right), 1, sampling, **read)
    with pytest.raises((ValueError, TypeError)):
        completions_of(answer(choice, **wrong), 1, sampling, **read)


def test_rounding_above_zero_is_forgiven():
    choice = {"text": "4", "token_ids": [1], "logprobs": {"token_logprobs": [1e-4]}}
    (found,) = completions_of(answer(choice), 1, Sampling(), processed=False, version=0)
    assert found.logprobs == (0.0,)


@pytest.mark.parametrize(("choices", "usage", "context", "reasons"), [
    # one sample: fewer tokens than its limit of 8 cannot be its own
    (["length"], {"completion_tokens": 8}, None, ["length"]),
    (["length"], {"completion_tokens": 7}, None, ["context"]),
    (["stop"], {"completion_tokens": 7}, None, ["stop"]),
    # without a count nothing says so
    (["length"], {}, None, ["length"]),
    (["length"], {"completion_tokens": 0}, None, ["length"]),
    # several: those that were cut off would have 8 each
    (["length", "length"], {"completion_tokens": 16}, None, ["length", "length"]),
    (["length", "length"], {"completion_tokens": 15}, None, ["context", "context"]),
    (["length", "stop"], {"completion_tokens": 7}, None, ["context", "stop"]),
    (["length", "stop"], {"completion_tokens": 9}, None, ["length", "stop"]),
    # a context that is known decides
    (["length", "stop"], {"completion_tokens": 9, "prompt_tokens": 93}, 100, ["context", "stop"]),
    (["length", "stop"], {"completion_tokens": 9, "prompt_tokens": 92}, 100, ["length", "stop"]),
    # other words
    (["model_length"], {"completion_tokens": 8}, None, ["context"]),
    (["max_tokens"], {"completion_tokens": 8}, None, ["length"]),
    (["content_filter"], {"completion_tokens": 3}, None, ["content_filter"]),
    (["SAFETY"], {"completion_tokens": 3}, None, ["content_filter"]),
    (["PROHIBITED_CONTENT", "refusal"], {}, None, ["content_filter", "content_filter"]),
    (["content_filter: RECITATION"], {"completion_tokens": 3}, None, ["content_filter"]),
    (["MAX_TOKENS"], {"completion_tokens": 7}, None, ["context"]),
    (["LENGTH", "Stop"], {"completion_tokens": 7}, None, ["context", "stop"]),
    (["eos_token", "tool_calls"], {}, None, ["stop", "stop"]),
    ([None, ""], {"completion_tokens": 3}, None, ["stop", "stop"]),
])  # fmt: skip
def test_what_the_context_cut_off_is_told_from_a_limit_of_its_own(choices, usage, context, reasons):
    told = [{"index": i, "text": "so", "finish_reason": reason} for i, reason in enumerate(choices)]
    found = completions_of(
        answer(*told, usage=usage), len(told), Sampling(max_tokens=8), processed=False, version=0,
        context=context,
    )  # fmt: skip
    assert [completion.finish_reason for completion in found] == reasons


@pytest.mark.parametrize("reason", [
    "abort", "ERROR", "insufficient_system_resource", "network_error", "timeout", "cancelled", "new", 3,
])  # fmt: skip
def test_a_completion_that_the_server_broke_off_is_no_answer(reason):
    good, bad = ({"text": "so", "finish_reason": told} for told in ("stop", reason))
    assert completions_of(answer(good), 1, Sampling(), processed=False, version=0)
    with pytest.raises(ValueError, match=f"broke the completion off: finish_reason {reason!r}"):
        completions_of(answer(good, bad), 2, Sampling(), processed=False, version=0)


@pytest.mark.parametrize(
    "usage", [{}, {"completion_tokens": 3}, {"completion_tokens": 3, "prompt_tokens": 9}]
)
@pytest.mark.parametrize("context", [None, 100])
@pytest.mark.parametrize("ids", [[], [1, 2, 3]])
def test_without_a_limit_only_the_context_cuts_off(usage, context, ids):
    told = [{"text": "so", "finish_reason": reason, "token_ids": ids} for reason in ("length", "stop")]
    found = completions_of(
        answer(*told, usage=usage), 2, Sampling(max_tokens=NO_LIMIT), processed=False, version=0,
        context=context,
    )  # fmt: skip
    assert [completion.finish_reason for completion in found] == ["context", "stop"]


def test_token_ids_tell_by_themselves():
    told = [
        {"index": i, "text": "so", "finish_reason": "length", "token_ids": list(range(n))}
        for i, n in enumerate((8, 7))
    ]
    found = completions_of(answer(*told), 2, Sampling(max_tokens=8), processed=False, version=0)
    assert [completion.finish_reason for completion in found] == ["length", "context"]


@pytest.mark.parametrize(("status", "error", "too_long"), [
    (400, {"message": "This model's maximum context length is 4096 tokens. You requested 5000"}, True),
    (400, {"message": "no", "code": "context_length_exceeded"}, True),
    (400, {"message": "no", "type": "exceed_context_size_error"}, True),
    (413, {"message": "The prompt is too long"}, True),
    (400, {"message": "unknown field"}, False),
    (500, {"message": "maximum context length"}, False),
    (401, {"message": "maximum context length"}, False),
])  # fmt: skip
def test_refusals_for_length_are_known_by_their_words(status, error, too_long):
    assert is_too_long(status, json.dumps({"error": error}).encode()) is too_long


@pytest.mark.parametrize("payload", [
    b"", b"[]", b"{}", b'{"data": 5}', b'{"data": [5]}', b'{"data": [{"id": "m"}]}', b"[" * 99_999,
    b'{"data": [{"id": "m", "max_model_len": "9"}]}', b'{"data": [{"id": "m", "max_model_len": -1}]}',
])  # fmt: skip
def test_a_list_of_models_that_tells_nothing(payload):
    assert context_of(payload, "m") is None
