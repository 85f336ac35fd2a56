"""Keys that servers say back are masked before anything is cut."""

import json
import traceback
from urllib.parse import quote

import pytest
from aiohttp import web
from http_app import served
from hypothesis import given
from hypothesis import strategies as st
from raw_server import Script

from mars_env.errors import ModelError
from mars_env.models import HTTPModel
from mars_env.models.openai_dialect import error_text
from mars_env.models.secrets import PIECE, Secrets
from mars_env.types import Sampling

KEY = "sk-proj-4f/9+Zq_Xw27LmNpRtUvY0"

KEYS = st.text(st.characters(codec="utf-8", exclude_categories=["Zs", "Zl", "Zp", "Cc", "Cs"]), min_size=8)


def leaked(text, key=KEY):
    """Pieces of a key that a text holds."""
    return [key[i : i + PIECE] for i in range(len(key) - PIECE + 1) if key[i : i + PIECE] in text]


def test_no_piece_is_left_where_the_server_has_cut_the_key():
    mask = Secrets([KEY]).mask
    for first in range(len(KEY)):
        for last in range(first, len(KEY) + 1):
            assert not leaked(error_text(f"bad key {KEY[first:last]}...".encode(), mask))


@given(KEYS, st.text(), st.text(), st.integers(0, 400))
def test_any_key_in_any_text(key, before, after, end):
    shown = Secrets([key]).mask(before + key + after)[:end]
    assert not leaked(shown, key.split()[0])


@pytest.mark.parametrize(
    "written", [KEY, KEY.upper(), quote(KEY, safe=""), json.dumps(KEY), KEY.replace("/", "\\/")]
)
def test_other_writings_of_a_key_are_masked(written):
    shown = Secrets([KEY]).mask(f"before {written} after")
    assert shown.startswith("before") and shown.endswith("after") and "***" in shown
    assert not leaked(shown.lower(), KEY.lower())


def test_what_is_no_secret_stays():
    assert Secrets([""]).mask("nothing to hide") == "nothing to hide"
    assert Secrets(["t", "EMPTY"]).mask("the key EMPTY is not set") == "the key *** is not set"
    assert KEY not in repr(Secrets([KEY]))


OK = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"

ECHOES = {
    "first line": b"KEY is not HTTP\r\n\r\n",
    "far in the first line": b"z" * 28 + b"KEY\r\n\r\n",
    "status": b"HTTP/1.1 KEY\r\n\r\n",
    "length": b"HTTP/1.1 200 OK\r\nContent-Length: KEY\r\n\r\n",
    "finish reason": OK + b'{"choices": [{"text": "", "finish_reason": "abort"}], "KEY": 1}',
    "not JSON": OK + b"KEY",
    "a count": OK + b'{"choices": [{"text": ""}], "usage": {"completion_tokens": "KEY"}}',
    "an id": OK + b'{"choices": [{"text": "", "token_ids": ["KEY"]}]}',
    "refused": b"HTTP/1.1 401 No\r\nConnection: close\r\n\r\n" + b"z" * 290 + b"KEY",
    "overloaded": b"HTTP/1.1 503 No\r\nConnection: close\r\nRetry-After: 0\r\n\r\n" + b"z" * 290 + b"KEY",
}


@pytest.mark.parametrize("name", ECHOES)
async def test_no_error_of_a_model_holds_the_key(monkeypatch, name):
    monkeypatch.setenv("MY_KEY", KEY)
    options = {"api_key_env": "MY_KEY", "attempts": 2, "backoff": 0.001, "patience": 0.5}
    answer = ECHOES[name].replace(b"KEY", f"Bearer {KEY}".encode())
    async with Script(*[[answer, None]] * 99) as server:
        model = HTTPModel(server.url, "m", **options)
        with pytest.raises(ModelError) as caught:
            await model.complete("p", 1, Sampling())
    shown = "".join(traceback.format_exception(caught.value)) + repr(model)
    assert not leaked(shown)


async def test_secrets_in_headers_and_addresses_are_masked_too():
    async def echo(request):
        return web.Response(text=f"{request.headers['X-Token']} {request.query_string}", status=400)

    async with served({"POST /v1/completions": echo}) as url:
        headers = {"X-Token": "Token header-secret-1"}
        model = HTTPModel(f"{url}/v1?api-key=query-secret-1", "m", headers=headers)
        with pytest.raises(ModelError) as caught:
            await model.complete("p", 1, Sampling())
    shown = f"{caught.value} {model!r}"
    assert shown.count("***") >= 2
    assert not leaked(shown, "query-secret-1") and not leaked(shown, "header-secret-1")
