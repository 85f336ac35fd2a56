"""A turn with tools: what tells a model of them, how its calls are read and run, and what it reads then."""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final

from jinja2 import TemplateError
from pydantic_core import from_json

from mars_env.agents.calls import TAGGED, Call, parse_call, parse_calls
from mars_env.agents.tool_turn import ToolTurn
from mars_env.agents.tools import Toolbox
from mars_env.errors import ConfigError, explained
from mars_env.gate import Marks, fill_template, map_message
from mars_env.models.requests import is_messages, is_token_ids, plain_chat, prompt_text, with_messages
from mars_env.models.token_gate import encode_runs, gate_of
from mars_env.seeds import derive_seed
from mars_env.sync import gather_samples
from mars_env.text import describe_error
from mars_env.types import Action, Completion, Message, Model, Observation, Prompt, Sampling, ToolCall

_MARK: Final = "b7f3-assistant-b7f3"

INSTRUCTIONS: Final = """You may call tools while you work:

{tools}

To call one, write its name and its arguments as JSON, and end your message:

<tool_call>
{"name": "...", "arguments": {...}}
</tool_call>

You then read the result, and go on. A message without a call is your answer."""
"""What a system message says where a chat template knows no tools; in the form of Hermes and Qwen."""

_MARKS: Final = Marks(f"{INSTRUCTIONS}<tool_response></tool_response>")

FENCED: Final = """You may run Python code while you work: end your message with a fenced block.

```python
print(6 * 7)
```

You then read what it prints, and go on; names live on. A message without such a block
at its end is your answer."""
"""The same where calls are fenced blocks."""


class Dialogue:
    """A turn with tools: its prompts and its calls.

    With a model that gives token ids, a prompt is the ids so far, and those of the results as the chat
    template writes them: nothing that was sampled is tokenised again or rewritten, whatever the template does
    with earlier thinking. Else it is a list of messages, with ``tool_calls`` where the server knows them.
    """

    def __init__(self, model: Model, toolbox: Toolbox, prompt: Prompt, visible: Callable[[str], str]) -> None:
        self.toolbox, self.visible = toolbox, visible
        self._schemas = [tool.schema for tool in toolbox.by_name.values()]
        self._tokenizer: Any = getattr(model, "tokenizer", None)
        self.context: int | None = getattr(model, "context", None)
        template = getattr(self._tokenizer, "chat_template", None)
        self._template = template if isinstance(template, str) else ""
        self._options: Mapping[str, Any] = getattr(model, "template_options", {})
        prompt = _guarded(prompt) if is_messages(prompt) else prompt
        self.prompt: Prompt = prompt
        auto = toolbox.calls == "auto"
        self._parses = auto and bool(getattr(self._tokenizer, "response_template", None))
        renders = auto and is_messages(prompt)
        self._server = renders and self._tokenizer is None and getattr(model, "takes_tools", False)
        ask: Any = model.complete
        self.complete = partial(ask, tools=self._schemas) if self._server else ask
        encode = getattr(model, "encode", None) if renders and "tools" in self._template else None
        self._sent: Prompt = prompt
        if encode is not None:
            self.prompt = encode(prompt, tools=self._schemas)
            tools = "\n".join(json.dumps(schema) for schema in self._schemas)
            self._sent = [*prompt, {"role": "tools", "content": tools}]
        elif is_messages(prompt) and not self._server:
            tools = "\n".join(json.dumps(schema["function"]) for schema in self._schemas)
            text = FENCED if toolbox.calls == "fenced" else fill_template(INSTRUCTIONS, {"tools": tools})
            self.prompt = self._sent = _with_instructions(prompt, text)

    def calls(self, completion: Completion) -> list[Call]:
        """The calls in a completion; those in its thinking, which `visible` leaves out, do not count."""
        if not (self._parses and completion.token_ids):
            fenced = self.toolbox.calls == "fenced"
            return parse_calls(self.visible(completion.text), self.toolbox.by_name, fenced=fenced)
        wrong = "give calls=tags, since the tokenizer's response_template is wrong"
        with explained(ConfigError, wrong, ValueError):
            self._tokenizer.get_response_parser(prefix="")
        ids, before = list(completion.token_ids), list(completion.prompt_ids)
        try:
            message = self._tokenizer.parse_response(ids, prefix=before, tools=self._schemas)
            return [parse_call(call["function"]) for call in message.get("tool_calls") or ()]
        except Exception:  # whatever a parser raises on what a model wrote
            return [Call(completion.text, mistake="the call cannot be read")]

    def after(self, prompt: Prompt, completion: Completion, calls: Sequence[ToolCall]) -> Prompt:
        """The prompt after a completion of a prompt and the results of its calls."""
        results = [_MARKS.guarded(call.result) for call in calls]
        if completion.prompt_ids and completion.token_ids and self._tokenizer is not None:
            as_tool: list[Message] = [{"role": "tool", "content": result} for result in results]
            ids = encode_runs(self._tokenizer, gate_of(self._tokenizer).runs(self._between, as_tool))
            if ids[:1] == [completion.token_ids[-1]]:  # the token that ends a message was sampled
                del ids[0]
            return (*completion.prompt_ids, *completion.token_ids, *ids)
        first: Message = {"role": "user", "content": prompt_text(prompt)}
        before = prompt if is_messages(prompt) else [first]
        if self._server:
            return [*before, *self._with_tool_calls(completion.text, calls, results)]
        return [*before, {"role": "assistant", "content": completion.text}, _as_user(results)]

    def _between(self, as_tool: Sequence[Message], _: Sequence[Any]) -> str:
        """What stands between a message that was sampled and the next."""
        as_user: list[Message] = [_as_user([message["content"] for message in as_tool])]
        if self._template:
            before = [{"role": "user", "content": "-"}, {"role": "assistant", "content": _MARK}]
            for messages in [as_tool, as_user] if "tool" in self._template else [as_user]:
                with suppress(TemplateError):  # it knows no role of tools
                    text = self._tokenizer.apply_chat_template(
                        [*before, *messages], add_generation_prompt=True, tokenize=False, **self._options
                    )
                    return str(text).partition(_MARK)[2]
        return f"\n\n{plain_chat(as_user)}"

    async def act(self, n: int, sampling: Sampling, observation: Observation) -> list[Action]:
        """N actions, each a chain of completions of at most ``sampling.max_tokens`` sampled tokens in all."""
        firsts = with_messages(await self.complete(self.prompt, n, sampling), self._sent)

        def lost(sample: int, error: Exception) -> Action:
            fault = Completion("", "fault", fault=describe_error(error))
            return Action("", (firsts[sample], fault))

        chains = [self._chain(sampling, observation, sample, first) for sample, first in enumerate(firsts)]
        return await gather_samples(chains, lost)

    async def _chain(
        self, sampling: Sampling, observation: Observation, sample: int, first: Completion
    ) -> Action:
        prompt, completions = self.prompt, [first]
        async with ToolTurn(self.toolbox, observation) as turn:
            while completions[-1].finish_reason == "stop":
                calls = self.calls(completions[-1])
                if not calls or turn.has_refused:
                    break
                answers = await turn.answer(calls, len(completions) - 1)
                prompt = self.after(prompt, completions[-1], answers)
                room = sampling.max_tokens - sum(completion.sampled_tokens for completion in completions)
                if self.context is not None and is_token_ids(prompt):
                    room = min(room, self.context - len(prompt))
                if room < 1 or any(answer.outcome == "fault" for answer in answers):
                    break
                seed = sampling.seed
                seed = None if seed is None else derive_seed(seed, sample, len(completions))
                completions += await self.complete(prompt, 1, replace(sampling, seed=seed, max_tokens=room))
            if completions[1:] and completions[-1].finish_reason == "context":
                completions.pop()  # the results have filled it
        return Action(self.visible(completions[-1].text), tuple(completions), tuple(turn.calls))

    def _with_tool_calls(self, text: str, calls: Sequence[ToolCall], results: Sequence[str]) -> list[Message]:
        """A message of the model and the results of its calls, in OpenAI's dialect.

        Servers may refuse a call of an unknown tool, and one that is no JSON: it stays a text.
        """
        requests, answers = list[Any](), list[Message]()
        words, texts = [TAGGED.sub("", text).strip()], list[str]()
        for number, (call, result) in enumerate(zip(calls, results, strict=True)):
            arguments = _strict_arguments(call) if call.name in self.toolbox.by_name else None
            if arguments is None:
                words.append(f"<tool_call>\n{call.arguments}\n</tool_call>")
                texts.append(result)
                continue
            id = f"{call.completion:03}{number:06}"  # Mistral wants nine letters and digits
            function = {"name": call.name, "arguments": arguments}
            requests.append({"id": id, "type": "function", "function": function})
            answers.append({"role": "tool", "tool_call_id": id, "content": result})
        content = {"role": "assistant", "content": "\n".join(filter(None, words))}
        reply: Message = {**content, "tool_calls": requests} if requests else content
        return [reply, *answers, *([_as_user(texts)] if texts else [])]


def _strict_arguments(call: ToolCall) -> str | None:
    """The arguments of a call that could be read; None if they are not JSON by its standard."""
    try:
        arguments = json.dumps(json.loads(call.arguments)["arguments"], ensure_ascii=False)
        from_json(arguments.encode(), allow_inf_nan=False)
    except (ValueError, RecursionError):
        return None
    return arguments


def _guarded(prompt: Sequence[Message]) -> list[Message]:
    """Messages of which none but the system's can write the marks of calls and results."""
    return [
        message if message["role"] == "system" else map_message(message, _MARKS.guarded) for message in prompt
    ]


def _with_instructions(prompt: Sequence[Message], text: str) -> list[Message]:
    first, *others = prompt
    if first["role"] == "system":
        return [{"role": "system", "content": f"{first['content']}\n\n{text}"}, *others]
    return [{"role": first["role"], "content": f"{text}\n\n{first['content']}"}, *others]


def _as_user(results: Sequence[str]) -> Message:
    read = "\n".join(f"<tool_response>\n{result}\n</tool_response>" for result in results)
    return {"role": "user", "content": read}
