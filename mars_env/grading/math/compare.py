r"""Decides whether two parsed answers say the same thing. Runs in worker processes.

Shapes are compared first (a pair is not a set, an equation is not an expression, a list of two is not one
number), then values. `_FORMS` says which comparison belongs to which shapes. In doubt, every comparison says
"different": training would reinforce a wrong answer that is taken for right.
"""

import math
from collections.abc import Callable, Sequence
from operator import itemgetter

from mars_env.grading.math.evaluate import digits_needed, free_symbols, value_at
from mars_env.grading.math.exact import WORKER_BITS, Undefined, exact_value
from mars_env.grading.math.expressions import COUNTERS, proportional, same_expression, same_line
from mars_env.grading.math.nodes import EXPRESSIONS, Node, OverLimit, Unreadable, num, operators, substitute
from mars_env.grading.math.sets import same_set, set_like, variable_of
from mars_env.grading.math.shapes import (
    as_family,
    as_interval,
    in_base,
    integer_names,
    is_equation,
    is_label,
    is_mapping,
    is_name,
    is_residue,
    items_of,
    names_collection,
    names_matrix,
    normal,
    normal_text,
    renamed,
    same_label,
    value_of,
    values_by_name,
    without_domain,
)
from mars_env.grading.math.units import Unit, letter_unit, scaled, time_span, value_and_unit
from mars_env.grading.math.vectors import in_plain

_MAX_ITEMS = 64
Compare = Callable[[Node, Node, float | None], bool]  # of a reference and an answer, with a tolerance


def same_answer(reference: Node, answer: Node, tolerance: float | None = None) -> bool:
    r"""Whether an answer equals a reference.

    The tolerance is the allowed relative difference between two numbers if one of them is written as a
    decimal; None requires exact equality. Raises `OverLimit`, and `Unreadable` for what cannot be compared.

    Example:
        >>> from mars_env.grading.math.parser import read_answer
        >>> def same(a, b): return same_answer(read_answer(a), read_answer(b))
        >>> same(r"\{1, 2\}", "2, 1"), same("(1, 2)", "(2, 1)"), same("y = 2x + 1", "2x - y = -1")
        (True, False, True)
    """
    reference, answer = (time_span(normal(in_plain(without_domain(node)))) for node in (reference, answer))
    return _same(reference, answer, tolerance)


def _same(r: Node, a: Node, tolerance: float | None) -> bool:
    if r == a:
        return True
    forms = ((sides((has(r), has(a))), compare) for has, sides, compare in _FORMS)
    return next(compare for fits, compare in forms if fits)(r, a, tolerance)


def _matches(r: Node, a: Node, tolerance: float | None) -> bool:
    """Like `_same`, for items of collections: items that cannot be compared are different."""
    try:
        return _same(r, a, tolerance)
    except (Unreadable, Undefined):
        return False


def _pairwise(r: Sequence[Node], a: Sequence[Node], tolerance: float | None) -> bool:
    return len(r) == len(a) and all(_same(x, y, tolerance) for x, y in zip(r, a, strict=True))


def _numeral(r: Node, a: Node, tolerance: float | None) -> bool:
    """Whether an answer has a reference's digits, and its base or none: ``400_5`` is not ``202_7``."""
    *steps, last = a.args if is_equation(a) else (a,)
    values = {exact_value(node, WORKER_BITS) for node in (*steps, last) if not is_label(node)}
    written, digits = in_base(last), in_base(r)
    return len(values) == 1 and written in (digits, (digits[0], ""))  # type: ignore[index]


def _rounded(r: Node, a: Node, tolerance: float | None) -> bool:
    if not _is_decimal(r):
        return False  # "about 25" is not 25, but a reference of 3.14 may be rounded itself
    r, a = (node.args[0] if node.kind == "approx" else node for node in (r, a))
    return _same(r, a, tolerance)


def _text(r: Node, a: Node, tolerance: float | None) -> bool:
    if r.kind == a.kind:
        return normal_text(r.name) == normal_text(a.name)
    word, other = (r, a) if r.kind == "text" else (a, r)
    if other.kind == "sym":
        same = len(other.name) > 1 and normal_text(other.name) == normal_text(word.name)
        return same or other.name == word.name
    return value_of(other) is not other and _same(value_of(r), value_of(a), tolerance)


def _family(r: Node, a: Node, tolerance: float | None) -> bool:
    """Answers with an integer parameter: ``pi/4 + k pi, k in Z``."""
    r, a = (as_family(node) if is_residue(node) else node for node in (r, a))
    if a.kind != "where":
        return False
    main2, *remarks2 = a.args
    names2 = integer_names(remarks2)
    if r.kind == "where" and not names2 and not integer_names(r.args[1:]):
        return _pairwise(r.args, a.args, tolerance)  # one of several cases
    if r.kind != "where":  # the reference leaves "for every integer k" unsaid
        indices = {
            node.name.partition("_")[2] for main in (r, main2) for node in main.walk() if node.kind == "sym"
        }
        is_counted = bool(names2) and {*names2} <= COUNTERS & free_symbols(r)
        if is_counted:
            whole = all(remark.args[1].value == "Z" or remark.args[0].value in indices for remark in remarks2)
            return whole and _same(r, main2, tolerance)
        unsaid = (COUNTERS - indices) & free_symbols(Node("list", tuple(map(value_of, items_of(r)))))
        used = {*names2} & free_symbols(main2)
        if len(unsaid) != 1 or len(used) != 1 or remarks2[0].args[-1].value != "Z":
            return False
        r = Node("where", (r, substitute(remarks2[0], remarks2[0].args[0], Node("sym", value=min(unsaid)))))
    main, *remarks = r.args
    names = integer_names(remarks)
    sets, sets2 = ({remark.args[1] for remark in of} for of in (remarks, remarks2))
    if not names or not names2 or sets != sets2:
        return False
    items, items2 = ([as_interval(item) or value_of(item) for item in items_of(m)] for m in (main, main2))
    shift = remarks[0].args[1].value == "Z"
    if _paired(items, items2, lambda x, y: same_line(x, names[0], y, names2[0], shift=shift)):
        return True
    return _matches(main, main2, tolerance)


def _time(r: Node, a: Node, tolerance: float | None) -> bool:
    if r.kind != a.kind:
        return _same(_time_as_ratio(r), _time_as_ratio(a), tolerance)
    if not (r.pair[2] or a.pair[2]):
        return r.pair == a.pair
    return r.pair[1] == a.pair[1] and bool(_hours(r) & _hours(a))


def _hours(time: Node) -> set[int]:
    """The hours of the day, from 0 to 23, that a time may mean: ``3:00`` is 3 or 15, and ``15:00`` is 15."""
    hour, half = int(time.pair[0]), time.pair[2]
    if not 1 <= hour <= 12:
        return {hour} if half != "a" else set()
    return {hour % 12 + later for later, name in ((0, "a"), (12, "p")) if half in ("", name)}


def _time_as_ratio(node: Node) -> Node:
    """A time as a ratio, if it looks like one: in lowest terms, without am or pm."""
    if node.kind != "time":
        return node
    hour, minute, half = node.pair
    if half or minute.startswith("0") or math.gcd(int(hour), int(minute)) > 1:
        raise Unreadable("a time cannot be compared with something else")
    return Node("ratio", (num(int(hour)), num(int(minute))))


def _ratio(r: Node, a: Node, tolerance: float | None) -> bool:
    if r.kind == a.kind:
        pairs = zip(r.args, a.args, strict=False)
        crossed = ((Node("mul", (x, a.args[0])), Node("mul", (y, r.args[0]))) for x, y in pairs)
        return len(r.args) == len(a.args) and all(same_expression(x, y) for x, y in crossed)
    ratio, other = (r, a) if r.kind == "ratio" else (a, r)
    return len(ratio.args) == 2 and same_expression(Node("div", ratio.args), other)


def _collection(r: Node, a: Node, tolerance: float | None) -> bool:
    for this, other in ((r, a), (a, r)):
        values = values_by_name(this)
        if values is not None and other.kind == "group":
            return _pairwise(other.args, values, tolerance)
        if names_collection(this):
            return _same(value_of(r), value_of(a), tolerance)
    joiners = {r.value, a.value}
    if is_mapping(r) and is_mapping(a):
        return (r.value == "or") == (a.value == "or") and _all_paired(r.args, a.args, tolerance)
    if is_mapping(r) or is_mapping(a):
        other = a if is_mapping(r) else r
        if other.kind != "list" or any(operators(item) for item in other.args):
            return False  # values of several names, and of one or of none
        values, values2 = (tuple(map(value_of, node.args)) for node in (r, a))
        # "2 or 3" does not say which is p and which is q
        return "or" not in joiners and _pairwise(values, values2, tolerance)
    if joiners == {"and", "or"} and all(item.kind == "sym" for item in (*r.args, *a.args)):
        return False  # a statement of logic, not a list of values
    items, items2 = items_of(r), items_of(a)
    if r.kind == a.kind == "list":
        return _all_paired(items, items2, tolerance)
    if "set" not in (r.kind, a.kind) and "or" not in joiners:
        return False  # a list may name a double root twice, which a set cannot
    return _all_paired(_distinct(items, tolerance), _distinct(items2, tolerance), tolerance)


def _distinct(items: tuple[Node, ...], tolerance: float | None) -> tuple[Node, ...]:
    merged: list[Node] = []
    for item in items[:_MAX_ITEMS]:
        if not any(_matches(item, other, tolerance) for other in merged):
            merged.append(item)
    return tuple(merged) + items[_MAX_ITEMS:]


def _all_paired(r: Sequence[Node], a: Sequence[Node], tolerance: float | None) -> bool:
    if len(r) == len(a) > _MAX_ITEMS:
        raise OverLimit(f"a list is longer than the limit of {_MAX_ITEMS} items")
    return _paired(r, a, lambda x, y: _matches(x, y, tolerance))


def _paired(r: Sequence[Node], a: Sequence[Node], same: Callable[[Node, Node], bool]) -> bool:
    left = list(a)
    for item in r:
        match = next((k for k, other in enumerate(left) if same(item, other)), None)
        if match is None:
            return False
        del left[match]
    return not left


def _group(r: Node, a: Node, tolerance: float | None) -> bool:
    if r.kind != a.kind:  # a vector may be written as a row or a column, but a matrix is no vector
        return _pairwise(_components(r), _components(a), tolerance)
    return (r.value == a.value or len(r.args) > 2) and _pairwise(r.args, a.args, tolerance)


def _components(node: Node) -> tuple[Node, ...]:
    """The components of a point, and of a matrix with one row or one column; otherwise its rows."""
    if node.kind != "matrix":
        return () if node.value in (("[", ")"), ("(", "]")) else node.args
    if len(node.args) == 1:
        return node.args[0].args
    return tuple(row.args[0] if len(row.args) == 1 else row for row in node.args)


def _region(r: Node, a: Node, tolerance: float | None) -> bool:
    names = {name for name in (variable_of(r), variable_of(a)) if name}
    if len(names) > 1:
        return False
    try:
        return same_set(r, a)
    except Unreadable:
        pass  # two variables, or end points with variables: compare by form
    first, second = as_interval(r), as_interval(a)
    if first is not None and second is not None:
        return first.value == second.value and _pairwise(first.args, second.args, tolerance)
    if r.kind == a.kind == "relation":
        return _equation(r, a, tolerance)
    if (r.kind, r.value) != (a.kind, a.value):
        return False
    return (_pairwise if r.value == "setminus" else _all_paired)(r.args, a.args, tolerance)


def _equation(r: Node, a: Node, tolerance: float | None) -> bool:
    left, left2 = r.args[0], a.args[0]
    chains = is_equation(r) and is_equation(a) and operators(r)[0] == "=" == operators(a)[0]
    if chains and is_label(left) and is_label(left2):
        names = {left.value, left2.value} & {"y", "z"}
        if same_label(left, left2) or ({left.kind, left2.kind} == {"call", "sym"} and names):  # f(x) and y
            return _same(_value(r, tolerance), _value(a, tolerance), tolerance)
        if left.kind == left2.kind == "call" and left.value == left2.value:
            return _same(
                _value(r, tolerance), renamed(_value(a, tolerance), left2.args, left.args), tolerance
            )
    return len(r.args) == len(a.args) == 2 and proportional(r, a)


def _named(r: Node, a: Node, tolerance: float | None) -> bool:
    if is_equation(r):
        left = r.args[0]
        solved = is_name(left) or names_matrix(left, r.args[-1]) or not any(map(free_symbols, r.args))
        return solved and _same(_value(r, tolerance), a, tolerance)
    *exact, last = a.args
    if operators(a)[-1] == "~" and _is_decimal(r) and _same(r, last, tolerance):
        rounded, _ = value_and_unit(last)
        return all(_near(member, rounded, 0.01) for member in exact if not free_symbols(member))
    if operators(a)[0] == "~" and not _is_decimal(r) and is_label(a.args[0]):
        return False  # "n is about 25"
    return _same(r, _value(a, tolerance), tolerance)


def _value(equation: Node, tolerance: float | None) -> Node:
    """The value that an equation gives its left side: ``5`` for ``x = 2 + 3 = 5``; else raises `Unreadable`.

    A left side that is no name must equal the last member, as in ``x^{-3} = 1/x^3``. A step with other
    names than the last member, as ``S = ab = 6``, cannot be compared with it.
    """
    exact = equation.args[: (*operators(equation), "~").index("~") + 1]
    if len(exact) == 1:
        return equation.args[-1] if is_label(exact[0]) else exact[0]
    first, *steps = (node.args[0] if node.kind == "based" else node for node in exact)
    last = steps.pop()
    if not (is_label(first) or names_matrix(first, last) or _same(first, last, tolerance)):
        raise Unreadable("the left side is not a name, and differs from the right side")
    named = free_symbols(last)
    if any(free_symbols(step) <= named and not _same(step, last, tolerance) for step in steps):
        raise Unreadable("the two sides of an equation differ")
    return last


def _measure(r: Node, a: Node, tolerance: float | None) -> bool:
    (value, of), (value2, of2) = value_and_unit(r), value_and_unit(a)
    if isinstance(of, Unit) and of2 is None:
        value2, of2 = letter_unit(value2)
    if isinstance(of2, Unit) and of is None:
        value, of = letter_unit(value)
    if of == of2:
        return _number(value, value2, tolerance)
    if "%" in (of, of2):
        share, other = (value, value2) if of == "%" else (value2, value)
        return {of, of2} == {"%", None} and (
            _number(Node("div", (share, num(100))), other, tolerance)
            or (of == "%" and _number(share, other, tolerance))
        )
    if "deg" in (of, of2):
        return _angle(value, of, value2, of2, tolerance)
    units = [unit for unit in (of, of2) if isinstance(unit, Unit)]
    if None not in (of, of2) and (len(units) < 2 or units[0].dimension != units[1].dimension):
        return False
    if len(units) == 2 or not any(unit.dimension for unit in units):  # "5 million" is a number
        value, value2 = (
            scaled(v, u.factor) if isinstance(u, Unit) else v for v, u in ((value, of), (value2, of2))
        )
    return _number(value, value2, tolerance)


def _angle(value: Node, of: object, value2: Node, of2: object, tolerance: float | None) -> bool:
    if any(x not in (None, "deg") and getattr(x, "dimension", ()) != (("angle", 1),) for x in (of, of2)):
        return False
    bare = value if of is None else value2
    if None in (of, of2) and Node("const", value="pi") not in bare.walk():
        return _number(value, value2, tolerance)  # a bare number means degrees; with pi in it, radians
    half_turn = Node("div", (Node("const", value="pi"), num(180)))
    value = Node("mul", (value, half_turn)) if of == "deg" else value
    value2 = Node("mul", (value2, half_turn)) if of2 == "deg" else value2
    return _number(value, value2, tolerance)


def _number(r: Node, a: Node, tolerance: float | None) -> bool:
    if {r.kind, a.kind} - EXPRESSIONS:
        return False
    if tolerance is None or not (_is_decimal(r) or _is_decimal(a)) or free_symbols(r) | free_symbols(a):
        return same_expression(r, a)
    return _near(r, a, tolerance)


def _is_decimal(node: Node) -> bool:
    return any(child.decimal for child in node.walk())


def _near(r: Node, a: Node, tolerance: float) -> bool:
    x, y = (value_at(side, {}, digits_needed(r, a), real=True)[0] for side in (r, a))
    return bool(abs(x - y) <= abs(x) * tolerance)


def _kind(*kinds: str) -> Callable[[Node], bool]:
    return lambda node: node.kind in kinds


_FORMS: tuple[tuple[Callable[[Node], bool], Callable[[Sequence[bool]], bool], Compare], ...] = (
    (lambda node: bool((in_base(node) or ("", ""))[1]), itemgetter(0), _numeral),
    (_kind("approx"), any, _rounded),
    (_kind("text"), any, _text),
    (_kind("where"), any, _family),
    (_kind("time"), any, _time),
    (set_like, any, _region),
    (is_equation, all, _equation),
    (_kind("list", "set"), any, _collection),
    (is_equation, any, _named),
    (lambda node: node.kind == "mod" or "==" in operators(node), any, _family),
    (_kind("group", "matrix", "row"), all, _group),
    (_kind("ratio"), any, _ratio),
    (lambda node: True, any, _measure),
)
"""A shape, which of the two sides must have it, and the comparison then; the first row that fits decides."""
