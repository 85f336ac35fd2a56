"""Requests that fail, in virtual time: each one has its own attempts, and none holds up another."""

import asyncio
import zlib
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from virtual_servers import REFUSALS, Servers, address, serving

from benchmarks.simulator import run_virtual
from mars_env.errors import ModelError, ServerDown
from mars_env.models import HTTPModel
from mars_env.types import Sampling

BAD = "BAD"


async def ask(model, prompt):
    """The answer to a prompt, or its error, and when it came."""
    try:
        seed = zlib.crc32(prompt.encode())
        [completion] = await model.complete(prompt, 1, Sampling(max_tokens=64, seed=seed))
        answer = completion.text
    except ModelError as error:
        answer = error
    return answer, asyncio.get_running_loop().time()


def ask_all(servers, prompts, hosts=("a",), **options):
    """Answers to prompts that are asked together, and when they came."""

    async def play():
        model = HTTPModel(address(*hosts), "m", **options)
        return await asyncio.gather(*(ask(model, prompt) for prompt in prompts))

    with serving(servers):
        return run_virtual(play())


@pytest.mark.parametrize("refusal", ["429", "502", "reset", "unreachable"])
def test_what_fails_while_nothing_is_answered_does_not_count(refusal):
    servers = Servers(dead=["a"], refusal=refusal)

    async def play():
        model = HTTPModel(address("a"), "m", attempts=2)
        calls = [asyncio.ensure_future(ask(model, f"good {i}")) for i in range(20)]
        await asyncio.sleep(500)
        assert not any(call.done() for call in calls)
        servers.dead.clear()
        return await asyncio.gather(*calls)

    with serving(servers):
        answers = run_virtual(play())
    assert all(isinstance(answer, str) and 500 < at < 550 for answer, at in answers)


@pytest.mark.parametrize("refusal", ["429 later", "500", "error under 200", "reset", "unreachable"])
def test_servers_that_answer_nothing_for_the_patience_are_down(refusal, caplog):
    servers = Servers(dead=["a"], refusal=refusal)
    answers = ask_all(servers, ["p"] * 10, patience=100.0)
    assert {type(answer) for answer, _ in answers} == {ServerDown}
    assert all(100 <= at < 110 for _, at in answers)
    assert servers.requests["a"] < 10 * 20
    assert [record.levelname for record in caplog.records if "tried again" in record.message] == ["WARNING"]


def test_a_request_that_failed_while_others_were_answered_is_not_lost_in_an_outage():
    """The servers go down right after they have refused it once: that is theirs, and ends the run."""
    servers = Servers(refused=BAD, refusal="reset", seconds=0.1)

    async def play():
        model = HTTPModel(address("a"), "m", patience=100.0)
        calls = [asyncio.ensure_future(ask(model, prompt)) for prompt in (BAD, "good", "later")]
        await asyncio.sleep(0.2)
        servers.dead.add("a")
        late = [asyncio.ensure_future(ask(model, f"late {i}")) for i in range(4)]
        return await asyncio.gather(*calls[:1], *late)

    with serving(servers):
        answers = run_virtual(play())
    assert {type(answer) for answer, _ in answers} == {ServerDown}


def test_a_server_that_asks_to_wait_is_not_asked_before():
    servers = Servers(refused=BAD, refusal="429 later")
    [(_, at)] = ask_all(servers, [BAD], attempts=3, backoff=0.001)
    assert 2 * 20 <= at < 100  # two pauses between three attempts, and controls


@pytest.mark.parametrize("refusal", ["502", "reset", "unreachable"])
def test_a_dead_server_of_four_costs_at_most_its_own_part(refusal):
    """Four servers of four places; where one refuses everything, at once, the others keep three quarters."""
    prompts = [f"p {i}" for i in range(800)]
    calm = ask_all(Servers(slots=4), prompts, "abcd", concurrency=24)
    servers = Servers(slots=4, dead=["d"], refusal=refusal)
    answers = ask_all(servers, prompts, "abcd", concurrency=24)
    assert all(isinstance(answer, str) for answer, _ in answers)
    assert max(at for _, at in calm) >= 0.7 * max(at for _, at in answers)
    assert 2 < servers.requests["d"] < 0.05 * len(prompts)  # it is tried again, but not much


def test_a_server_that_comes_back_gets_its_share():
    servers = Servers(dead=["d"], refusal="unreachable")

    async def play():
        model = HTTPModel(address(*"abcd"), "m", concurrency=16)
        await asyncio.gather(*(ask(model, "p") for _ in range(100)))
        servers.dead.clear()
        servers.requests.clear()
        await asyncio.gather(*(ask(model, "p") for _ in range(400)))

    with serving(servers):
        run_virtual(play())
    assert servers.requests["d"] > 60


def test_each_server_gets_a_request_once_before_any_gets_it_again():
    """Also where a server that has refused it answers others all the time."""
    servers = Servers(seconds=0.02, refused=f"^[ab]: .*{BAD}", refusal="429 later")
    prompts = [f"{BAD} {i}!" if i % 4 == 0 else f"good {i}" for i in range(200)]
    answers = ask_all(servers, prompts, "abc", concurrency=32, backoff=60.0)
    assert all(isinstance(answer, str) and at < 20 for answer, at in answers)
    attempts = [sum(prompt in body for body in servers.bodies) for prompt in prompts[::4]]
    assert max(attempts) == 3


FEW = [f"p{i}!" for i in range(30)]


@cache
def calm_answers():
    """What they are answered, whoever does it."""
    return [answer for answer, _ in ask_all(Servers(), FEW)]


@settings(max_examples=30, deadline=None)
@given(
    refused=st.sets(st.integers(0, 29), max_size=10),
    refusal=st.sampled_from([*REFUSALS.values()]).filter(lambda each: each is not REFUSALS["unreachable"]),
    hosts=st.sampled_from(["a", "ab", "abcd"]),
    concurrency=st.integers(1, 32),
)
def test_any_refused_requests_cost_themselves_alone(refused, refusal, hosts, concurrency):
    """Invariant 4: one bad sample costs one sample."""
    servers = Servers(refused="|".join(f"p{i}!" for i in refused) or "(?!)")
    servers.refusal = refusal
    answers = [answer for answer, _ in ask_all(servers, FEW, hosts, concurrency=concurrency)]
    calm = calm_answers()
    assert {i for i, answer in enumerate(answers) if type(answer) is ModelError} == refused
    assert all(answers[i] == calm[i] for i in range(30) if i not in refused)
    if hosts == "a":
        assert all(sum(f"p{i}!" in body for body in servers.bodies) == 6 for i in refused)
