"""Turns by hand."""

from dataclasses import replace

from mars_env.types import Action, Completion, Turn

SAMPLED = Completion(
    "x", prompt_ids=(1, 2), token_ids=(3, 4), logprobs=(-0.5, -0.25), temperature=0.85, versions=((3, 2),)
)


def turn(
    id, reward, *completions, agent="solver_0", tree="t", group="g", policy="mars", problem="p", **fields
):
    """A turn with these completions, by default one that can be trained on; its id names its parent."""
    completions = completions or (SAMPLED,)
    action, above = Action(completions[0].text, completions), id.rpartition(".")[0] or None
    return Turn(tree, id, above, group, agent, policy, problem, action, reward=reward, **fields)


def called(action, *results):
    """The same action, with results of tools (token ids) between completions that sample the same again."""
    [first] = action.completions
    completions = [first]
    for result in results:
        read = (*completions[-1].prompt_ids, *completions[-1].token_ids, *result)
        completions.append(replace(first, prompt_ids=read))
    return replace(action, completions=tuple(completions))
