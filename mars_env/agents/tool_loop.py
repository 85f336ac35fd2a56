"""The loop of a turn with tools: completions, and the calls between them."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from pydantic import ValidationError

from mars_env.agents.tool_prompts import Asked, Dialogue
from mars_env.agents.tools import Run, Toolbox
from mars_env.errors import MarsError
from mars_env.seeds import derive_seed
from mars_env.sync import gather_all
from mars_env.text import shown
from mars_env.types import Action, Completion, Model, Observation, Prompt, Sampling, ToolCall

NO_CALLS_LEFT: Final = "no calls are left: give your answer"


@dataclass(frozen=True, slots=True)
class ToolTurn:
    """Turns of one agent on one observation, with tools.

    ``sampling.max_tokens`` limits the sampled tokens of a whole turn. Each completion's prompt is the prompt
    before it, the sampled tokens, and the results, where the model gives token ids; see docs/tools.md.
    """

    model: Model
    toolbox: Toolbox
    observation: Observation
    sampling: Sampling
    visible: Callable[[str], str] = str

    async def act(self, prompt: Prompt, n: int) -> list[Action]:
        """N actions on a prompt, each a chain of completions with the results of calls between them."""
        dialogue = Dialogue(self.model, prompt, self.toolbox)
        firsts = await dialogue.complete(dialogue.prompt, n, self.sampling)
        return await gather_all(self._chain(dialogue, *each) for each in enumerate(firsts))

    async def _chain(self, dialogue: Dialogue, sample: int, first: Completion) -> Action:
        completions, calls, runs = [first], list[ToolCall](), dict[str, Run]()
        sampling = self.sampling
        async with AsyncExitStack() as turn:
            while completions[-1].finish_reason == "stop":
                asked = dialogue.calls(completions[-1], self.visible)
                if not asked or any(call.outcome == "refused" for call in calls):
                    break
                for tool in () if runs else self.toolbox.by_name.values():
                    runs[tool.name] = await turn.enter_async_context(tool.start(self.observation))
                calls += await self._results(asked, len(completions) - 1, len(calls), runs)
                used = sum(each.sampled_tokens for each in completions)
                follow = dialogue.after(completions, calls)
                room = min(sampling.max_tokens - used, dialogue.room(follow))
                if room < 1 or any(call.outcome == "fault" for call in calls):
                    break
                seed = sampling.seed
                seed = None if seed is None else derive_seed(seed, sample, len(completions))
                next_sampling = replace(sampling, seed=seed, max_tokens=room)
                completions += await dialogue.complete(follow, 1, next_sampling)
        return Action(self.visible(completions[-1].text), tuple(completions), tuple(calls))

    async def _results(
        self, asked: Sequence[Asked], completion: int, done: int, runs: Mapping[str, Run]
    ) -> list[ToolCall]:
        """The calls of one message, run at the same time; those beyond the limit are rejected."""
        left = max(0, self.toolbox.max_calls - done)
        results = await gather_all(self._result(call, runs, completion) for call in asked[:left])
        return results + [
            ToolCall(completion, call.name, call.written, NO_CALLS_LEFT, "refused") for call in asked[left:]
        ]

    async def _result(self, call: Asked, runs: Mapping[str, Run], completion: int) -> ToolCall:
        """Run one call. What is wrong with the call or its tool is a text for the model."""
        began, found = time.perf_counter(), self.toolbox.by_name.get(call.name)
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
