r"""Decides whether two parsed answers say the same thing. Runs in worker processes.

Shapes are compared first (a pair is not a set, an equation is not an expression, a list of two is not one
number), then values. In doubt, every rule says "different": training would reinforce a wrong answer
that is taken for right.
"""

from __future__ import annotations

from fractions import Fraction

from mars_env.grading.math.evaluate import digits_needed, free_symbols, value_at
from mars_env.grading.math.exact import WORKER_BITS, Undefined, exact_value
from mars_env.grading.math.expressions import COUNTERS, proportional, same_expression, same_line
from mars_env.grading.math.nodes import EXPRESSIONS, Node, OverLimit, Unreadable, number, operators, words
from mars_env.grading.math.sets import is_infinite, real_set, same_set, set_like, variable_of
from mars_env.grading.math.shapes import (
    as_family,
    as_interval,
    assigned,
    function_of,
    has_dots,
    hours,
    in_base,
    integer_names,
    is_label,
    is_mapping,
    is_name,
    is_residue,
    items_of,
    names_collection,
    names_matrix,
    plainly_listed,
    progression,
    renamed,
    renamings,
    time_ratio,
    value_of,
    values_in_order,
    with_constant_of,
    with_parameter_of,
    without_base,
)
from mars_env.grading.math.simplify import SYNONYMS, normal_text, simplified
from mars_env.grading.math.units import Unit, letter_unit, measure, scaled, time_span
from mars_env.grading.math.vectors import same_fonts

MAX_ITEMS = 64
_AS_WRITTEN = words("to parallel perp cong similar subset subseteq")
"""Relations that are compared side by side, in the order written."""


def same_answer(reference: Node, answer: Node, tolerance: float | None = None) -> bool:
    r"""Whether an answer equals a reference.

    Args:
        reference: The parsed reference.
        answer: The parsed answer.
        tolerance: Allowed relative difference between two numbers if one of them is
            written as a decimal; None requires exact equality.

    Raises:
        OverLimit: A value is too large to compute.
        Unreadable: The two cannot be compared by these rules.

    Example:
        >>> from mars_env.grading.math.parser import read
        >>> def same(a, b): return same_answer(read(a), read(b))
        >>> same(r"\{1, 2\}", "2, 1"), same("(1, 2)", "(2, 1)"), same("y = 2x + 1", "2x - y = -1")
        (True, False, True)
        >>> same("25 \\text{ cm}", "0.25 \\text{ m}"), same("25", "25 \\text{ or } 26")
        (True, False)
    """
    answer = with_constant_of(reference, answer)
    reference, answer = same_fonts(reference, answer)
    return _Comparison(tolerance).same(time_span(simplified(reference)), time_span(simplified(answer)))


class _Comparison:
    """One comparison; `same` chooses the method by the shapes of the two sides."""

    def __init__(self, tolerance: float | None) -> None:
        self.tolerance = tolerance

    def same(self, r: Node, a: Node) -> bool:
        if r == a:
            return True
        if (written := in_base(r)) and written[1]:
            return self.same_numeral(written, a)
        if has_dots(r) or has_dots(a):
            return self.same_progression(r, a)
        if "approx" in (r.kind, a.kind):
            if r.kind != "approx" and not _decimal(r):
                return False  # "about 25" is not 25, but a reference of 3.14 may be rounded itself
            return self.same(*(node.args[0] if node.kind == "approx" else node for node in (r, a)))
        if r.kind == "text" or a.kind == "text":
            return self.same_text(r, a)
        if r.kind == "where" or a.kind == "where":
            r, a = (as_family(node) if is_residue(node) else node for node in (r, a))
            return self.same_family(r, a)
        if _AS_WRITTEN & {*operators(r), *operators(a)}:
            return operators(r) == operators(a) and self.same_rows(r, a)
        if "time" in (r.kind, a.kind):
            return self.same_time(r, a)
        if set_like(r) or set_like(a):
            return self.same_region(r, a)
        if self.is_equation(r) and self.is_equation(a):
            return self.same_equation(r, a)
        if r.kind in ("list", "set") or a.kind in ("list", "set"):
            return self.same_collection(r, a)
        if self.is_equation(r) or self.is_equation(a):
            return self.same_named(r, a)
        if r.kind == "mod" or a.kind == "mod" or "==" in (*operators(r), *operators(a)):
            return self.same_residue(r, a)
        if r.kind == a.kind == "group":
            return self.same_group(r, a)
        if r.kind == a.kind == "matrix":
            return self.same_rows(r, a)
        if "ratio" in (r.kind, a.kind):
            return self.same_ratio(r, a)
        if is_infinite(r) or is_infinite(a):
            return is_infinite(r) == is_infinite(a)
        return self.same_measure(r, a)

    # -- words, times, ratios, residues ------------------------------------------------------

    def same_text(self, r: Node, a: Node) -> bool:
        if r.kind == a.kind == "text":
            return normal_text(r.name) == normal_text(a.name)
        word, other = (r, a) if r.kind == "text" else (a, r)
        if other.kind == "sym":
            if len(other.name) > 1 and word.name.casefold() == other.name.casefold():
                return True
            return word.name == other.name or SYNONYMS.get(other.name.lower()) == normal_text(word.name)
        if other.kind == "relation" and operators(other) == ("=",) and is_label(other.args[0]):
            return self.same(r, a.args[1]) if other is a else self.same(r.args[1], a)
        return False

    def same_time(self, r: Node, a: Node) -> bool:
        if r.kind == a.kind == "time":
            if not (r.pair[2] or a.pair[2]):
                return r.pair == a.pair
            return r.pair[1] == a.pair[1] and bool(hours(r) & hours(a))
        return self.same(time_ratio(r, a), time_ratio(a, r))

    def same_ratio(self, r: Node, a: Node) -> bool:
        if r.kind == a.kind == "ratio":
            if len(r.args) != len(a.args):
                return False
            return all(
                same_expression(Node("mul", (x, a.args[0])), Node("mul", (y, r.args[0])))
                for x, y in zip(r.args, a.args, strict=True)
            ) and not any(exact_value(n) == 0 for n in (r.args[0], a.args[0]))
        ratio, other = (r, a) if r.kind == "ratio" else (a, r)
        if len(ratio.args) != 2 or other.kind not in EXPRESSIONS:
            return False
        return same_expression(Node("div", ratio.args), other)

    def same_numeral(self, r: tuple[str, str], a: Node) -> bool:
        """Whether an answer has a reference's digits, and its base or none: ``400_5`` is not ``202_7``."""
        *steps, last = a.args if self.is_equation(a) else (a,)
        written = in_base(last)
        values = {exact_value(part, WORKER_BITS) for part in (*steps, last) if not is_label(part)}
        return (
            written is not None
            and (written == r or (written == (r[0], "") and not steps))
            and len(values) == 1
        )

    def same_residue(self, r: Node, a: Node) -> bool:
        if r.kind == "num" and operators(a) == ("==",) and a.args[0].kind == "sym":
            return self.least_residue(r, a.args[1])
        r, a = (n.args[-1] if operators(n) == ("==",) and is_label(n.args[0]) else n for n in (r, a))
        r, a = (Node("mod", n.args) if n.kind == "call" and n.value == "rem" else n for n in (r, a))
        if r.kind != "mod" or a.kind != "mod":
            return False
        values = [exact_value(part, WORKER_BITS) for part in (*r.args, *a.args)]
        if any(value is None or value.denominator != 1 for value in values):
            return self.same(r.args[0], a.args[0]) and self.same(r.args[1], a.args[1])
        first, modulus, second, other = (value.numerator for value in values if value is not None)
        return abs(modulus) == abs(other) != 0 and (first - second) % modulus == 0

    @staticmethod
    def least_residue(r: Node, a: Node) -> bool:
        """Whether a class, as ``4 mod 7``, names a reference that is its least residue."""
        value, modulus = (
            (exact_value(part, WORKER_BITS) for part in a.args) if a.kind == "mod" else (None, None)
        )
        return value is not None and modulus is not None and value == exact_value(r) and 0 <= value < modulus

    # -- collections -----------------------------------------------------------------------

    def same_collection(self, r: Node, a: Node) -> bool:
        for this, other in ((r, a), (a, r)):
            if (
                this.kind in ("list", "set")
                and other.kind == "group"
                and (values := assigned(this)) is not None
            ):
                return other.value == ("(", ")") and self.same_rows(other, Node("group", tuple(values)))
            if other.kind in ("list", "set") and names_collection(this):
                return self.same(r, a.args[1]) if this is a else self.same(r.args[1], a)
        other = a if is_mapping(r) else r
        if is_mapping(r) != is_mapping(a) and {other.kind, *map(operators, other.args)} & {"set", ("=",)}:
            return False  # values of several names, and of one or of none
        if is_mapping(r) and is_mapping(a):
            return (r.value == "or") == (a.value == "or") and self.same_items(r.args, a.args)
        if {r.value, a.value} == {"and", "or"} and all(item.kind == "sym" for item in (*r.args, *a.args)):
            return False  # a statement of logic, not a list of values
        if (is_mapping(r) and plainly_listed(a)) or (is_mapping(a) and plainly_listed(r)):
            if "or" in (r.value, a.value):
                return False  # "2 or 3" does not say which is p and which is q
            return self.same_rows(Node("list", values_in_order(r)), Node("list", values_in_order(a)))
        items_r, items_a = items_of(r), items_of(a)
        if all(item.kind == "group" for item in (*items_r, *items_a)):
            items_r, items_a = self.distinct(items_r), self.distinct(items_a)
        if r.kind == "list" and a.kind == "list" and len(items_r) == len(items_a):
            return self.same_items(items_r, items_a)
        if not {"set"} & {r.kind, a.kind} and "or" not in (r.value, a.value):
            return False  # a list may name a double root twice, which a set cannot
        return self.same_items(self.distinct(items_r), self.distinct(items_a))

    def distinct(self, items: tuple[Node, ...]) -> tuple[Node, ...]:
        kept: list[Node] = []
        for item in items[:MAX_ITEMS]:
            if not any(self.matches(item, other) for other in kept):
                kept.append(item)
        return tuple(kept) + items[MAX_ITEMS:]

    def same_items(self, r: tuple[Node, ...], a: tuple[Node, ...]) -> bool:
        if len(r) != len(a):
            return False
        if len(r) > MAX_ITEMS:
            raise OverLimit(f"a list is longer than the limit of {MAX_ITEMS} items")
        left = list(a)
        for item in r:
            for k, other in enumerate(left):
                if self.matches(item, other):
                    del left[k]
                    break
            else:
                return False
        return True

    def matches(self, r: Node, a: Node) -> bool:
        """Like `same`, for items of collections: items that cannot be compared are different."""
        try:
            return self.same(r, a)
        except (Unreadable, Undefined):
            return False

    def same_group(self, r: Node, a: Node) -> bool:
        if len(r.args) == len(a.args) > 2 or r.value == a.value:
            return self.same_rows(r, with_parameter_of(r, a))
        return False

    def same_rows(self, r: Node, a: Node) -> bool:
        if len(r.args) != len(a.args) or any(
            len(x.args) != len(y.args) for x, y in zip(r.args, a.args, strict=True) if x.kind == "row"
        ):
            return False
        if r.kind == "matrix":
            return all(self.same_rows(x, y) for x, y in zip(r.args, a.args, strict=True))
        return all(self.same(x, y) for x, y in zip(r.args, a.args, strict=True))

    def same_progression(self, r: Node, a: Node) -> bool:
        """Lists with dots: equal only if they have the same start, end and step."""
        first, second = progression(r), progression(a)
        if first is None or second is None:
            return False
        (start, step, end), (start2, step2, end2) = first, second
        return (
            step == step2
            and start == start2
            and (end is end2 or (end is not None and end2 is not None and self.same(end, end2)))
        )

    def same_family(self, r: Node, a: Node) -> bool:
        """Answers with an integer parameter: ``pi/4 + k pi, k in Z``."""
        if r.kind != "where" and a.kind == "where":  # the reference leaves "for every integer k" unsaid
            said = integer_names(list(a.args[1:]))
            if _declares_arguments(a):
                return self.same(r, a.args[0])
            whole = said is not None and all(remark.args[1].value == "Z" for remark in a.args[1:])
            return whole and set(said or ()) <= COUNTERS & free_symbols(r) and self.same(r, a.args[0])
        if r.kind != "where" or a.kind != "where":
            return False
        (main, *remarks), (main2, *remarks2) = r.args, a.args
        names, names2 = integer_names(remarks), integer_names(remarks2)
        if names is None or names2 is None:
            return self.same(main, main2) and self.same_items(tuple(remarks), tuple(remarks2))
        if {remark.args[1] for remark in remarks} != {remark.args[1] for remark in remarks2}:
            return False
        if any(self.matches(main, other) for other in renamings(main2, names2, names)):
            return True
        if len(names) != 1 or len(names2) != 1:
            return False
        items, items2 = ([value_of(item) for item in items_of(m)] for m in (main, main2))
        if len(items) != len(items2):
            return False
        whole = remarks[0].args[-1].value == "Z"
        return self._paired(items, items2, lambda x, y: same_line(x, names[0], y, names2[0], shift=whole))

    def _paired(self, r: list[Node], a: list[Node], same: object) -> bool:
        left = list(a)
        for item in r:
            match = next((k for k, other in enumerate(left) if same(item, other)), None)  # type: ignore[operator]
            if match is None:
                return False
            del left[match]
        return True

    # -- regions and equations ---------------------------------------------------------------

    def same_region(self, r: Node, a: Node) -> bool:
        names = {name for name in (variable_of(r), variable_of(a)) if name}
        if len(names) > 1 and "builder" not in (r.kind, a.kind):
            return False
        try:
            return same_set(real_set(r), real_set(a))
        except Unreadable:
            pass  # two variables, or end points with variables: compare by form
        first, second = as_interval(r), as_interval(a)
        if first is not None and second is not None:
            return self.same_group(first, second)
        if r.kind == a.kind == "relation" and len(r.args) == len(a.args) == 2:
            return self.same_equation(r, a)
        if r.kind == a.kind == "list" and "or" not in (r.value, a.value):
            return self.same_items(r.args, a.args)
        if r.kind == a.kind and r.value == a.value and r.kind in ("setop", "list", "builder"):
            return self.same_items(r.args, a.args) if r.value != "setminus" else self.same_rows(r, a)
        return False

    @staticmethod
    def is_equation(node: Node) -> bool:
        return node.kind == "relation" and all(op in ("=", "~") for op in operators(node))

    def same_equation(self, r: Node, a: Node) -> bool:
        if operators(r)[0] == "=" == operators(a)[0] and is_label(r.args[0]) and is_label(a.args[0]):
            left, left2 = r.args[0], a.args[0]
            if left == left2 or function_of(left, left2) or function_of(left2, left):
                return self.same(self.value(r), self.value(a))
            if left.kind == left2.kind == "call" and left.value == left2.value:
                return self.same(self.value(r), renamed(self.value(a), left2.args, left.args))
        if len(r.args) != 2 or len(a.args) != 2:
            return False
        return proportional(r, a)

    def same_named(self, r: Node, a: Node) -> bool:
        """Compare when only one side is an equation: ``x = 5`` for ``5``."""
        if self.is_equation(r):
            named = (
                is_name(r.args[0])
                or names_matrix(r.args[0], r.args[-1])
                or not any(map(free_symbols, r.args))
            )  # "4/52 = 1/13"
            return named and self.same(self.value(r), a)
        if operators(a)[-1] == "~" and _decimal(r) and _rounded(a):
            return self.same(r, a.args[-1]) or self.same(r, self.value(a))
        if operators(a)[0] == "~" and not _decimal(r) and is_label(a.args[0]):
            return False  # "n is about 25"
        return self.same(r, self.value(a))

    def value(self, equation: Node) -> Node:
        """The value that an equation gives its left side: ``5`` for ``x = 2 + 3 = 5``.

        A left side that is no name must equal the last member, as in ``x^{-3} = 1/x^3``. A step with other
        names than the last member, as ``S = ab = 6``, cannot be compared with it.

        Raises:
            Unreadable: The left side is not a name, or the steps are not equal.
        """
        exact = (
            equation.args[: operators(equation).index("~") + 1]
            if "~" in operators(equation)
            else equation.args
        )
        if len(exact) == 1:
            return equation.args[-1] if is_label(exact[0]) else exact[0]
        first, *steps = map(without_base, exact)
        last = steps[-1]
        if not (is_label(first) or names_matrix(first, last) or self.same(first, last)):
            raise Unreadable("the left side is not a name, and differs from the right side")
        named = free_symbols(last)
        if any(free_symbols(step) <= named and not self.same(step, last) for step in steps[:-1]):
            raise Unreadable("the two sides of an equation differ")
        return last

    # -- numbers, with and without units -------------------------------------------------------

    def same_measure(self, r: Node, a: Node) -> bool:
        (value, of), (value2, of2) = measure(r), measure(a)
        if isinstance(of, Unit) and of2 is None:
            value2, of2 = letter_unit(value2, of)
        if isinstance(of2, Unit) and of is None:
            value, of = letter_unit(value, of2)
        if of == of2:
            return self.same_number(value, value2)
        if "%" in (of, of2):
            share, other = (value, value2) if of == "%" else (value2, value)
            if (of2 if of == "%" else of) is not None:
                return False
            if self.same_number(Node("div", (share, number(100))), other):
                return True
            return of == "%" and self.same_number(share, other)
        if isinstance(of, Unit) and isinstance(of2, Unit):
            return of.dimension == of2.dimension and self.same_number(
                scaled(value, of.factor), scaled(value2, of2.factor)
            )
        if "deg" in (of, of2):
            return self.same_angle(value, of, value2, of2)
        if of is not None and of2 is not None:
            return False
        given = of if of is not None else of2
        if isinstance(given, Unit) and not given.dimension:  # "5 million" is a number
            return self.same_number(
                scaled(value, given.factor if of is not None else Fraction(1)),
                scaled(value2, given.factor if of2 is not None else Fraction(1)),
            )
        return self.same_number(value, value2)

    def same_angle(self, value: Node, of: object, value2: Node, of2: object) -> bool:
        radians = Unit(Fraction(1), (("angle", 1),))
        if any(x not in (None, "deg", radians) for x in (of, of2)):
            return False
        turned = [
            Node("mul", (v, Node("div", (Node("const", value="pi"), number(180))))) if x == "deg" else v
            for v, x in ((value, of), (value2, of2))
        ]
        bare = value if of is None else value2
        if None in (of, of2) and not any(n.kind == "const" and n.value == "pi" for n in bare.walk()):
            return self.same_number(value, value2)  # a bare number means degrees; with pi in it, radians
        return self.same_number(*turned)

    def same_number(self, r: Node, a: Node) -> bool:
        if r.kind not in EXPRESSIONS or a.kind not in EXPRESSIONS:
            if r.kind == a.kind == "quantity" or "set" in (r.kind, a.kind) or "list" in (r.kind, a.kind):
                return r.kind == a.kind and len(r.args) == len(a.args) == 1 and self.same(*r.args, *a.args)
            return False
        if (
            self.tolerance is not None
            and _decimal(r) | _decimal(a)
            and not free_symbols(r)
            and not free_symbols(a)
        ):
            return _near(r, a, self.tolerance)
        return same_expression(r, a)


def _declares_arguments(node: Node) -> bool:
    """Whether the remarks only say what a function's arguments are: ``f(n) = n`` for all natural ``n``."""
    main, *remarks = node.args
    if operators(main) == ("=",) and main.args[0].kind == "sym" and "_" in main.args[0].name:
        index = main.args[0].name.partition("_")[2]  # "a_n = 2^n for all n >= 1"
        return all(
            one.args[0] == Node("sym", value=index)
            and (
                operators(one) in ((">=",), (">",))
                or (operators(one) == ("in",) and one.args[1].value == "N")
            )
            for one in remarks
        )
    names = integer_names(remarks)
    function = main.args[0] if operators(main) == ("=",) else main
    return names is not None and function.kind == "call" and {a.value for a in function.args} >= set(names)


def _rounded(chain: Node) -> bool:
    """Whether the last member of a chain is near all the others that have no names."""
    *exact, last = *chain.args[:-1], measure(chain.args[-1])[0]
    return all(_near(member, last, 0.01) for member in exact if not free_symbols(member))


def _decimal(node: Node) -> bool:
    return any(child.decimal for child in node.walk())


def _near(r: Node, a: Node, tolerance: float) -> bool:
    try:
        x, y = (value_at(side, {}, digits_needed(r, a), real=True)[0] for side in (r, a))
    except Undefined:
        return False
    return bool(abs(x - y) <= abs(x) * tolerance)
