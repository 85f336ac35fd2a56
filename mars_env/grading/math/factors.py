r"""Reads one factor: numbers, names, brackets, functions, matrices, and their postfixes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mars_env.grading.math.literals import based, decimal, repeating, scientific
from mars_env.grading.math.nodes import Node, OverLimit, Unreadable, num, substitute, word_set
from mars_env.grading.math.tokens import FUNCTIONS, Token
from mars_env.grading.math.vectors import BOLD, derivative

_MAX_DEPTH = 40  # of brackets, powers and arguments
_CONSTANTS = {
    r"\pi": "pi", r"\infty": "inf", r"\emptyset": "empty", r"\RR": "R", r"\ZZ": "Z", r"\NN": "N", r"\QQ": "Q",
    r"\CC": "C",
}  # fmt: skip
_GREEK = word_set(
    r"\alpha \beta \gamma \delta \epsilon \zeta \eta \theta \iota \kappa \lambda \mu \nu \xi \rho \sigma"
    r" \tau \upsilon \phi \chi \psi \omega"
    r" \Gamma \Delta \Theta \Lambda \Xi \Pi \Sigma \Phi \Psi \Omega \ell \hbar \partial"
)
_DECORATIONS = word_set(
    r"\overline \bar \vec \hat \overrightarrow \tilde \widehat \angle \triangle \measuredangle"
)
_BRACKETS = {"(": (")", "]"), "[": ("]", ")"), r"\langle": (r"\rangle",)}
_DELIMITED = {r"\lfloor": (r"\rfloor", "floor"), r"\lceil": (r"\rceil", "ceil"), "|": ("|", "abs")}
_MATRICES = word_set("matrix pmatrix bmatrix Bmatrix smallmatrix array cases")
_ALIGNED = word_set("aligned align align* gathered gather gather* split")
"""Environments that hold equations one below the other; ``&`` only aligns them."""
_CURRENCY = {r"\$": "dollar", r"\euro": "euro", r"\pounds": "pound", r"\yen": "yuan", r"\rupee": "rupee"}
_OPENINGS = frozenset((*_BRACKETS, "{", r"\{", *_DELIMITED, *_CURRENCY))
_LITERALS: dict[str, Callable[[str], Node]] = {
    "repeat": repeating, "science": scientific, "based": lambda text: based(*text.split("_")),
}  # fmt: skip
_INVERSES = word_set("sin cos tan cot sec csc")
_BEGINNINGS = (
    word_set(r"( [ { \{ \frac \sqrt \binom \sum \prod \boxed \langle \ldots \lfloor \lceil")
    | {*_CONSTANTS}
    | _GREEK
    | _DECORATIONS
    | {"\\" + name for name in FUNCTIONS}
)
UNKNOWN_FUNCTIONS = frozenset("fghFGH")  # if a bracket follows; any other letter multiplies


def with_sign(sign: str, node: Node) -> Node:
    """A node with its sign."""
    if sign == "+":
        return node
    return Node({"-": "neg", r"\pm": "pm", r"\mp": "mp"}[sign], (node,))


class _Factors:
    """The lower half of a recursive-descent parser: one method for each kind of factor.

    The upper half (`mars_env.grading.math.parser`) reads the contents of brackets. While `bars` are open, a
    bar closes one; with `colons`, a colon means a ratio.
    """

    listing: Callable[[], Node]
    statement: Callable[[], Node]
    condition: Callable[[], Node]
    conditional: Callable[..., bool]
    sum: Callable[[], Node]
    term: Callable[[], Node]

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self.place = self.depth = self.bars = 0
        self.colons = True

    def peek(self, ahead: int = 0) -> Token:
        place = self.place + ahead
        return self.tokens[place] if place < len(self.tokens) else Token("end", "")

    def next(self) -> Token:
        self.place += 1
        return self.peek(-1)

    def accept(self, *texts: str) -> str | None:
        """If the token here is one of these signs or commands, pass it and return its text; else None."""
        if self.peek().kind in ("op", "cmd", "env") and self.peek().text in texts:
            return self.next().text
        return None

    def expect(self, *texts: str) -> str:
        """Like `accept`, but raise `Unreadable` for any other token."""
        text = self.accept(*texts)
        if text is None:
            raise Unreadable(f"expected {' or '.join(texts)} at {self.peek().text!r}")
        return text

    @contextmanager
    def inside(self, *, bars: int = 0, colons: bool = True) -> Iterator[None]:
        outer, self.bars, self.colons = (self.bars, self.colons), bars, colons
        yield
        self.bars, self.colons = outer

    def within(self, *closing: str, bars: int = 0, colons: bool = True) -> tuple[Node, str]:
        """What is between brackets, and the closing one."""
        with self.inside(bars=bars, colons=colons):
            return self.listing(), self.expect(*closing)

    def begins_factor(self, token: Token) -> bool:
        if token.kind == "env":
            return token.text.startswith(r"\begin")
        if token.text == "|":
            return not self.bars
        return token.kind in ("num", "sym", "repeat", "science", "based") or (
            token.kind in ("op", "cmd") and token.text in _BEGINNINGS
        )

    def factor(self) -> Node:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise OverLimit("the answer is nested deeper than the limit")
        node = self.postfix(self.primary())
        self.depth -= 1
        return node

    def postfix(self, node: Node) -> Node:
        """Powers, factorials, degrees, per cent: everything directly after a factor."""
        while True:
            if self.accept("^"):
                node = Node("pow", (node, self.script()))
            elif self.accept(r"\circ"):
                scale = self.peek().text in ("C", "F", "Celsius", "Fahrenheit")
                node = Node("quantity", (node,), f"deg{self.next().text[0]}" if scale else "deg")
            elif self.accept("!"):
                node = Node("call", (node,), "factorial2" if self.accept("!") else "factorial")
            elif self.accept("%"):
                node = Node("quantity", (node,), "%")
            elif node.kind == "num" and self.peek().text == "_" and self.peek(-1).text == ")":
                node = self.digits(str(node.value))  # "(204)_5"
            else:
                return node

    def script(self) -> Node:
        """What follows ``^`` or ``_``: a number with all its digits, otherwise an argument."""
        if sign := self.accept("-", "+"):
            return with_sign(sign, self.script())
        return decimal(self.next().text) if self.peek().kind == "num" else self.argument()

    def argument(self) -> Node:
        token = self.peek()
        if token.text.isdigit() and len(token.text) > 1:
            self.tokens[self.place] = token._replace(text=token.text[1:])
            return num(int(token.text[0]))
        if sign := self.accept("-"):
            return with_sign(sign, self.argument())
        return self.primary(plain=True)

    def group(self) -> Node:
        self.expect("{")
        with self.inside():
            node = self.listing()
            if infix := self.accept(r"\choose", r"\over"):
                pair = (node, self.listing())
                node = Node("call", pair, "binom") if infix == r"\choose" else Node("div", pair)
            self.expect("}")
        return Node("set", node.args) if node.value == "comma" else node

    def primary(self, *, plain: bool = False) -> Node:
        """A number, a name, brackets, a command with its arguments; a `plain` name is never a function."""
        token = self.next()
        text = token.text
        if token.kind == "num":
            return self.digits(text)
        if token.kind in _LITERALS:
            return _LITERALS[token.kind](text)
        if token.kind == "sym" or text in _GREEK:
            return self.symbol(text.removeprefix("\\"), plain=plain)
        if token.kind == "text":
            return Node("text", value=text)
        if token.kind == "env":
            return self.matrix(text)
        if text in _OPENINGS:
            return self.enclosed(text)
        return self.command(text)

    def enclosed(self, text: str) -> Node:
        if text in _BRACKETS:
            return self.bracketed(text)
        if text == "{":
            self.place -= 1
            return self.group()
        if text == r"\{":
            return self.braces()
        if text in _DELIMITED:
            closing, name = _DELIMITED[text]
            inner, _ = self.within(closing, bars=int(text == "|"), colons=self.colons)
            return Node("call", (inner,), name)
        sign = self.accept("-") or "+"
        return Node("quantity", (with_sign(sign, self.factor()),), _CURRENCY[text])

    def command(self, text: str) -> Node:
        if text == r"\frac":
            top, below = self.argument(), self.argument()
            return derivative(top, below) or Node("div", (top, below))
        if text == r"\binom":
            return Node("call", (self.argument(), self.argument()), "binom")
        if text == r"\sqrt":
            return self.root()
        if text in (r"\boxed", r"\fbox"):
            return self.argument()
        if text in _CONSTANTS:
            return Node("const", value=_CONSTANTS[text])
        if text in _DECORATIONS:
            return self.decorated(text)
        if text in (r"\sum", r"\prod"):
            return self.series(text[1:])
        if text == r"\ldots":
            return Node("dots")
        if text.startswith("\\") and text[1:] in FUNCTIONS:
            return self.function(text[1:])
        raise Unreadable(f"unexpected {text!r}" if text else "the answer ends too early")

    def decorated(self, text: str) -> Node:
        inner = self.argument()
        if inner.kind not in ("sym", "const"):
            raise Unreadable(f"{text} of something that is not a name")
        return Node("sym", value=f"{text[1:]} {inner.name.removeprefix(BOLD)}")

    def digits(self, text: str) -> Node:
        if not self.accept("_"):
            return decimal(text)
        if self.peek().kind == "num":
            return based(text, self.next().text)
        base = self.group()
        return based(text, str(base.value) if base.kind in ("num", "text") else "")

    def symbol(self, name: str, *, plain: bool) -> Node:
        if name in ("e", "i") and self.peek().text != "_":
            return Node("const", value=name)
        while prime := self.accept("_", "'"):
            if prime == "'":
                name += prime
                continue
            index, place = self.script(), self.place
            if name == "C" and self.accept("^"):
                if (chosen := _choices(index, self.script())) is not None:
                    return chosen
                self.place = place
            name += f"_{_subscript(index)}"
        applied = not plain and (name.rstrip("'").split("_")[0] in UNKNOWN_FUNCTIONS or self.defines())
        if applied and self.accept("("):
            return Node("call", self.arguments(), name)
        return Node("sym", value=name)

    def defines(self) -> bool:
        """Whether a bracket here belongs to the left side of a definition, ``P(x) = ...``."""
        starts = self.place == 1 or self.peek(-2).text in (",", ";", "and", "or")
        if not starts or self.peek(-1).kind != "sym" or self.peek().text != "(":
            return False
        depth = 0
        for ahead, token in enumerate(self.tokens[self.place :], 1):
            depth += (token.text == "(") - (token.text == ")")
            if depth == 0:
                return self.peek(ahead).text == "="
        return False

    def arguments(self) -> tuple[Node, ...]:
        inner, _ = self.within(")")
        return inner.args if inner.value == "comma" else (inner,)

    def bracketed(self, opening: str) -> Node:
        inner, closing = self.within(*_BRACKETS[opening])
        if inner.value == "comma":
            return Node("group", inner.args, ("(", ")") if opening == r"\langle" else (opening, closing))
        if (opening, closing) not in (("(", ")"), ("[", "]")):
            raise Unreadable("brackets do not match")
        if inner.kind == "text" and len(inner.name) > 1:
            raise Unreadable("words in brackets")
        return inner

    def braces(self) -> Node:
        """A set, given by its members or by a condition."""
        if self.accept(r"\}"):
            return Node("const", value="empty")
        with self.inside(bars=1, colons=False):
            inner = self.listing()
            node = Node("set", inner.args if inner.kind == "list" else (inner,))
            if self.accept("|", ":"):
                with self.inside():
                    node = Node("builder", (inner, self.listing()))
            self.expect(r"\}")
        return node

    def root(self) -> Node:
        degree = num(2)
        if self.accept("["):
            degree = self.sum()
            self.expect("]")
        return Node("call", (self.argument(), degree), "root")

    def function(self, name: str) -> Node:
        base, power = num(10) if name == "lg" else None, None
        while mark := self.accept("_", "^"):
            if mark == "_":
                base = self.argument()
            else:
                power = self.script()
        args = self.arguments() if self.accept("(") else (self.product(),)
        if power == Node("neg", (num(1),)) and name in _INVERSES:
            name, power = "arc" + name, None
        if base is not None:
            if name not in ("log", "lg"):
                raise Unreadable(f"{name} has no base")
            name, args = "log", (*args, base)
        node = Node("call", args, name)
        return node if power is None else Node("pow", (node, power))

    def product(self) -> Node:
        """The argument of a function without brackets: factors side by side, up to the next function."""
        node = self.factor()
        while (
            self.begins_factor(token := self.peek())
            and token.kind != "num"
            and token.text[1:] not in FUNCTIONS
            and token.text not in ("(", "[", r"\{")
        ):
            node = Node("mul", (node, self.factor()))
        return node

    def series(self, kind: str) -> Node:
        """A sum or a product over an index; in its body, ``a_k`` is a function of the index ``k``."""
        self.expect("_")
        start = self.group()
        self.expect("^")
        end = self.argument()
        if start.kind != "relation" or start.value != ("=",) or start.args[0].kind not in ("sym", "const"):
            raise Unreadable("a sum without a start")
        index, body = Node("sym", value=start.args[0].name), self.term()
        if index.name == "i":  # the index hides the imaginary unit
            body = substitute(body, Node("const", value="i"), index)
        for part in [part for part in body.walk() if part.kind == "sym"]:
            if part.name.endswith(f"_{index.name}"):
                applied = Node("call", (index,), part.name.removesuffix(f"_{index.name}"))
                body = substitute(body, part, applied)
        return Node(kind, (index, start.args[1], end, body))

    def matrix(self, opening: str) -> Node:
        """The rows of a matrix, or the lines of cases."""
        name = opening[opening.index("{") + 1 : opening.index("}")]
        if name not in _MATRICES | _ALIGNED:
            raise Unreadable(f"the environment {name} is not supported here")
        if name in _ALIGNED:
            rest = self.tokens[self.place :]
            end = next((k for k, token in enumerate(rest) if token.kind == "env"), len(rest))
            self.tokens[self.place :] = [token for token in rest[:end] if token.text != "&"] + rest[end:]
        lined = name == "cases" or name in _ALIGNED
        with self.inside():
            rows = self.rows(rf"\end{{{name}}}", lined)
        width = len(rows[0])
        if any(len(row) != width for row in rows) or (name in _ALIGNED and width > 1):
            raise Unreadable("the rows of a matrix differ in length")
        if name in _ALIGNED and len(rows) == 1:
            return rows[0][0]
        if lined:
            lines = (row[0] if width == 1 else Node("where", tuple(row)) for row in rows)
            return Node("list", tuple(lines), "and")
        return Node("matrix", tuple(Node("row", tuple(row)) for row in rows))

    def rows(self, end: str, lined: bool) -> list[list[Node]]:
        """The cells of each row of an environment; `lined`: there may be a comma after each."""
        rows: list[list[Node]] = [[]]
        while True:
            rows[-1].append(self.condition() if lined and self.conditional() else self.statement())
            if self.peek(1).text in ("&", r"\\") or self.peek(1).kind == "env" or self.conditional(1):
                self.accept(",", ";", ".")
            if lined and self.conditional():
                continue
            separator = self.next()
            if separator.text == r"\\" and self.peek().kind != "env":
                rows.append([])
            elif separator.text != "&":
                closing = self.next() if separator.text == r"\\" else separator
                if closing.text.replace(" ", "") != end:
                    raise Unreadable("an environment is closed by something else")
                return rows


def _subscript(node: Node) -> str:
    if node.kind == "num":
        return str(node.value)
    if node.kind in ("sym", "const", "text"):
        return node.name
    return f"{node.kind}{node.value or ''}({','.join(map(_subscript, node.args))})"


def _choices(size: Node, chosen: Node) -> Node | None:
    """The binomial coefficient ``C_{10}^{3}``; None for a constant such as ``C_1^2``."""
    named = size.kind == "sym" and chosen.kind in ("num", "sym") and chosen.value != "T"
    numbers = size.kind == chosen.kind == "num" and 0 <= chosen.value <= size.value >= 3  # type: ignore[operator]
    return Node("call", (size, chosen), "binom") if named or numbers else None
