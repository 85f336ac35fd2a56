r"""Reads mathematical notation: LaTeX or plain text in, a tree of `Node` out.

This is a small grammar of *answers*, not of all of LaTeX. It refuses what it does not know with `Unreadable`.
It never guesses and drops nothing: every token of the text is in the tree. Time is linear in the text, depth
is bounded, and nothing is evaluated.
"""

import re
from fractions import Fraction

from mars_env.grading.math.factors import _Factors, with_sign
from mars_env.grading.math.literals import decimal
from mars_env.grading.math.nodes import Node, OverLimit, Unreadable, operators
from mars_env.grading.math.tokens import UNICODE, tidy, tokenize
from mars_env.grading.math.units import known_name
from mars_env.grading.math.vectors import times

_CONDITION = re.compile(r"(?:where|for|with|if|when|otherwise|for (?:any|all|integer|some))\Z", re.IGNORECASE)
_RELATIONS = {
    "=": "=", "<": "<", ">": ">", r"\le": "<=", r"\ge": ">=", r"\ne": "!=", r"\approx": "~",
    r"\equiv": "==", r"\in": "in", r"\mapsto": "mapsto", r"\rightarrow": "to", r"\parallel": "parallel",
    r"\perp": "perp", r"\cong": "cong", r"\sim": "similar", r"\subset": "subset", r"\subseteq": "subseteq",
}  # fmt: skip


def read_answer(text: str, *, commas: bool = True) -> Node:
    r"""Read an answer in LaTeX or plain text; without `commas`, ``1,024`` outside brackets is a list.

    Raises `Unreadable` for what is not in the grammar, and `OverLimit`.

    Example:
        >>> read_answer(r"\left(-\infty, 3\right]").value
        ('(', ']')
        >>> read_answer("x = 5").kind, read_answer(r"25 \text{ cm}").kind, read_answer("1, 2 and 3").kind
        ('relation', 'quantity', 'list')
    """
    if not text.isascii() and (han := _HAN.fullmatch(text)) and han[1] not in UNICODE:
        return Node("text", value=han[1])
    cleaned = tidy(text)
    if clock := _CLOCK.fullmatch(cleaned):
        hour, minute, half = clock.groups()
        return Node("time", value=(str(int(hour)), minute or "00", (half or "").lower()))
    return _Parser(tokenize(cleaned, commas=commas)).whole()


def read_integer(text: str) -> int | None:
    r"""The integer that a text writes; None if it is anything else.

    Example:
        >>> [read_integer(t) for t in ("025", "1{,}024", r"\text{25}", "$25$", "25.0", "-7", "25.")]
        [25, 1024, 25, 25, 25, -7, 25]
        >>> [read_integer(t) for t in ("25 or 26", r"2500\%", "25.3", "2 5", "1,02", "")]
        [None, None, None, None, None, None]
    """
    if (plain := plain_integer(text)) is not None:
        return plain
    try:
        node = read_answer(text)
    except (Unreadable, OverLimit, RecursionError):
        return None
    sign, node = (-1, node.args[0]) if node.kind == "neg" else (1, node)
    if node.kind != "num" or not isinstance(node.value, Fraction) or node.value.denominator != 1:
        return None
    return sign * node.value.numerator


def plain_integer(text: str) -> int | None:
    """`read_integer` for digits with a sign alone, in almost no time."""
    return int(text) if _DIGITS.match(text) else None


_DIGITS = re.compile(r"[+-]?\d{1,4000}\Z", re.ASCII)
_HAN = re.compile(
    r"[\s$]*(?:\\(?:text|mbox|textbf|mathrm)\s*\{)?\s*([\u4e00-\u9fff]{2,100}|[①-⑳]{1,20})[\s。.]*\}?[\s$。.]*"
)
"""An answer of Chinese words, or of circled numbers, and nothing else."""
_CLOCK = re.compile(
    r"(?:\\(?:text|mathrm|textrm)\{\s*)?([0-9]{1,2})(?:(?:\\!)*:(?:\\!)*([0-5][0-9])|(?=[^:]*m))\s*"
    r"(?:\\[,; ]\s*)?(?:\\(?:text|mathrm|textrm)\{)?\s*(?:([ap])\.?\s?m\.?)?\s*\}?",
    re.IGNORECASE,
)
_LABEL = re.compile(
    r"(?:the |an? )?(?:[xy]-|vertical |horizontal )?(?:cent(?:er|re)|radius|vert(?:ex|ices)|foc(?:us|i)"
    r"|directrix|max(?:imum)?|min(?:imum)?|mean|median|mode|range|domain|period|amplitude|limit|quotient|remainder|slope"
    r"|area|length|width|height|line|asymptote|point|midpoint|intercept|interval|solution|eigenvalue)s?"
    r"(?: value)?(?: is| are| at|)\Z",
    re.IGNORECASE,
)
"""The name of a value that follows."""


class _Parser(_Factors):
    def whole(self) -> Node:
        node = self.listing()
        if self.peek().kind != "end":
            raise Unreadable(f"unexpected {self.peek().text!r}")
        return node

    def listing(self) -> Node:
        items, joiners, conditions = [self.labelled()], list[str](), dict[int, Node]()
        while True:
            if self.conditional():
                conditions[len(items)] = self.condition()
            elif joiner := self.accept(",", ";", "and", "or"):
                if self.conditional():
                    continue
                joiners.append(self.accept("and", "or") or joiner)
                item = self.labelled()
                if joiners[-1] == "," and "or" in joiners and operators(item) == ("in",):
                    conditions[len(items)] = item  # "x = k or x = -k, k in Z"
                else:
                    items.append(item)
            else:
                break
        if len(conditions) > 1 and len(items) in conditions:
            ends = zip((0, *conditions), conditions.items(), strict=False)
            parts = ((_joined(items[low:high], joiners[low : high - 1]), of) for low, (high, of) in ends)
            return Node("list", tuple(Node("where", part) for part in parts), "and")
        node = _joined(items, joiners[: len(items) - 1])
        return Node("where", (node, list(conditions.values())[-1])) if conditions else node

    def condition(self) -> Node:
        if self.peek().text.lower() != "otherwise":
            self.next()
        return self.statement()

    def labelled(self) -> Node:
        """A statement after the name of what it says: "radius 5", "Vertex: (2, -3)"."""
        label = self.peek().text if self.peek().kind == "text" and self.colons else ""
        colon = self.peek(1).text == ":"
        follows = colon or self.begins_factor(self.peek(1)) or self.peek(1).text == "-"
        if label and follows and _LABEL.match(label):
            self.place += 1 + colon
            value = self.statement()
            return value if operators(value) else Node("relation", (Node("text", value=label), value), ("=",))
        return self.statement()

    def conditional(self, ahead: int = 0) -> bool:
        token = self.peek(ahead)
        return token.kind == "text" and _CONDITION.match(token.text) is not None

    def statement(self) -> Node:
        """A chain of relations, or a bare expression; "about 25" does not mean 25."""
        if self.accept(r"\approx"):
            return Node("approx", (self.set_expression(),))
        args, signs = [self.set_expression()], list[str]()
        while sign := _RELATIONS.get(self.peek().text):
            self.next()
            signs.append(sign)
            args.append(self.set_expression())
        return Node("relation", tuple(args), tuple(signs)) if signs else args[0]

    def set_expression(self) -> Node:
        node = self.ratio()
        while operator := self.accept(r"\cup", r"\cap", r"\setminus"):
            node = Node("setop", (node, self.ratio()), operator[1:])
        return node

    def ratio(self) -> Node:
        items = [self.sum()]
        while self.colons and (self.accept(":") or self.peek() == ("text", "to")):
            self.place += self.peek().kind == "text"
            items.append(self.sum())
        return items[0] if len(items) == 1 else Node("ratio", tuple(items))

    def sum(self) -> Node:
        terms = [self.signed()]
        while sign := self.accept("+", "-", r"\pm", r"\mp"):
            terms.append(with_sign(sign, self.signed()))
        node = terms[0] if len(terms) == 1 else Node("add", tuple(terms))
        if self.accept(r"\pmod"):
            node = Node("mod", (node, self.argument()))
        return node

    def signed(self) -> Node:
        if sign := self.accept("+", "-", r"\pm", r"\mp"):
            return with_sign(sign, self.signed())
        return self.term()

    def term(self) -> Node:
        node = self.factor()
        while True:
            token = self.peek()
            if operator := self.accept(r"\cdot", r"\times", r"\div"):
                sign = self.accept("-", "+") or "+"
                right = with_sign(sign, self.factor())
                node = Node("div", (node, right)) if operator == r"\div" else times(node, operator, right)
            elif token.kind == "text" and not self.conditional() and token.text.lower() != "to":
                node = self.unit(node)
            elif not self.begins_factor(token):
                return node
            elif (mixed := self.mixed(node)) is not None:
                node = mixed
            elif token.kind in ("num", "repeat", "science", "based") and node.kind == "quantity":
                node = Node("add", (node, self.term()))
            else:
                if node.kind == "quantity" and (node.value, token.kind) != ("deg", "sym"):
                    raise Unreadable("something follows a unit")
                if token.kind in ("num", "repeat", "science", "based") and self.peek(-1).kind in (
                    "num", "sym", "repeat", "science",
                ):  # fmt: skip
                    raise Unreadable("two numbers stand side by side")
                node = times(node, "", self.factor())

    def mixed(self, node: Node) -> Node | None:
        r"""A mixed number, ``2\\frac{1}{2}`` or ``2 1/2``; None if there is none."""
        place, before = self.place, self.peek(-1).text
        if not before.isdigit() or node != decimal(before):
            return None
        if self.accept(r"\frac"):
            top, bottom = self.argument(), self.argument()
        elif self.peek().kind == "num" and self.peek(1).text == r"\div" and self.peek(2).kind == "num":
            top, bottom = decimal(self.peek().text), decimal(self.peek(2).text)
            self.place += 3
        else:
            return None
        if top.kind == bottom.kind == "num" and 0 < top.value < bottom.value:  # type: ignore[operator]
            return self.postfix(Node("add", (node, Node("div", (top, bottom))), "mixed"))
        self.place = place
        return None

    def unit(self, node: Node) -> Node:
        name = self.next().text + self.power_of_unit()
        while self.peek().text in (r"\div", r"\cdot") and self.peek(1).kind in ("text", "sym"):
            name += "/" if self.next().text == r"\div" else " "
            name += self.next().text + self.power_of_unit()
        name = " ".join(name.split())
        return Node("quantity", (node,), (known_name(name) or name.lower()) if len(name) > 2 else name)

    def power_of_unit(self) -> str:
        if not self.accept("^"):
            return ""
        power = self.argument()
        sign, power = ("-", power.args[0]) if power.kind == "neg" else ("", power)
        return f"^{sign}{power.value}"


def _joined(items: list[Node], joiners: list[str]) -> Node:
    """Make a list; ``x = 1, y = 2 or x = 2, y = 1`` is a list of two lists, as is ``p and q or r``."""
    if len(items) == 1:
        return items[0]
    joiner = "or" if "or" in joiners else "and" if "and" in joiners else "comma"
    if joiner == "or" and {*joiners} != {"or"}:
        groups, inner = [[items[0]]], "and" if "and" in joiners else "comma"
        for between, item in zip(joiners, items[1:], strict=True):
            if between == "or":
                groups.append([])
            groups[-1].append(item)
        if inner == "and" or all(map(_assigns_several, groups)):
            items = [_joined(group, [inner]) for group in groups]
    return Node("list", tuple(items), joiner)


def _assigns_several(group: list[Node]) -> bool:
    """``x = 1, y = 2``."""
    return (
        all(operators(item) == ("=",) for item in group)
        and len({item.args[0] for item in group}) == len(group) > 1
    )
