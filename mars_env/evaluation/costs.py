"""Who played a run, and what its tokens cost."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from mars_env.errors import ConfigError, explained
from mars_env.evaluation.trees import judging_tokens, prompt_tokens, sampled_tokens
from mars_env.text import counted
from mars_env.types import Tree

Prices = Mapping[str, tuple[float, float]]
"""What a million tokens cost, read and sampled, by policy; the empty name is for all that are not named."""


def policies(trees: Sequence[Tree]) -> dict[str, str]:
    """The policy or model of each agent, as its turns name it; several, if it changed."""
    names_by_agent: dict[str, dict[str, None]] = {}
    for tree in trees:
        for turn in tree.turns:
            if turn.policy:
                names_by_agent.setdefault(turn.agent, {})[turn.policy] = None
    return {agent: " and ".join(names) for agent, names in names_by_agent.items()}


def cost(trees: Sequence[Tree], prices: Prices) -> float:
    """What the tokens of a run cost; models that grade and what judges of a search read are not counted.

    Tokens that a model sampled to judge for a search are priced as those of the unnamed policy. A
    `ConfigError` if a policy has no price, or the server did not count the tokens of a call.

    Example:
        >>> from mars_env.types import Action, Completion, Problem, Turn
        >>> action = Action("4", (Completion("4", prompt_tokens=1000, completion_tokens=500),))
        >>> turn = Turn("p#0", "0", None, "", "solver_0", "qwen", "p", action)
        >>> cost([Tree("p#0", Problem("p", "2 + 2?", "4"), (turn,))], {"qwen": (1.0, 4.0)})
        0.003
    """
    if missing := _uncounted_calls(trees):
        raise ConfigError(missing)
    total = 0.0
    for tree in trees:
        for turn in tree.turns:
            read, sampled = price_of(turn.policy, prices)
            total += read * prompt_tokens(turn) + sampled * sampled_tokens(turn)
        if judging := judging_tokens(tree):
            total += price_of("", prices)[1] * judging
    return total / 1e6


def uncounted(trees: Sequence[Tree]) -> list[str]:
    """Notes on what no metric and no cost counts: calls without counts, what models that judge took."""
    notes = [f"Tokens are missing: {missing}"] if (missing := _uncounted_calls(trees)) else []
    if any(map(judging_tokens, trees)):
        notes.append("What models read to judge for the search is not known: no metric and no cost counts it")
    taken = [(t.grade.tokens, t.info.get("search_tokens")) for tree in trees for t in tree.turns if t.grade]
    # Where a search sees the grade itself, its tokens are counted as the search's.
    graded = sum(tokens for tokens, of_search in taken if tokens != of_search)
    if graded:
        notes.append(f"Models that graded sampled {graded:,} tokens, which no metric and no cost counts")
    return notes


def _uncounted_calls(trees: Sequence[Tree]) -> str:
    completions = [c for tree in trees for turn in tree.turns for c in turn.action.completions]
    missing = sum(bool(c.text) and not (c.sampled_tokens and c.read_tokens) for c in completions)
    calls = counted(len(completions), "model call")
    return f"no server counted the tokens of {missing:,} of {calls}" if missing else ""


def money(amount: float) -> str:
    """An amount of money with two digits after the point, and two that are not 0 of what is smaller."""
    return f"{amount:,.2f}" if amount >= 0.1 or not amount else f"{Decimal(f'{amount:.2g}'):f}"


def checked_prices(prices: object) -> Prices:
    """Prices as they are used, from what a user has given.

    Example:
        >>> checked_prices({"qwen": [0.5, 2]})
        {'qwen': (0.5, 2.0)}
    """
    meant = "prices are given by policy, for a million tokens read and sampled: {'qwen': (0.5, 2.0)}"
    with explained(ConfigError, meant, ValidationError):
        return _PRICES.validate_python(prices)


_Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_PRICES = TypeAdapter(dict[str, tuple[_Amount, _Amount]])


def price_of(policy: str, prices: Prices) -> tuple[float, float]:
    """The price of a policy; a `ConfigError` if it has none."""
    price = prices.get(policy, prices.get(""))
    if price is None:
        who = repr(policy or "that judges")
        raise ConfigError(f"the policy {who} has no price: there are prices for {', '.join(prices)}")
    return price
