"""A turn with tools: what tells a model of them, how its calls are read and run, and what it reads then."""

import asyncio
import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final, Literal

from jinja2 import TemplateError
from pydantic import BaseModel, ValidationError

from mars_env.agents.tools import Run, Toolbox
from mars_env.errors import ConfigError, MarsError, explained
from mars_env.grading.untrusted import without_template_tokens
from mars_env.models.requests import is_messages, is_token_ids, plain_chat, prompt_text
from mars_env.seeds import derive_seed
from mars_env.sync import gather_all, only_own_cancellation
from mars_env.text import shown, validation_message
from mars_env.types import Action, Completion, Message, Model, Observation, Prompt, Sampling, ToolCall

NO_CALLS_LEFT: Final = "no calls are left: give your answer"

_MARK: Final = "b7f3-assistant-b7f3"

INSTRUCTIONS: Final = """You may call tools while you work:

{tools}

To call one, write its name and its arguments as JSON, and end your message:

<tool_call>
{{"name": "...", "arguments": {{...}}}}
</tool_call>

You then read the result, and go on. A message without a call is your answer."""
"""What a system message says where a chat template knows no tools; in the form of Hermes and Qwen."""


FENCED: Final = """You may run Python code while you work: end your message with a fenced block.

```python
print(6 * 7)
```

You then read what it prints, and go on; names live on. A message without such a block
at its end is your answer."""
"""The same where calls are fenced blocks."""


class _Call(BaseModel):
    name: str
    arguments: dict[str, Any] = {}


class Dialogue:
    """A turn with tools: its prompts, for a model that gives token ids or one that does not, and its calls.

    With ids, a prompt is the ids so far, those that were sampled, and those of the results, as the model's
    chat template writes them: nothing is tokenised twice, and nothing that was sampled is rewritten, whatever
    the template does with the thinking of earlier messages. Without ids, a prompt is a list of messages, with
    ``tool_calls`` where the server knows them.
    """

    def __init__(self, model: Model, toolbox: Toolbox, prompt: Prompt, visible: Callable[[str], str]) -> None:
        self.toolbox, self.visible = toolbox, visible
        self._schemas = [each.schema for each in toolbox.by_name.values()]
        self._tokenizer: Any = getattr(model, "tokenizer", None)
        self.context: int | None = getattr(model, "context", None)
        template = getattr(self._tokenizer, "chat_template", None)
        self._template = template if isinstance(template, str) else ""
        self._options: Mapping[str, Any] = getattr(model, "template_options", {})
        self.prompt: Prompt = prompt
        auto = toolbox.calls == "auto"
        self._parses = auto and bool(getattr(self._tokenizer, "response_template", None))
        own = auto and is_messages(prompt)
        self._server = own and self._tokenizer is None and getattr(model, "takes_tools", False)
        ask: Any = model.complete
        self.complete = partial(ask, tools=self._schemas) if self._server else ask
        encode = getattr(model, "encode", None) if own and "tools" in self._template else None
        if encode is not None:
            self.prompt = encode(prompt, tools=self._schemas)
        elif is_messages(prompt) and not self._server:
            tools = "\n".join(json.dumps(schema["function"]) for schema in self._schemas)
            said = FENCED if toolbox.calls == "fenced" else INSTRUCTIONS.format(tools=tools)
            self.prompt = _with_instructions(prompt, said)

    def calls(self, completion: Completion) -> list[str]:
        """The calls in a completion; those in its thinking, which `visible` leaves out, do not count."""
        if not (self._parses and completion.token_ids):
            return read_calls(self.visible(completion.text), fenced=self.toolbox.calls == "fenced")
        wrong = "give calls=tags, since the tokenizer's response_template is wrong"
        with explained(ConfigError, wrong, ValueError):
            self._tokenizer.get_response_parser(prefix="")
        ids, before = list(completion.token_ids), list(completion.prompt_ids)
        try:
            message = self._tokenizer.parse_response(ids, prefix=before, tools=self._schemas)
            return [json.dumps(call["function"]) for call in message.get("tool_calls") or ()]
        except Exception:  # whatever a parser raises on what a model wrote
            return [completion.text]

    def after(self, prompt: Prompt, completion: Completion, calls: Sequence[ToolCall]) -> Prompt:
        """The prompt after a completion of a prompt and the results of its calls."""
        results = [_harmless(self._tokenizer, call.result) for call in calls]
        if completion.prompt_ids and completion.token_ids and self._tokenizer is not None:
            ids: list[int] = self._tokenizer.encode(self._between(results), add_special_tokens=False)
            if ids[:1] == [completion.token_ids[-1]]:  # the token that ends a message was sampled
                del ids[0]
            return (*completion.prompt_ids, *completion.token_ids, *ids)
        first: Message = {"role": "user", "content": prompt_text(prompt)}
        before = prompt if is_messages(prompt) else [first]
        if self._server:
            return [*before, *_with_tool_calls(completion.text, calls, results)]
        return [*before, {"role": "assistant", "content": completion.text}, _as_user(results)]

    def _between(self, results: Sequence[str]) -> str:
        """What stands between the end of a message that was sampled and the beginning of the next."""
        as_user: list[Message] = [_as_user(results)]
        if self._template:
            before = [{"role": "user", "content": "-"}, {"role": "assistant", "content": _MARK}]
            as_tool: list[Message] = [{"role": "tool", "content": result} for result in results]
            for messages in [as_tool, as_user] if "tool" in self._template else [as_user]:
                with suppress(TemplateError):  # it knows no role of tools
                    text = self._tokenizer.apply_chat_template(
                        [*before, *messages], add_generation_prompt=True, tokenize=False, **self._options
                    )
                    return str(text).partition(_MARK)[2]
        return f"\n\n{plain_chat(as_user)}"

    async def act(self, n: int, sampling: Sampling, observation: Observation) -> list[Action]:
        """N actions on one observation, each a chain of completions with results of calls between.

        ``sampling.max_tokens`` limits the sampled tokens of a whole turn.
        """
        firsts: list[Completion] = await self.complete(self.prompt, n, sampling)
        return await gather_all(self._chain(sampling, observation, *each) for each in enumerate(firsts))

    async def _chain(
        self, sampling: Sampling, observation: Observation, sample: int, first: Completion
    ) -> Action:
        prompt, completions = self.prompt, [first]
        calls, runs = list[ToolCall](), dict[str, Run]()
        async with AsyncExitStack() as turn:
            while completions[-1].finish_reason == "stop":
                asked, left = self.calls(completions[-1]), self.toolbox.max_calls - len(calls)
                if not asked or left < 0:  # a call was refused before
                    break
                for tool in () if runs else self.toolbox.by_name.values():
                    runs[tool.name] = await turn.enter_async_context(tool.start(observation))
                made = await gather_all(
                    _called(self.toolbox, runs, len(completions) - 1, written, refused=number >= left)
                    for number, written in enumerate(asked)
                )
                calls += made
                prompt = self.after(prompt, completions[-1], made)
                room = sampling.max_tokens - sum(each.sampled_tokens for each in completions)
                if self.context is not None and is_token_ids(prompt):
                    room = min(room, self.context - len(prompt))
                if room < 1 or any(call.outcome == "fault" for call in made):
                    break
                seed = sampling.seed
                seed = None if seed is None else derive_seed(seed, sample, len(completions))
                completions += await self.complete(prompt, 1, replace(sampling, seed=seed, max_tokens=room))
            if completions[1:] and completions[-1].finish_reason == "context":
                completions.pop()  # the results have filled it
        return Action(self.visible(completions[-1].text), tuple(completions), tuple(calls))


async def _called(
    box: Toolbox, runs: Mapping[str, Run], completion: int, written: str, *, refused: bool
) -> ToolCall:
    """Run one call. What is wrong with the call or its tool is a text for the model."""
    began, (call, wrong) = time.perf_counter(), _read(written)
    outcome: Literal["ok", "error", "refused", "fault"] = "error"
    if refused:
        text, outcome = NO_CALLS_LEFT, "refused"
    elif (tool := box.by_name.get(call.name)) is None:
        text = f"Error: {wrong or f'there is no tool {shown(call.name)}'}"
    else:
        try:
            async with asyncio.timeout(tool.seconds) as limit:
                with only_own_cancellation():
                    text, outcome = await runs[tool.name](call.arguments), "ok"
        except ValidationError as error:
            text = f"Error: {validation_message(error)}"
        except MarsError as error:
            text, outcome = str(error), "fault"
        except Exception as error:  # the user's function: its errors are for the model
            late = f"it took longer than {tool.seconds:g} seconds"
            text = f"Error: {late if limit.expired() else f'{type(error).__name__}: {error}'}"
        text = text.encode("utf-8", "backslashreplace").decode()  # no tokenizer takes a lone surrogate
        if len(text) > tool.characters:
            text = f"{text[: tool.characters]}\n[{len(text) - tool.characters} more characters]"
    return ToolCall(completion, call.name, written, text, outcome, time.perf_counter() - began)


def read_calls(text: str, *, fenced: bool = False) -> list[str]:
    r"""The calls in a message as JSON: in tags, or the fenced block of Python at its end.

    Example:
        >>> read_calls('I add.\n<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>')
        ['{"name": "add", "arguments": {"a": 1}}']
    """
    if fenced:
        block = _FENCED.search(text)
        return [json.dumps({"name": "python", "arguments": {"code": block[1]}})] if block else []
    return [match[1].strip() for match in _TAGGED.finditer(text)]


_TAGGED: Final = re.compile(r"<tool_call>(.*?)(?:</tool_call>|\Z)", re.S)
_FENCED: Final = re.compile(r"```(?:python|py)[ \t]*\n((?:(?!```).)*)```\s*\Z", re.S)


def _read(written: str) -> tuple[_Call, str]:
    """A call, without a name if it cannot be read, and what is wrong with it."""
    try:
        return _Call.model_validate_json(written), ""
    except ValidationError as error:
        invalid, why = error.errors()[0]["type"] == "json_invalid", validation_message(error)
        return _Call(name=""), f"the call {'is not valid JSON' if invalid else f'cannot be read: {why}'}"


def _with_tool_calls(text: str, calls: Sequence[ToolCall], results: Sequence[str]) -> list[Message]:
    """A message of the model and the results of its calls, in OpenAI's dialect."""
    asked, answers = list[Any](), list[Message]()
    for number, (call, result) in enumerate(zip(calls, results, strict=True)):
        id = f"call{call.completion:03}{number:02}"  # Mistral wants nine letters and digits
        arguments = json.dumps(_read(call.arguments)[0].arguments)
        function = {"name": call.name or "unknown", "arguments": arguments}
        asked.append({"id": id, "type": "function", "function": function})
        answers.append({"role": "tool", "tool_call_id": id, "content": result})
    return [{"role": "assistant", "content": _TAGGED.sub("", text).strip(), "tool_calls": asked}, *answers]


def _with_instructions(prompt: Sequence[Message], text: str) -> list[Message]:
    first, *others = prompt
    if first["role"] == "system":
        return [{"role": "system", "content": f"{first['content']}\n\n{text}"}, *others]
    return [{"role": first["role"], "content": f"{text}\n\n{first['content']}"}, *others]


def _as_user(results: Sequence[str]) -> Message:
    read = "\n".join(f"<tool_response>\n{result}\n</tool_response>" for result in results)
    return {"role": "user", "content": read}


def _harmless(tokenizer: Any, text: str) -> str:
    """A tool's result that cannot end its message, nor open another: control tokens get a space inside."""
    text = without_template_tokens(text)
    names = {str(token) for token in getattr(tokenizer, "added_tokens_decoder", {}).values()}
    names |= set(getattr(tokenizer, "all_special_tokens", ()))
    for name in sorted(filter(None, map(str.strip, names)), key=len, reverse=True):
        text = text.replace(name, f"{name[0]} {name[1:]}")
    return text
