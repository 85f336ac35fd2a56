"""A turn with tools: what tells a model of them, how its calls are read and run, and what it reads then."""

import asyncio
import json
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from jinja2 import TemplateError
from pydantic import ValidationError

from mars_env.agents.tools import Run, Toolbox
from mars_env.errors import ConfigError, MarsError, explained
from mars_env.models.requests import is_messages
from mars_env.seeds import derive_seed
from mars_env.sync import gather_all
from mars_env.text import shown
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


@dataclass(frozen=True, slots=True)
class Asked:
    """A call as the model wrote it; `wrong` says why it cannot be run."""

    name: str
    arguments: Any
    written: str
    wrong: str = ""


class Dialogue:
    """The prompts of a turn, for a model that gives token ids with its completions or for one that does not.

    With ids, a prompt is the ids so far, those that were sampled, and those of the results, as the model's
    chat template writes them: nothing is tokenised twice, and nothing that was sampled is rewritten, whatever
    the template does with the thinking of earlier messages. Without ids, a prompt is a list of messages, with
    ``tool_calls`` where the server knows them.
    """

    def __init__(
        self, model: Model, toolbox: Toolbox, prompt: Prompt, visible: Callable[[str], str] = str
    ) -> None:
        self._model, self.toolbox, self.visible = model, toolbox, visible
        self._schemas = [each.schema for each in toolbox.by_name.values()]
        self._tokenizer: Any = getattr(model, "tokenizer", None)
        self._context: int | None = getattr(model, "context", None)
        template = getattr(self._tokenizer, "chat_template", None)
        self._template = template if isinstance(template, str) else ""
        self.prompt: Prompt = prompt
        self._parses = toolbox.calls == "auto" and _has_parser(self._tokenizer)
        own = toolbox.calls == "auto" and is_messages(prompt)
        self._server = own and self._tokenizer is None and getattr(model, "takes_tools", False)
        encode = getattr(model, "encode", None) if own and "tools" in self._template else None
        if encode is not None:
            self.prompt = encode(prompt, tools=self._schemas)
        elif is_messages(prompt) and not self._server:
            tools = "\n".join(json.dumps(schema["function"]) for schema in self._schemas)
            said = FENCED if toolbox.calls == "fenced" else INSTRUCTIONS.format(tools=tools)
            self.prompt = _with_instructions(prompt, said)

    async def complete(self, prompt: Prompt, n: int, sampling: Sampling) -> list[Completion]:
        """Ask the model; a server is given the tools, too."""
        more: Any = {"tools": self._schemas} if self._server else {}
        return await self._model.complete(prompt, n, sampling, **more)

    def calls(self, completion: Completion) -> list[Asked]:
        """The calls in a completion; those in its thinking, which `visible` leaves out, do not count."""
        if self._parses and completion.token_ids:
            return self._parsed(completion)
        return read_calls(self.visible(completion.text), fenced=self.toolbox.calls == "fenced")

    def _parsed(self, completion: Completion) -> list[Asked]:
        """The calls as the parser of the model's own tokenizer reads them."""
        ids, before = list(completion.token_ids), list(completion.prompt_ids)
        try:
            message = self._tokenizer.parse_response(ids, prefix=before, tools=self._schemas)
            found = [call["function"] for call in message.get("tool_calls") or ()]
            return [_checked(call, json.dumps(call)) for call in found]
        except Exception as error:  # whatever a parser raises on what a model wrote
            return [Asked("", None, completion.text, f"the call cannot be read: {error}")]

    def after(self, completions: Sequence[Completion], calls: Sequence[ToolCall]) -> Prompt:
        """The prompt after some completions and the results of all their calls."""
        last = completions[-1]
        if last.prompt_ids and last.token_ids and self._tokenizer is not None:
            results = [call.result for call in calls if call.completion == len(completions) - 1]
            return (*last.prompt_ids, *last.token_ids, *self._continued(results, last.token_ids[-1]))
        messages: list[Message] = list(self.prompt) if is_messages(self.prompt) else []
        for number, completion in enumerate(completions):
            made = [
                replace(call, result=_CONTROL.sub(r"\g<0> ", call.result))
                for call in calls
                if call.completion == number
            ]
            if self._server:
                messages += _with_tool_calls(completion.text, made)
            else:
                messages += [
                    {"role": "assistant", "content": completion.text},
                    {"role": "user", "content": _responses([call.result for call in made])},
                ]
        return messages

    def room(self, prompt: Prompt) -> int:
        """Tokens that the context leaves after a prompt of ids, as far as that is known."""
        if self._context is None or is_messages(prompt):
            return sys.maxsize
        return self._context - len(prompt)

    def _continued(self, results: Sequence[str], last: int) -> list[int]:
        """Ids of what stands between the end of a message that was sampled and the beginning of the next."""
        text = self._between([_escaped(self._tokenizer, result) for result in results])
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False)
        return ids[1:] if ids and ids[0] == last else ids  # the token that ends a message was sampled

    def _between(self, results: Sequence[str]) -> str:
        if self._template:
            as_tool = [{"role": "tool", "content": result} for result in results]
            as_user = [{"role": "user", "content": _responses(results)}]
            for messages in [as_tool, as_user] if "tool" in self._template else [as_user]:
                before = [{"role": "user", "content": "-"}, {"role": "assistant", "content": _MARK}]
                try:
                    text = self._tokenizer.apply_chat_template(
                        [*before, *messages], add_generation_prompt=True, tokenize=False
                    )
                except TemplateError:  # it knows no role of tools
                    continue
                return str(text).partition(_MARK)[2]
        return f"\n\nUser: {_responses(results)}\n\nAssistant:"


async def act_with_tools(
    dialogue: Dialogue, n: int, sampling: Sampling, observation: Observation
) -> list[Action]:
    """N actions of one agent on one observation, each a chain of completions with results of calls between.

    ``sampling.max_tokens`` limits the sampled tokens of a whole turn. Each completion's prompt is the prompt
    before it, the sampled tokens, and the results, where the model gives token ids; see docs/tools.md.
    """
    firsts = await dialogue.complete(dialogue.prompt, n, sampling)
    return await gather_all(_chain(dialogue, sampling, observation, *each) for each in enumerate(firsts))


async def _chain(
    dialogue: Dialogue, sampling: Sampling, observation: Observation, sample: int, first: Completion
) -> Action:
    completions, calls, runs = [first], list[ToolCall](), dict[str, Run]()
    async with AsyncExitStack() as turn:
        while completions[-1].finish_reason == "stop":
            asked = dialogue.calls(completions[-1])
            if not asked or any(call.outcome == "refused" for call in calls):
                break
            for tool in () if runs else dialogue.toolbox.by_name.values():
                runs[tool.name] = await turn.enter_async_context(tool.start(observation))
            calls += await _results(dialogue.toolbox, asked, len(completions) - 1, len(calls), runs)
            used = sum(each.sampled_tokens for each in completions)
            follow = dialogue.after(completions, calls)
            room = min(sampling.max_tokens - used, dialogue.room(follow))
            if room < 1 or any(call.outcome == "fault" for call in calls):
                break
            seed = sampling.seed
            seed = None if seed is None else derive_seed(seed, sample, len(completions))
            completions += await dialogue.complete(follow, 1, replace(sampling, seed=seed, max_tokens=room))
    return Action(dialogue.visible(completions[-1].text), tuple(completions), tuple(calls))


async def _results(
    toolbox: Toolbox, asked: Sequence[Asked], completion: int, done: int, runs: Mapping[str, Run]
) -> list[ToolCall]:
    """The calls of one message, run at the same time; those beyond the limit are rejected."""
    left = max(0, toolbox.max_calls - done)
    results = await gather_all(_result(toolbox, call, runs, completion) for call in asked[:left])
    return results + [
        ToolCall(completion, call.name, call.written, NO_CALLS_LEFT, "refused") for call in asked[left:]
    ]


async def _result(toolbox: Toolbox, call: Asked, runs: Mapping[str, Run], completion: int) -> ToolCall:
    """Run one call. What is wrong with the call or its tool is a text for the model."""
    began, found = time.perf_counter(), toolbox.by_name.get(call.name)
    outcome: Literal["ok", "error", "fault"] = "error"
    if call.wrong:
        text = f"Error: {call.wrong}"
    elif found is None:
        text = f"Error: there is no tool {shown(call.name)}"
    else:
        try:
            async with asyncio.timeout(found.seconds):
                text, outcome = await runs[found.name](call.arguments), "ok"
        except TimeoutError:
            text = f"Error: it took longer than {found.seconds:g} seconds"
        except ValidationError as error:
            text = "Error: " + "; ".join(f"{_place(e['loc'])}: {e['msg']}" for e in error.errors()[:5])
        except MarsError as error:
            text, outcome = str(error), "fault"
        except Exception as error:  # the user's function: its errors are for the model
            text = f"Error: {type(error).__name__}: {error}"
        if len(text) > found.characters:
            text = f"{text[: found.characters]}\n[{len(text) - found.characters} more characters]"
    return ToolCall(completion, call.name, call.written, text, outcome, time.perf_counter() - began)


def _place(location: Sequence[Any]) -> str:
    return ".".join(map(str, location)) or "arguments"


def _has_parser(tokenizer: Any) -> bool:
    """Whether a tokenizer says how its model writes calls; a `ConfigError` if that cannot be used."""
    if not getattr(tokenizer, "response_template", None):
        return False
    with explained(
        ConfigError, "give calls=tags, since the tokenizer's response_template is wrong", ValueError
    ):
        tokenizer.get_response_parser(prefix="")
    return True


def read_calls(text: str, *, fenced: bool = False) -> list[Asked]:
    r"""The calls in a message: JSON in tags, or the fenced block of Python at its end.

    Example:
        >>> read_calls('I add.\n<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>')
        [Asked(name='add', arguments={'a': 1}, written='{"name": "add", "arguments": {"a": 1}}', wrong='')]
    """
    if fenced:
        block = _FENCED.search(text)
        return [Asked("python", {"code": block[1]}, block[1])] if block else []
    return [_tagged(match[1].strip()) for match in _TAGGED.finditer(text)]


_CONTROL: Final = re.compile(r"<(?=[|\uff5c]|/?s>|(?:start|end)_of_turn>)|\[(?=/?INST\])")
"""Where control tokens of chat models begin: a server may read them in a text, and its own are not known."""

_TAGGED: Final = re.compile(r"<tool_call>(.*?)(?:</tool_call>|\Z)", re.S)
_FENCED: Final = re.compile(r"```(?:python|py)[ \t]*\n((?:(?!```).)*)```\s*\Z", re.S)


def _tagged(written: str) -> Asked:
    try:
        return _checked(json.loads(written), written)
    except (ValueError, RecursionError):
        return Asked("", None, written, "the call is not valid JSON")


def _checked(call: Any, written: str) -> Asked:
    if not isinstance(call, dict) or not isinstance(call.get("name"), str):
        return Asked("", None, written, 'a call is {"name": ..., "arguments": {...}}')
    arguments = call.get("arguments", {})
    if not isinstance(arguments, dict):
        return Asked(call["name"], None, written, "the arguments are not a JSON object")
    return Asked(call["name"], arguments, written)


def _with_tool_calls(text: str, calls: Sequence[ToolCall]) -> list[Message]:
    """A message of the model and the results of its calls, in OpenAI's dialect."""
    asked, results = list[Any](), list[Message]()
    for number, call in enumerate(calls):
        id = f"call{call.completion:03}{number:02}"  # Mistral wants nine letters and digits
        arguments = json.dumps(_tagged(call.arguments).arguments or {})
        function = {"name": call.name or "unknown", "arguments": arguments}
        asked.append({"id": id, "type": "function", "function": function})
        results.append({"role": "tool", "tool_call_id": id, "content": call.result})
    return [{"role": "assistant", "content": _TAGGED.sub("", text).strip(), "tool_calls": asked}, *results]


def _with_instructions(prompt: Sequence[Message], text: str) -> list[Message]:
    first, *others = prompt
    if first["role"] == "system":
        return [{"role": "system", "content": f"{first['content']}\n\n{text}"}, *others]
    return [{"role": first["role"], "content": f"{text}\n\n{first['content']}"}, *others]


def _responses(results: Sequence[str]) -> str:
    return "\n".join(f"<tool_response>\n{result}\n</tool_response>" for result in results)


def _escaped(tokenizer: Any, text: str) -> str:
    """A tool's result that cannot end its message, nor open another: control tokens get a space inside."""
    names = {str(token) for token in getattr(tokenizer, "added_tokens_decoder", {}).values()}
    names |= set(getattr(tokenizer, "all_special_tokens", ()))
    for name in sorted(filter(None, map(str.strip, names)), key=len, reverse=True):
        text = text.replace(name, f"{name[0]} {name[1:]}")
    return text
