"""Conversations and their digests, by which a recorded call finds the turn that it extends."""

from hypothesis import given
from hypothesis import strategies as st

from mars_env.serving.recording import digests, text_of_content

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(JSON | st.dictionaries(st.sampled_from(["role", "content", "tool_calls"]), JSON), max_size=4))
def test_messages_of_any_form_have_digests_or_raise_a_value_error(messages):
    try:
        prefixes = digests(messages)
    except ValueError:
        return
    assert len(prefixes) == len({*prefixes}) == len(messages)
    assert all(isinstance(text_of_content(message.get("content")), str) for message in messages)


def test_conversations_that_differ_have_other_digests():
    user = {"role": "user", "content": "a"}
    one = digests([user, {"role": "assistant", "content": "b"}])
    assert one[0] == digests([user])[0]
    assert one[1] != digests([user, {"role": "user", "content": "b"}])[1]
    assert one[1] != digests([user, {"role": "assistant", "content": "c"}])[1]
    call = {"id": "1", "function": {"name": "f", "arguments": "{}"}}
    assert one[1] != digests([user, {"role": "assistant", "content": "b", "tool_calls": [call]}])[1]
