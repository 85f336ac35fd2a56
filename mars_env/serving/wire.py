"""The protocol of `TeamServer`: a chat's request as a question, a solution as a chat's answer."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mars_env.gate import break_roles, without_surrogates
from mars_env.models.openai_dialect import message_text
from mars_env.net import UNREADABLE, Refusal
from mars_env.serving.answering import Kind, make_question
from mars_env.serving.solution import Solution
from mars_env.text import brief, describe_error
from mars_env.types import Problem

MAX_ANSWERS = 64  # to one request

_UNSUPPORTED = ("tools", "functions", "stop", "logprobs", "top_logprobs", "return_token_ids", "audio")
_CONVERSATION = "Answer the last message of this conversation."


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A request: the question, how many answers, its own seed, a stream or not, ended by its usage or not."""

    problem: Problem
    n: int = 1
    seed: int | None = None
    stream: bool = False
    usage: bool = False


def read_request(body: Any, name: str, kind: Kind) -> ChatRequest:
    """Read the JSON of a request; a `Refusal`, or a `ConfigError` for its tests, says why it is rejected."""
    if not isinstance(body, Mapping):
        raise Refusal(400, "the body of a request is an object of JSON")
    if (model := body.get("model", name)) != name:
        raise Refusal(404, f"there is no model {brief(model)}; this is {name!r}", code="model_not_found")
    for field in _UNSUPPORTED:
        if body.get(field):
            raise Refusal(400, f"a team's answer has no {field!r}: leave it out")
    if body.get("response_format") not in (None, {"type": "text"}):
        raise Refusal(400, "a team answers in plain text: leave out 'response_format'")
    seed, n = body.get("seed"), body.get("n")
    if seed is not None and type(seed) is not int:
        raise Refusal(400, f"'seed' is an integer, got {brief(seed)}")
    n = 1 if n is None else n
    if type(n) is not int or not 1 <= n <= MAX_ANSWERS:
        raise Refusal(400, f"'n' is an integer from 1 to {MAX_ANSWERS}, got {brief(n)}")
    extras = body.get("mars_env") or {}
    if not isinstance(extras, Mapping) or extras.keys() - {"tests"}:
        raise Refusal(400, "'mars_env' holds nothing but 'tests': the public tests of a program")
    options = body.get("stream_options") or {}
    usage = isinstance(options, Mapping) and bool(options.get("include_usage"))
    tests = extras.get("tests") or ()
    problem = make_question(_statement(body.get("messages")), kind=kind, tests=tests, salt=seed)
    return ChatRequest(problem, n, seed, bool(body.get("stream")), usage)


def _statement(messages: Any) -> str:
    """The question that a chat asks: its one message, or the conversation, after the system messages."""
    if not isinstance(messages, list) or not messages:
        raise Refusal(400, "'messages' is a list of at least one message")
    parts = [_message(message) for message in messages]
    if parts[-1][0] != "user":
        raise Refusal(400, "the last message of a question is the user's")
    preface = [text for role, text in parts if role == "system" and text.strip()]
    spoken = [(role, text) for role, text in parts if role != "system"]
    if len(spoken) == 1:
        return "\n\n".join([*preface, spoken[0][1]])
    lines = [f"{role.capitalize()}: {break_roles(text)}" for role, text in spoken]
    return "\n\n".join([*preface, _CONVERSATION, *lines])


def _message(message: Any) -> tuple[str, str]:
    role = message.get("role") if isinstance(message, Mapping) else None
    role = "system" if role == "developer" else role
    if role not in ("system", "user", "assistant", "tool"):
        who = "the system's, the user's, the assistant's or a tool's"
        raise Refusal(400, f"a message is {who}, not {brief(role)}")
    content = message.get("content")
    if role == "assistant" and message.get("tool_calls"):
        return role, without_surrogates(_with_calls(message))
    if isinstance(content, list):
        if not all(isinstance(item, Mapping) and isinstance(item.get("text"), str) for item in content):
            raise Refusal(400, "a team reads text alone: send messages without images, sounds or files")
        content = "".join(item["text"] for item in content)
    if not isinstance(content, str):
        raise Refusal(400, f"the content of a message is a string, got {brief(content)}")
    return role, without_surrogates(content)


def _with_calls(message: Mapping[str, Any]) -> str:
    try:
        return message_text(message)
    except UNREADABLE as error:
        raise Refusal(400, f"the message with tool_calls cannot be read: {describe_error(error)}") from error


def _finish_reason(solution: Solution) -> str:
    """Why the answer ended; a `Refusal` if the context of a model was too small for this question."""
    completions = solution.final.action.completions
    reason = completions[-1].finish_reason if completions else "stop"
    if reason == "context":
        why = "the question exceeds the context length of a model of the team"
        raise Refusal(400, why, code="context_length_exceeded")
    return reason


def completion(name: str, answer_id: str, solutions: Sequence[Solution]) -> dict[str, Any]:
    """The answer to a request."""
    choices = [
        {
            "index": index,
            "message": {"role": "assistant", "content": solution.text},
            "finish_reason": _finish_reason(solution),
            "logprobs": None,
        }
        for index, solution in enumerate(solutions)
    ]
    summaries = [solution.as_dict() for solution in solutions]
    for summary in summaries:
        del summary["text"]  # it is in the message
    read = sum(solution.prompt_tokens for solution in solutions)
    sampled = sum(solution.tokens for solution in solutions)
    return {
        "id": answer_id,
        "object": "chat.completion",
        "created": int(time.time()),
        "model": name,
        "choices": choices,
        "usage": {"prompt_tokens": read, "completion_tokens": sampled, "total_tokens": read + sampled},
        "mars_env": summaries,
    }
