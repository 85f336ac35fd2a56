import collections
import datetime
import decimal
import fractions
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mars_env.grading.code.values import BadValue, Handle, Pairs, decode, encode

plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=[]))
    | st.binary(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=5) | st.integers(), inner, max_size=4)
    ),
    max_leaves=20,
)


def same(a, b):
    if type(a) is not type(b):
        return False
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    return a == b


@given(plain)
def test_round_trip_keeps_types(value):
    assert same(decode(encode(value)), value)


@given(plain, st.data())
def test_damaged_bytes_raise_nothing_else(value, data):
    packet = bytearray(encode(value))
    packet[data.draw(st.integers(0, len(packet) - 1))] = data.draw(st.integers(0, 255))
    try:
        decode(bytes(packet))
    except BadValue:
        return


@pytest.mark.parametrize(
    "value",
    [
        float("inf"),
        -0.0,
        1 + 2j,
        bytearray(b"x"),
        {1, 2},
        frozenset({"a"}),
        collections.Counter("aab"),
        collections.OrderedDict(b=1, a=2),
        collections.deque([1, 2]),
        range(3, 9, 2),
        decimal.Decimal("1.50"),
        fractions.Fraction(1, 3),
        datetime.date(2024, 2, 29),
        datetime.datetime(2024, 2, 29, 1, 2, 3, 4),
        datetime.timedelta(days=1, seconds=5),
        2**5000,
        "\ud800",
    ],
    ids=lambda value: type(value).__name__,
)
def test_other_types(value):
    back = decode(encode(value))
    assert back == value and type(back) is type(value)
    assert math.copysign(1, back) == math.copysign(1, value) if value == 0.0 else True


def test_identity_inside_a_value():
    a = [1]
    back = decode(encode([a, a, (a,)]))
    assert back[0] is back[1] is back[2][0]
    a.append(a)
    back = decode(encode(a))
    assert back[1] is back


def test_what_comes_back_changes_the_original():
    inner, outer = [2], {"k": {1}}
    sent = []
    packet = encode((inner, outer), containers=sent)
    given_ = []
    theirs = decode(packet, containers=given_)
    theirs[0].append(5)
    theirs[1]["k"].add(7)
    theirs[1]["new"] = theirs[0]
    known = {id(container): number for number, container in enumerate(given_)}
    answer = decode(encode((theirs[0], theirs[1]), known=known), originals=sent)
    assert inner == [2, 5] and outer == {"k": {1, 7}, "new": [2, 5]}
    assert answer[0] is inner and outer["new"] is inner


def test_outside_sandboxes_nothing_is_hashed():
    back = decode(encode({"a": {1}, (1, 2): b"x"}), hashed=False)
    assert isinstance(back, Pairs) and isinstance(back[0][1], Handle) and back[0][1].kind == "set"
    with pytest.raises(BadValue):
        decode(b'["changed",0,["list"]]', hashed=False)


def test_depth_is_bounded():
    deep = []
    for _ in range(1000):
        deep = [deep]
    with pytest.raises(BadValue):
        encode(deep)
    with pytest.raises(BadValue):
        decode(b'["list",' * 500 + b"null" + b"]" * 500)
