"""Streams put together again: however an answer is cut into chunks, it comes out as it was."""

from hypothesis import given
from hypothesis import strategies as st

from mars_env.models.chat_stream import ChatStream, asked_for
from mars_env.serving.recording import digests, text_of_content

CUTS = st.lists(st.integers(1, 5), min_size=1, max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(text=st.text(min_size=1, max_size=20), cuts=CUTS, choices=st.integers(1, 3))
def test_the_answer_does_not_depend_on_the_chunks(text, cuts, choices):
    stream = ChatStream()
    opened = [{"index": index, "delta": {"role": "assistant", "content": ""}} for index in range(choices)]
    stream.add({"id": "a", "prompt_token_ids": [1, 2], "choices": opened})
    for index in range(choices):
        start = 0
        while start < len(text):
            end = start + cuts[start % len(cuts)]
            part = text[start:end]
            assert not stream.whole
            entries = [{"logprob": -float(place)} for place in range(start, min(end, len(text)))]
            choice = {
                "index": index,
                "delta": {"content": part},
                "token_ids": [ord(character) for character in part],
                "logprobs": {"content": entries},
                "finish_reason": "stop" if end >= len(text) else None,
            }
            stream.add({"choices": [choice]})
            start = end
    answer = stream.answer()
    assert stream.whole
    assert answer["prompt_token_ids"] == [1, 2]
    for index, choice in enumerate(answer["choices"]):
        assert choice["index"] == index
        assert choice["message"]["content"] == text
        assert choice["token_ids"] == [ord(c) for c in text]
        assert [entry["logprob"] for entry in choice["logprobs"]["content"]] == [
            -float(i) for i in range(len(text))
        ]


def test_tool_calls_come_in_pieces():
    stream = ChatStream()
    for call in (
        {"index": 0, "id": "c1", "function": {"name": "add", "arguments": ""}},
        {"index": 0, "function": {"arguments": '{"a": '}},
        {"index": 1, "id": "c2", "function": {"name": "mul", "arguments": "{}"}},
        {"index": 0, "function": {"arguments": "2}"}},
    ):
        stream.add({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]})
    calls = stream.answer()["choices"][0]["message"]["tool_calls"]
    assert [(call["id"], call["function"]) for call in calls] == [
        ("c1", {"name": "add", "arguments": '{"a": 2}'}), ("c2", {"name": "mul", "arguments": "{}"}),
    ]  # fmt: skip


@given(st.dictionaries(st.sampled_from(["choices", "id", "usage", "error", "prompt_token_ids"]), JSON))
def test_a_chunk_of_any_form_is_taken_or_refused(chunk):
    stream = ChatStream()
    try:
        stream.add(chunk)
        asked_for(chunk, logprobs=False, token_ids=False)
        stream.answer()
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):
        pass  # what the recorder takes for an answer that cannot be read


@given(st.lists(JSON | st.dictionaries(st.sampled_from(["role", "content", "tool_calls"]), JSON), max_size=4))
def test_messages_of_any_form_have_digests_or_are_refused(messages):
    try:
        found = digests(messages)
    except ValueError:
        return
    assert len(found) == len(messages)
    assert len(set(found)) == len(found)
    assert all(isinstance(text_of_content(message.get("content")), str) for message in messages)


def test_conversations_that_differ_have_other_digests():
    user = {"role": "user", "content": "a"}
    one = digests([user, {"role": "assistant", "content": "b"}])
    assert one[0] == digests([user])[0]
    assert one[1] != digests([user, {"role": "user", "content": "b"}])[1]
    assert one[1] != digests([user, {"role": "assistant", "content": "c"}])[1]
    call = {"id": "1", "function": {"name": "f", "arguments": "{}"}}
    assert one[1] != digests([user, {"role": "assistant", "content": "b", "tool_calls": [call]}])[1]
