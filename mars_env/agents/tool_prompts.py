"""Prompts of a turn with tools: their description, and what the model reads after its calls."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from jinja2 import TemplateError

from mars_env.models.requests import is_messages
from mars_env.types import Completion, Message, Model, Prompt, ToolCall

_MARK: Final = "b7f3-assistant-b7f3"

INSTRUCTIONS: Final = """You may call tools while you work:

{tools}

To call one, write its name and its arguments as JSON, and end your message:

<tool_call>
{{"name": "...", "arguments": {{...}}}}
</tool_call>

You then read the result, and go on. A message without a call is your answer."""
"""What a system message says where a chat template knows no tools; in the form of Hermes and Qwen."""


class Dialogue:
    """The prompts of a turn, for a model that gives token ids with its completions or for one that does not.

    With ids, a prompt is the ids so far, those that were sampled, and those of the results, as the model's
    chat template writes them: nothing is tokenised twice, and nothing that was sampled is rewritten, whatever
    the template does with the thinking of earlier messages. Without ids, a prompt is a list of messages.
    """

    def __init__(self, model: Model, prompt: Prompt, schemas: Sequence[Mapping[str, Any]]) -> None:
        self._tokenizer: Any = getattr(model, "tokenizer", None)
        self._context: int | None = getattr(model, "context", None)
        template = getattr(self._tokenizer, "chat_template", None)
        self._template = template if isinstance(template, str) else ""
        self.prompt: Prompt = prompt
        self._known = False
        if is_messages(prompt):
            encode = getattr(model, "encode", None)
            if "tools" in self._template and encode is not None:
                self.prompt = encode(prompt, tools=schemas)
            else:
                self.prompt = _with_instructions(prompt, schemas)

    def after(self, completions: Sequence[Completion], calls: Sequence[ToolCall]) -> Prompt:
        """The prompt after some completions and the results of all their calls."""
        last = completions[-1]
        if last.prompt_ids and last.token_ids and self._tokenizer is not None:
            results = [call.result for call in calls if call.completion == len(completions) - 1]
            return (*last.prompt_ids, *last.token_ids, *self._continued(results, last.token_ids[-1]))
        messages: list[Message] = list(self.prompt) if is_messages(self.prompt) else []
        for number, completion in enumerate(completions):
            results = [call.result for call in calls if call.completion == number]
            messages += [
                {"role": "assistant", "content": completion.text},
                {"role": "user", "content": _responses(results)},
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


def _with_instructions(prompt: Sequence[Message], schemas: Iterable[Mapping[str, Any]]) -> list[Message]:
    tools = "\n".join(json.dumps(schema["function"]) for schema in schemas)
    text = INSTRUCTIONS.format(tools=tools)
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
