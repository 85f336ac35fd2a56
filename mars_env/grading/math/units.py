"""Numbers with their units: enough to see that 2 hours are 120 minutes, and that 25 m is not 25 cm."""

from contextlib import suppress
from fractions import Fraction
from typing import NamedTuple, TypeGuard

from mars_env.grading.math.nodes import Node, Unreadable, num, word_set


class Unit(NamedTuple):
    """Its factor to the base of its dimension, and the dimension (base names and powers)."""

    factor: Fraction
    dimension: tuple[tuple[str, int], ...]


_ROWS = {
    "length": {
        "m meter metre": "1", "in inch": "254/10000", "ft foot feet": "3048/10000", "yd yard": "9144/10000",
        "mi mile": "1609344/1000",
    },
    "mass": {
        "g gram": "1", "tonne": "1000000",
        "lb pound": "45359237/100000", "oz ounce": "28349523125/1000000000",
    },
    "time": {
        "s sec second": "1", "min minute": "60", "h hr hour": "3600", "day": "86400", "week": "604800",
    },
    "calendar": {"month": "1", "year yr": "12", "decade": "120", "century": "1200"},
    "money": {"dollar usd buck": "1", "cent ¢": "1/100"},
    "euro": {"euro eur": "1"},
    "renminbi": {"yuan rmb": "1", "wanyuan": "10000"},
    "sterling": {"gbp": "1"},
    "angle": {"rad radian": "1"},
    "current": {"A amp ampere": "1"},
    "temperature": {"K kelvin": "1"},
    "amount": {"mol mole": "1"},
    "product": {
        "l L liter litre": "dm^3", "N newton": "kg m/s^2", "J joule": "N m", "W watt": "J/s",
        "Pa pascal": "N/m^2", "C coulomb": "A s", "V volt": "J/C", "Omega ohm": "V/A", "T tesla": "N/A/m",
        "F farad": "C/V", "Hz hertz": "s^-1",
    },
}  # fmt: skip
_PREFIXES = {
    "n nano": "1/1000000000", "µ μ micro": "1/1000000", "m milli": "1/1000", "c centi": "1/100",
    "d deci": "1/10", "k kilo": "1000", "M mega": "1000000", "G giga": "1000000000",
}  # fmt: skip
_WITH_PREFIX = word_set("length mass current amount")  # dimensions whose first unit takes prefixes
_UNITS: dict[str, Unit] = {}


def _add(names: str, of: Unit | None, *, prefixed: bool) -> None:
    assert of is not None
    _UNITS.update(dict.fromkeys(names.split(), of))
    for name in names.split() if prefixed else ():
        for prefixes, factor in _PREFIXES.items():
            *short, spelled = prefixes.split()
            written = [spelled] if len(name) > 3 else short if name != "amp" else []
            _UNITS.update(
                {prefix + name: of._replace(factor=of.factor * Fraction(factor)) for prefix in written}
            )


_IRREGULAR = {
    "feet": "ft", "inches": "in", "mph": "mi/h", "kph": "km/h", "people": "person", "men": "man",
    "women": "woman", "children": "child", "dice": "die", "vertices": "vertex", "hrs": "hr", "lbs": "lb",
    "yds": "yd", "secs": "sec", "mins": "min", "kgs": "kg", "cms": "cm",
}  # fmt: skip
_SCALES = {
    "hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9, "trillion": 10**12, "dozen": 12,
    "tens": 10, "hundreds": 100, "thousands": 1000, "millions": 10**6,
}  # fmt: skip
_POWERS = {"square": 2, "sq": 2, "sq.": 2, "cubic": 3, "cu": 3}
NOT_UNITS = word_set(
    """far so factorial fifths fourths halves hundredths pi quarters root roots sqrt tenths thirds thousandths
    about above after all almost and approximately contradiction contradicts
    excluded extraneous fail failed fails impossible invalid rejected any are as at away base before below
    besides between
    but by choose cube cubed divides each either even every except false few fewer first for from
    greater half if in infinity is it larger last least less likely many maybe minus mod modulo more
    most much negative neither next no none nor not odd of off one only or other over per perhaps plus
    possibly rd nd remainder roughly same second smaller some square squared st than that th the then third
    longer shorter taller wider older younger higher lower heavier lighter faster slower farther further
    aber casi circa environ et etwa falsch faux fois höchstens incorrect mais mal mehr menos mindestens más
    moins nein nicht no. non oder ou où pas peut-être pero plus presque quizá quizás si sino tal times to true
    twice u und ungefähr veces vez vielleicht wenn wrong
    has have had gives makes unless unknown until up upon wait when which while with without x y z"""
)
PERCENT = (
    "percentage points", "percentage point", "percentage", "percents", "percent", "per cent", "pct",
)  # fmt: skip
_MARKS = dict.fromkeys(("%", *PERCENT), "%") | dict.fromkeys(("deg", "degree", "degrees"), "deg")
_MARKS |= {"degC": "degC", "degF": "degF"}
_SPANS = ({(("time", 1),)}, {(("calendar", 1),)})


def unit(name: str) -> Unit | None:
    """The unit that a name means; None for "units" and the like, `Unreadable` for "or more" and the like.

    Example:
        >>> unit("km/h").factor == unit("kilometers per hour").factor == Fraction(1000, 3600)
        True
    """
    words, scale = _IRREGULAR.get(name, name).split(), Fraction(1)
    while words and words[0] in _SCALES:
        scale *= _SCALES[words.pop(0)]
    name = " ".join(words)
    if not name:
        return Unit(scale, ()) if scale != 1 else None
    powers = dict[str, int]()
    for place, part in enumerate(name.replace(" per ", "/").split("/")):
        # "m s^-1" is a product; a name of several words, such as "square m", is one factor
        product = all(word.partition("^")[0] in _UNITS for word in part.split())
        for factor in part.split() if product else [part]:
            of, power = _factor(factor)
            power = -power if place else power
            scale *= of.factor**power
            for base, exponent in of.dimension:
                powers[base] = powers.get(base, 0) + power * exponent
    dimension = tuple(sorted((base, power) for base, power in powers.items() if power))
    return None if set(powers) == {"unit"} else Unit(scale, dimension)


def known_name(name: str) -> str | None:
    """A name as it is written or in lower case, whichever means a unit of measurement; None for neither."""
    for written in (name, name.lower()):
        with suppress(Unreadable):
            if is_known(unit(written)) and name.lower() not in _ROWS:
                return written
    return None


def is_known(of: Unit | str | None) -> TypeGuard[Unit]:
    """Whether a unit can be converted."""
    return isinstance(of, Unit) and all(base in _ROWS for base, _ in of.dimension)


def _factor(written: str) -> tuple[Unit, int]:
    name, _, exponent = written.partition("^")
    if exponent not in ("", "2", "3", "-1", "-2"):
        raise Unreadable(f"{name}^{exponent} is not a unit")
    power, words = int(exponent or 1), name.split()
    if len(words) > 1 and words[0] in _POWERS:
        power, words = _POWERS[words[0]], words[1:]
    name = " ".join(words)
    if unit := _UNITS.get(name) or _UNITS.get(_singular(name)):
        return unit, power
    odd = any(word in NOT_UNITS or not word.replace("-", "").isalpha() for word in words)
    if odd or len(name) < 2:
        raise Unreadable(f"{name!r} is not a unit")
    return Unit(Fraction(1), ((_singular(name), 1),)), power


def _singular(name: str) -> str:
    """The same form for a word and its plural: ``box`` and ``boxes``, ``penny`` and ``pennies``."""
    if len(name) > 3 and name.endswith("s") and not name.endswith("ss"):
        name = name[:-1]
        if name.endswith(("xe", "che", "she", "sse", "ze")):
            name = name[:-1]
    return name[:-2] + "y" if name.endswith("ie") else name


for _dimension, _rows in _ROWS.items():
    for _place, (_names, _size) in enumerate(_rows.items()):
        _of = unit(_size) if _dimension == "product" else Unit(Fraction(_size), ((_dimension, 1),))
        _add(_names, _of, prefixed=_dimension == "product" or (_dimension in _WITH_PREFIX and not _place))


def value_and_unit(node: Node) -> tuple[Node, Unit | str | None]:
    """A number and its unit: a `Unit`, a mark such as ``"%"``, or None; `Unreadable` for other words."""
    if node.kind == "neg":
        value, of = value_and_unit(node.args[0])
        return Node("neg", (value,)), of
    if node.kind == "quantity":
        return _quantity(node.args[0], node.name)
    if node.kind != "add":
        return node, None
    values, units = zip(*map(value_and_unit, node.args), strict=True)
    factors = [of for of in units if isinstance(of, Unit)]
    if len(factors) == len(units) and len({of.dimension for of in factors}) == 1:
        terms = tuple(scaled(value, of.factor) for value, of in zip(values, factors, strict=True))
        return Node("add", terms), Unit(Fraction(1), factors[0].dimension)
    last = units[-1]
    if not any(units[:-1]) and (last is None or (isinstance(last, Unit) and last.dimension)):
        return Node("add", values), last  # "2 + sqrt(3) cm"
    return node, None


def _quantity(inner: Node, name: str) -> tuple[Node, Unit | str | None]:
    scale, _, counted = name.partition(" ")
    if scale in _SCALES.keys() - {"dozen"} and counted:  # "15 thousand dollars"
        return _quantity(scaled(inner, Fraction(_SCALES[scale])), counted.removeprefix("of "))
    if inner.kind == "quantity" and name.startswith("per "):
        return _quantity(inner.args[0], f"{inner.name} {name}")
    if inner.kind == "quantity":
        (value, of), following = value_and_unit(inner), unit(name)
        if isinstance(of, Unit) and following is not None and following.dimension in ((), of.dimension):
            # "$5 million", "$25 dollars"
            return (value if following.dimension else scaled(value, following.factor)), of
        raise Unreadable("a number has two units")
    return inner, _MARKS.get(name) or unit(name)


def letter_unit(node: Node) -> tuple[Node, Unit | None]:
    """Read ``2m`` or ``9.8 m/s^2`` when the other side has a unit: the letters are units, if they can be."""
    values, letters = list[Node](), list[str]()
    if _split(node, 1, values, letters) and len(values) == 1 and letters:
        with suppress(Unreadable):
            return values[0], unit(" ".join(letters))
    return node, None


def _split(node: Node, power: int, values: list[Node], letters: list[str]) -> bool:
    """Collect the factors of a product: values, and letters with their powers; False if there are others."""
    if node.kind == "sym":
        letters.append(node.name if power == 1 else f"{node.name}^{power}")
        return True
    if node.kind == "pow" and node.args[0].kind == "sym" and node.args[1].kind == "num":
        exponent = node.args[1].value
        return exponent in (2, 3) and _split(node.args[0], power * int(exponent), values, letters)
    if node.kind in ("mul", "div") and any(child.kind == "sym" for child in node.walk()):
        below = -power if node.kind == "div" else power
        top, bottom = node.args
        return _split(top, power, values, letters) and _split(bottom, below, values, letters)
    values.append(node)
    return power == 1 and all(child.kind != "sym" for child in node.walk())


def time_span(node: Node) -> Node:
    """``5 hours and 30 minutes`` as a sum; any other list unchanged."""
    if node.kind == "list" and node.value == "and" and all(item.kind == "quantity" for item in node.args):
        units = {unit(item.name) for item in node.args}
        if len(units) == len(node.args) and {of and of.dimension for of in units} in _SPANS:
            return Node("add", node.args)
    return node


def scaled(value: Node, factor: Fraction) -> Node:
    """A value times the factor of its unit."""
    return value if factor == 1 else Node("mul", (value, num(factor)))
