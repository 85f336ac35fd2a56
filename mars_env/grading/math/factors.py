r"""Reads one factor: numbers, names, brackets, functions, matrices, and their postfixes."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from mars_env.grading.math.nodes import (
    BASE_WORDS,
    Node,
    OverLimit,
    Unreadable,
    based,
    choices,
    decimal,
    number,
    repeating,
    subscript,
    substitute,
    with_index,
    with_sign,
    words,
)
from mars_env.grading.math.tokens import FUNCTIONS, Cursor, Token
from mars_env.grading.math.vectors import BOLD, derivative

_CONSTANTS = {
    r"\pi": "pi", r"\infty": "inf", r"\emptyset": "empty", r"\RR": "R", r"\ZZ": "Z", r"\NN": "N", r"\QQ": "Q",
    r"\CC": "C",
}  # fmt: skip
_GREEK = words(
    r"\alpha \beta \gamma \delta \epsilon \zeta \eta \theta \iota \kappa \lambda \mu \nu \xi \rho \sigma"
    r" \tau \upsilon \phi \chi \psi \omega"
    r" \Gamma \Delta \Theta \Lambda \Xi \Pi \Sigma \Phi \Psi \Omega \ell \hbar \partial"
)
_DECORATIONS = words(
    r"\overline \bar \vec \hat \overrightarrow \tilde \widehat \angle \triangle \measuredangle"
)
_BRACKETS = {"(": (")", "]"), "[": ("]", ")"), r"\langle": (r"\rangle",)}
_DELIMITED = {r"\lfloor": (r"\rfloor", "floor"), r"\lceil": (r"\rceil", "ceil"), "|": ("|", "abs")}
_MATRICES = words("matrix pmatrix bmatrix Bmatrix vmatrix smallmatrix array cases")
_ALIGNED = words("aligned align align* gathered gather gather* split")
"""Environments that hold equations one below the other; ``&`` only aligns them."""
_CURRENCY = {r"\$": "dollar", r"\euro": "euro", r"\pounds": "pound", r"\yen": "yuan", r"\rupee": "rupee"}
_INVERSES = words("sin cos tan cot sec csc")
UNKNOWN_FUNCTIONS = frozenset("fghFGH")
"""Letters that are functions if a bracket follows; any other letter multiplies."""


class Factors(Cursor):
    """The lower half of a recursive-descent parser: one method for each kind of factor.

    The upper half (`mars_env.grading.math.parser`) reads the contents of brackets.
    """

    listing: Callable[[], Node]
    statement: Callable[[], Node]
    sum: Callable[[], Node]
    term: Callable[[], Node]
    mixed: Callable[[Node], Node | None]

    def begins_factor(self, token: Token) -> bool:
        """Whether a factor can start with this token."""
        if token.kind in ("num", "sym", "repeat", "science", "based"):
            return True
        if token.kind == "env":
            return token.text.startswith(r"\begin")
        if token.text == "|":
            return not self.bars
        if token.kind == "cmd":
            return (
                token.text
                in (r"\frac", r"\sqrt", r"\binom", r"\sum", r"\prod", r"\boxed", r"\langle", r"\ldots")
                or token.text in _CONSTANTS
                or token.text in _GREEK
                or token.text in _DECORATIONS
                or token.text in _DELIMITED
                or token.text[1:] in FUNCTIONS
            )
        return token.text in ("(", "[", "{", r"\{")

    def factor(self) -> Node:
        """One factor with all that belongs to it."""
        self.deeper()
        node = self.postfix(self.primary())
        self.depth -= 1
        return node

    def postfix(self, node: Node) -> Node:
        """Powers, factorials, degrees, per cent: everything directly after a factor."""
        while True:
            if self.accept("^"):
                if self.peek().text == r"\circ" or (
                    self.peek().text == "{" and self.peek(1).text == r"\circ"
                ):
                    braces = bool(self.accept("{"))
                    self.next()
                    if braces:
                        self.expect("}")
                    kind = "deg"
                    if self.peek().text in ("C", "F", "Celsius", "Fahrenheit"):
                        kind += self.next().text[0]
                    node = Node("quantity", (node,), kind)
                    continue
                exponent = self.exponent()
                node = self.indexed(node, exponent) if self.accept("_") else Node("pow", (node, exponent))
            elif self.accept(r"\circ"):
                node = Node("quantity", (node,), "deg")
            elif self.accept("!"):
                twice = self.accept("!")
                node = Node("call", (node,), "factorial2" if twice else "factorial")
            elif self.accept("%"):
                node = Node("quantity", (node,), "%")
            elif node.kind == "num" and self.peek().text == "_" and self.peek(-1).text == ")":
                node = self.digits(Token("num", str(node.value), spaced=False))  # "(204)_5"
            elif self.peek().text == r"\$" and node.kind == "num":
                self.next()
                node = Node("quantity", (node,), "dollar")
            else:
                return node

    def exponent(self) -> Node:
        """What follows ``^``."""
        if sign := self.accept("-", "+"):
            return with_sign(sign, self.exponent())
        if self.peek().text in ("{", "("):
            return self.primary()
        if self.peek().kind == "num":
            return decimal(self.next().text)  # what follows "_" is no base: "X^2_5" is "X_5^2"
        node = self.argument()
        if self.accept("^"):
            return Node("pow", (node, self.exponent()))
        return node

    def indexed(self, node: Node, exponent: Node) -> Node:
        """A name with its power written before its index."""
        if node.kind != "sym" or "_" in node.name:
            raise Unreadable("an index without a name")
        index = self.index()
        if node.name == "C" and (chosen := choices(index, exponent)) is not None:
            return chosen
        return Node("pow", (Node("sym", value=f"{node.name}_{subscript(index)}"), exponent))

    def index(self) -> Node:
        """What follows ``_`` after a name."""
        return decimal(self.next().text) if self.peek().kind == "num" else self.argument()

    def argument(self) -> Node:
        """A command's argument: a group, or one token (one digit of a number)."""
        if self.peek().text == "{":
            return self.group()
        token = self.peek()
        if token.kind == "num" and len(token.text) > 1 and token.text.isdigit():
            self.tokens[self.place] = token._replace(text=token.text[1:], spaced=False)
            return number(int(token.text[0]))
        if sign := self.accept("-"):
            return with_sign(sign, self.argument())
        return self.primary(plain=True)

    def group(self) -> Node:
        """The contents of braces."""
        self.deeper()
        self.expect("{")
        outer = self.bars, self.colons
        self.bars, self.colons = 0, True
        if self.accept("}"):
            raise Unreadable("an empty group")
        node = self.listing()
        if infix := self.accept(r"\choose", r"\over"):
            below = self.listing()
            node = Node("call", (node, below), "binom") if infix == r"\choose" else Node("div", (node, below))
        self.expect("}")
        self.bars, self.colons = outer
        self.depth -= 1
        if node.kind == "list" and node.value == "comma":
            return Node("set", node.args)
        return node

    def primary(self, *, plain: bool = False) -> Node:
        """A number, a name, brackets, a command with its arguments; a `plain` name is never a function."""
        token = self.next()
        text = token.text
        if token.kind == "num":
            return self.digits(token)
        if token.kind == "repeat":
            return repeating(text)
        if token.kind == "science":
            mantissa, _, power = text.lower().partition("e")
            if abs(int(power)) > 4000:
                raise OverLimit("a power of ten is beyond the limit")
            return number(Fraction(mantissa) * Fraction(10) ** int(power), decimal=True)
        if token.kind == "based":
            digits, _, base = text.partition("_")
            return based(digits, base.strip("{}"))
        if token.kind == "sym":
            return self.symbol(text, plain=plain)
        if token.kind == "text":
            return Node("text", value=text)
        if token.kind == "env":
            return self.matrix(text)
        if text in _BRACKETS:
            return self.bracketed(text)
        if text == "{":
            self.place -= 1
            return self.group()
        if text == r"\{":
            return self.braces()
        if text in _DELIMITED:
            closing, name = _DELIMITED[text]
            outer, self.bars = self.bars, int(text == "|")
            inner = self.listing()
            self.expect(closing)
            self.bars = outer
            return Node("call", (inner,), name)
        if text in _CURRENCY:
            sign = self.accept("-")
            value = self.factor()
            value = self.mixed(value) or value
            return Node("quantity", (Node("neg", (value,)) if sign else value,), _CURRENCY[text])
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
        if text in _GREEK:
            return self.symbol(text[1:], plain=plain)
        if text in _DECORATIONS:
            return self.decorated(text[1:])
        if text in (r"\sum", r"\prod"):
            return self.series(text[1:])
        if text == r"\ldots":
            return Node("dots")
        if text[1:] in FUNCTIONS and token.kind == "cmd":
            return self.function(text[1:])
        raise Unreadable(f"unexpected {text!r}" if text else "the answer ends too early")

    def digits(self, token: Token) -> Node:
        """A number, and its base if it has one."""
        if self.peek().text == "_":
            self.next()
            if self.peek().kind == "num":
                return based(token.text, self.next().text)
            base = self.group()
            if base.kind == "text" and base.name.lower() in BASE_WORDS:
                return based(token.text, str(BASE_WORDS[base.name.lower()]))
            if base.kind != "num":
                raise Unreadable("a base is not a number")
            return based(token.text, str(base.value))
        return decimal(token.text)

    def symbol(self, name: str, *, plain: bool) -> Node:
        """A name with its subscripts and primes, applied if it is a function."""
        if name == "e" and not plain and self.peek().text != "_":
            return Node("const", value="e")
        if name == "i" and self.peek().text != "_":
            return Node("const", value="i")
        if name == "e":
            return Node("const", value="e")
        while True:
            if self.accept("_"):
                index, place = self.index(), self.place
                if name == "C" and self.accept("^"):
                    if (chosen := choices(index, self.exponent())) is not None:
                        return chosen
                    self.place = place
                name += f"_{subscript(index)}"
            elif self.accept("'"):
                name += "'"
            else:
                break
        if plain:
            return Node("sym", value=name)
        head = name.rstrip("'").split("_")[0]
        if head in UNKNOWN_FUNCTIONS:
            if [self.peek(k).text for k in range(6)] == ["^", "{", "-", "1", "}", "("]:
                self.place += 5
                name += "^-1"
            if self.accept("("):
                return Node("call", self.arguments(), name)
        elif self.peek().text == "(" and self.defines():
            self.next()
            return Node("call", self.arguments(), name)
        return Node("sym", value=name)

    def defines(self) -> bool:
        """Whether a bracket here belongs to the left side of a definition, ``P(x) = ...``."""
        starts = self.place == 1 or self.peek(-2).text in (",", ";", "and", "or")
        if not starts or self.peek(-1).kind != "sym":
            return False
        depth, ahead = 0, 0
        while (text := self.peek(ahead).text) or self.peek(ahead).kind != "end":
            depth += (text == "(") - (text == ")")
            ahead += 1
            if depth == 0:
                return self.peek(ahead).text == "="
        return False

    def arguments(self) -> tuple[Node, ...]:
        """The arguments of a function, up to the closing bracket."""
        outer = self.bars, self.colons
        self.bars, self.colons = 0, True
        inner = self.listing()
        self.expect(")")
        self.bars, self.colons = outer
        return inner.args if inner.kind == "list" and inner.value == "comma" else (inner,)

    def bracketed(self, opening: str) -> Node:
        """A tuple, an interval, or an expression in brackets."""
        self.deeper()
        outer = self.bars, self.colons
        self.bars, self.colons = 0, True
        inner = self.listing()
        closing = self.expect(*_BRACKETS[opening])
        self.bars, self.colons = outer
        self.depth -= 1
        if inner.kind == "list" and inner.value == "comma":
            return Node("group", inner.args, ("(", ")") if opening == r"\langle" else (opening, closing))
        if (opening, closing) not in (("(", ")"), ("[", "]")):
            raise Unreadable("brackets do not match")
        if inner.kind == "text" and len(inner.name) > 1:
            raise Unreadable("words in brackets")
        return inner

    def braces(self) -> Node:
        """A set, given by its members or by a condition."""
        self.deeper()
        if self.accept(r"\}"):
            self.depth -= 1
            return Node("const", value="empty")
        outer = self.bars, self.colons
        self.bars, self.colons = 1, False
        inner = self.listing()
        if self.accept("|", ":"):
            self.bars, self.colons = 0, True
            condition = self.listing()
            node = Node("builder", (inner, condition))
        else:
            node = Node("set", inner.args if inner.kind == "list" else (inner,))
        self.expect(r"\}")
        self.bars, self.colons = outer
        self.depth -= 1
        return node

    def root(self) -> Node:
        """The argument of a root, and its degree."""
        degree: Node = number(2)
        if self.accept("["):
            degree = self.sum()
            self.expect("]")
        return Node("call", (self.argument(), degree), "root")

    def decorated(self, how: str) -> Node:
        """A name with a bar, an arrow or the like."""
        inner = self.group() if self.peek().text == "{" else self.primary(plain=True)
        if inner.kind in ("sym", "const"):
            return Node("sym", value=f"{how} {inner.name.removeprefix(BOLD)}")
        raise Unreadable(f"{how} of something that is not a name")

    def function(self, name: str) -> Node:
        """A named function, its base and its power."""
        base: Node | None = None
        power: Node | None = None
        while self.peek().text in ("_", "^"):
            if self.next().text == "_":
                base = self.argument()
            else:
                power = self.exponent()
        if self.peek().text == "(":
            self.next()
            args = self.arguments()
        else:
            args = (self.product(),)
        if power is not None and power == Node("neg", (number(1),)) and name in _INVERSES:
            name, power = "arc" + name, None
        if name == "lg":
            name, base = "log", number(10)
        if base is not None:
            if name != "log":
                raise Unreadable(f"{name} has no base")
            args = (*args, base)
        if name == "abs" and len(args) != 1:
            raise Unreadable("abs takes one value")
        if name == "binom" and len(args) != 2:
            raise Unreadable("binom takes two values")
        node = Node("call", args, name)
        return node if power is None else Node("pow", (node, power))

    def product(self) -> Node:
        """The argument of a function without brackets: factors side by side, up to the next function."""
        if sign := self.accept("-", "+"):
            return with_sign(sign, self.product())
        node = self.factor()
        while (
            self.begins_factor(self.peek())
            and self.peek().text[1:] not in FUNCTIONS
            and self.peek().text not in ("(", "[", r"\{")
        ):
            if self.peek().kind == "num":
                break
            node = Node("mul", (node, self.factor()))
        return node

    def series(self, kind: str) -> Node:
        """A sum or a product over an index."""
        self.expect("_")
        start = self.group()
        self.expect("^")
        end = self.argument()
        if start.kind != "relation" or start.value != ("=",) or start.args[0].kind not in ("sym", "const"):
            raise Unreadable("a sum without a start")
        index = Node("sym", value=start.args[0].name)
        body = self.term()
        if index.name == "i":  # the index hides the imaginary unit
            body = substitute(body, Node("const", value="i"), index)
        return Node(kind, (index, start.args[1], end, with_index(body, index)))

    def unaligned(self) -> None:
        """Drop each ``&`` up to the end of this environment."""
        rest = self.tokens[self.place :]
        end = next((k for k, token in enumerate(rest) if token.kind == "env"), len(rest))
        self.tokens[self.place :] = [token for token in rest[:end] if token.text != "&"] + rest[end:]

    def matrix(self, opening: str) -> Node:
        """The rows of a matrix, or the lines of cases."""
        name = opening[opening.index("{") + 1 : -1]
        if name == "array" and self.peek().text == "{":
            while self.next().text != "}":
                if self.peek().kind == "end":
                    raise Unreadable("an array ends too early")
        if name in _ALIGNED:
            self.unaligned()
        elif name not in _MATRICES:
            raise Unreadable(f"the environment {name} is not supported here")
        self.deeper()
        outer = self.bars, self.colons
        self.bars, self.colons = 0, True
        rows: list[Node] = []
        row: list[Node] = []
        while True:
            if row and name == "cases" and self.peek().text in ("if", "when", "for", "where"):
                self.next()
            row.append(self.statement())
            ends = self.peek(1).text in ("&", r"\\") or self.peek(1).kind == "env"
            if ends and (name == "cases" or name in _ALIGNED):
                self.accept(",", ";", ".")
            separator = self.next()
            if separator.text == "&":
                continue
            rows.append(Node("row", tuple(row)))
            row = []
            if separator.kind == "env" or (separator.text == r"\\" and self.peek().kind == "env"):
                if separator.kind != "env":
                    separator = self.next()
                if separator.text.replace(" ", "") != rf"\end{{{name}}}":
                    raise Unreadable("an environment is closed by another")
                break
            if separator.text != r"\\":
                raise Unreadable("a matrix ends too early")
        self.bars, self.colons = outer
        self.depth -= 1
        if len({len(r.args) for r in rows}) != 1 or (name in _ALIGNED and len(rows[0].args) > 1):
            raise Unreadable("the rows of a matrix differ in length")
        if name in _ALIGNED and len(rows) == 1:
            return rows[0].args[0]
        system = name == "array" and all(row.args[0].kind == "relation" for row in rows if len(row.args) == 1)
        system = system and len(rows[0].args) == 1
        if name == "cases" or name in _ALIGNED or system:
            lines = [line.args[0] if len(line.args) == 1 else Node("where", line.args) for line in rows]
            return Node("list", tuple(lines), "and")
        node = Node("matrix", tuple(rows))
        return Node("call", (node,), "det") if name == "vmatrix" else node
