"""Whether a sentence is about what a problem asks for.

One rule: the sentence names nothing else. Each word of it that means something is a word of the question, its
numbers and formulas are the problem's, and both have the same qualifiers (more, left, largest, not).
Two kinds of words are free: the things of the problem, where the question names none of them ("she", "it"),
and new words in a complement ("the midpoint of the segment"). In doubt, a sentence is about something else.
"""

import re
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from mars_env.grading.math.nodes import word_set
from mars_env.grading.math.sentences import MATH_SPAN, NUMBER, undelimited
from mars_env.grading.math.tokens import escape_money
from mars_env.grading.math.units import known_unit
from mars_env.grading.math.vocabulary import MEASURE, OTHER_CASE

_LENGTH = 4000  # so many characters at the end of a problem are searched for its questions
_SENTENCES = re.compile(r"(?<=[.?!])\s+|\n|(?<=[。？])")
_ASKS = re.compile(
    r"[?？求]|__|\\underline|[\u4e00-\u9fff]\s*[(（]\s*[)）]|计算|展开|分解|化[简为成]|\b(?:find|compute|evaluate|determine|calculate|what|how|give|express|answer"
    r"|solve|convert|write|expand|factor|simplify|rationali[sz]e|reduce|complete)\b",
    re.IGNORECASE,
)
_ON_FORM = re.compile(
    r"\s*\(?(?:express|give|write|round|answer|enter|leave|state)\b.*"
    r"\b(?:answers?|form|places?|nearest|terms|percentage|decimal|fraction|number|yes|true)\b",
    re.IGNORECASE,
)
_NOT_ASKED = re.compile(r"\[asy\].*?\[/asy\]|\(not [^()]*\)", re.DOTALL)
_OPERATION = re.compile(r"\b(?:sum|product|difference|quotient|ratio)\b", re.IGNORECASE)
_COUNTS = re.compile(r"\bnumber of\b|\bhow many\b|\bcount\b", re.IGNORECASE)
_COUNTED = re.compile(r"[\s*$]*((?!ways|possib)[a-z]{2,}s)\b")
_CONDITION = re.compile(r"\b(?:if|when|that|such|given|where|knowing|assuming|from|who)\b", re.IGNORECASE)
_COMPLEMENT = re.compile(
    r"\b(?:of|between|for|by|in|at|with|that|to|from|on|when|after|over|among|through|obtained)\b",
    re.IGNORECASE,
)
_AMOUNT = re.compile(r"(?i)\b(number|value|amount|set|total|measure|size|cups?|lit(re|er)s?|pieces?) of\b")
_SHARED = re.compile(r"\b([A-Za-z]+) of ([A-Za-z]+)\b")
_CHINESE_CLAUSE = re.compile(r"[，。；]|[,;](?=(?:[^$]*\$[^$]*\$)*[^$]*\Z)")  # not inside of formulas
_CHINESE_SUBJECT = re.compile(
    r"(?:.*[，,:：]|\A)\s*(?!一?共?有)([\u4e00-\u9fff]{1,12}?)(?:[是为=]|等于|一?共?有|\s*\Z)"
)
_SUBJECT = re.compile(
    r"(?:.*[，,:：]|\A)\s*(?!一?共?有)([\u4e00-\u9fff]{1,12}?)(?:[是为=]|等于|一?共?有|\s*\Z)"
)
_SUBJECT = re.compile(
    r"(?:the|its|their|his|her) ([^.,;:]{3,60}?) (?:is|was|are|were|equals?)\b", re.IGNORECASE
)
_STEP = re.compile(r"we\b|let\b|[a-z]+ing\b|.*[:\"]", re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z]{2,}")
_LOOKS = re.compile(r"\s+|\\(?:[,;:! ]|left\b|right\b)|(?<=\\)[dt](?=frac)")
"""What changes only the looks of a formula."""
PHRASE = re.compile(r"[^\W_]+")
_HAN_PAIR = re.compile("[\u4e00-\u9fff]{2}")
_HYPHEN = re.compile(r"(?<=[a-z])-(?=[a-z])")
_NAME = re.compile(r"\b[A-Z][a-z]+\b")
_THING = re.compile(
    r"\b(?:[Aa]n?|The|Her|His|Their|her|his|their) "
    r"((?:(?:right|[a-z]{4,}(?:ar|al|ed|ing|ous|ic)) )?[a-z]{3,})\b"
)
_MANY = re.compile(r"(?:\d|\b(?i:many|two|three|four|five|six)) (?:[a-z]+ ){0,2}?([a-z]{3,}s)\b")
_ELIDED = re.compile(
    r"\bhow many (?!(?:more |fewer |less )?(?!(?:is|was|does|has)\b)(?:\w+ )?"
    r"(?:\w+s|people|children|(?:wo)?men)\b)"
    r"|\b(?:ones?|both|each|them)\b",
    re.IGNORECASE,
)
"""A question that leaves out what it counts: "how many are red?"."""
_THEY = re.compile(r"\b(?:together|altogether|combined|total|in all|they)\b", re.IGNORECASE)
_ALWAYS = re.compile(r"\b(?:answer|result|solution|value|total|form|expression)s?\b|答案|结果|原式", re.I)


_ENDING = re.compile(r"(?<=[a-z]{3})(?:ing|ed|(?<!s)s)\Z")


_PAST = {
    "sold": "sell", "bought": "buy", "paid": "pay", "spent": "spend", "ate": "eat", "drove": "drive",
    "sent": "send", "rode": "ride", "wrote": "write", "ran": "run", "gave": "give", "lost": "lose",
    "found": "find", "fed": "feed", "saw": "see", "won": "win", "grew": "grow", "threw": "throw",
}  # fmt: skip


def _stem(word: str) -> str:
    """The first letters of a word, without the ending of a plural or a verb."""
    return _ENDING.sub("", _PAST.get(word, word))[:5]


_IDLE = frozenset(
    _stem(word)
    for word in word_set(
        """the an of in for is are was were be been has have had will would can could do does did its his
        her their this that these those to at on by with from into it he she they we you there
        and or as so than then thus hence therefore finally now per each every all any both only
        just exactly simply also take takes took need needs get gets make makes go goes come
        which when where who if how what find equal number value answer result solution final
        required desired requested possible such obtained given total amount set about after
        before two three four five six seven eight nine ten long tall people person units up out
        ones same measure minus plus degrees square cubic times divided mod form simplified
        altogether together between respectively missing exact must base last compute evaluate
        calculate express write give unknown correct overall entire whole actual resulting
        corresponding complete full general simplest reduced equivalent quantity ordered closed
        open here again indeed our ll ve re"""
    )
)
"""Words that do not say what a sentence is about."""
_QUALIFIERS = tuple(
    re.compile(words, re.IGNORECASE)
    for words in (
        r"\b(?:more|fewer|less|older|younger|taller|farther|further|heavier)\b(?! than \$?\d)"
        r"|\b(?:difference|exceeds?)\b|多(?!少)|比",
        r"\b(?:left|remain(?!der)\w*|still|now|rest)\b|剩|余下",
        r"\b(?:sum|series)\b|之和|总和",
        r"\bproduct\b|乘积|之积",
        r"\b(?:ratio|quotient)\b",
        r"\b(?:(?:can)?not|without|non|never)\b|n['’]t\b|不",
        r"\b(?:larg|great|bigg|high|long)(?:er|est)\b|\b(?:old|tall)est\b|\bmaxim(?:um|al)\b|(?<!at )\bmost\b"
        r"|较大|最[大多高长]",
        r"\b(?:small|low|short)(?:er|est)\b(?! terms)|\byoungest\b|\bminim(?:um|al)\b|(?<!at )\bleast\b"
        r"|较小|最[小少低短]",
        r"\b(?:squared?|cubed?|half|twice|double)\b(?! (?:f|m|c|k|u|inch|root|y))",
        r"\b(?:one|some|any|part|third|quarter) of\b",
        *(rf"\b{word}\b" for word in ("first", r"(?<!per )second", "third", "fourth", "fifth", "next")),
        *(rf"\b{word}\b" for word in ("other", "original", "previous", "extra")),
    )
)
"""What a question and a sentence about it must both have, or neither."""
_NEEDED = (
    (
        re.compile(r"\b(?:together|altogether|combined|in all)\b"),
        re.compile(r"\b(?:(?:al)?together|combined|total|they|all|both|and)\b", re.IGNORECASE),
    ),
    (
        re.compile(r"\b(?:minus|plus)\b"),
        re.compile(r"\b(?:minus|plus|difference|sum|result)\b", re.IGNORECASE),
    ),
)
"""Words of a question, and what a sentence about it must have then."""
_IMPLIED = {
    "how far": "distance travel", "how long": "time last long", "long": "length", "wide": "width",
    "tall": "height", " high": "height", "deep": "depth", "how old": "age old", "when": "time end",
    "how much": "cost price pay earn spend", "how fast": "speed", "how many": "count", "solve": "root",
    "find all": "root", "\\lim": "limit", "\\int": "integral", "\\frac{d": "derivative", "factor": "factored",
    "percent": "percentage", "maximum": "largest", "minimum": "smallest", " than ": "difference",
    "cost": "price", "price": "cost", "average": "mean", "mean": "average", "chance": "probability",
    "probability": "chance", "root": "zero", "ways": "arrangements choices", "profit": "earn make",
    "distance": "length apart", "speed": "rate travel", "convert": "equivalent", "possible": "choices",
}  # fmt: skip
"""What a question asks for without the word."""


class Question(NamedTuple):
    """What a problem asks for.

    Attributes:
        text: Its last question, and what is said there about the form of an answer.
        words: The stems of its words, and of what it asks for without a word.
        things: The stems of the things that it may mean by "she" or "it".
        known: The stems of all words of the problem.
    """

    text: str
    words: frozenset[str]
    things: frozenset[str]
    known: frozenset[str]


@lru_cache(maxsize=4096)
def questions(statement: str) -> tuple[str, ...]:
    """The sentences of a problem that ask."""
    return tuple(filter(_ASKS.search, _SENTENCES.split(_NOT_ASKED.sub(" ", statement[-_LENGTH:]))))


@lru_cache(maxsize=4096)
def question(statement: str) -> Question | None:
    """The last question of a problem; None if there is none."""
    asking, form = list(questions(statement)), ""
    while len(asking) > 1 and _ON_FORM.match(asking[-1]):
        form = f" {asking.pop()}{form}"
    if not asking or len(asking[-1]) < 3:
        return None
    asked = asking[-1]
    if not asked.isascii():
        asked = next(filter(_ASKS.search, reversed(_CHINESE_CLAUSE.split(asked))), asked)
    implied = " ".join(more for how, more in _IMPLIED.items() if how in asked.lower())
    words = stems(f"{asked}{form} {implied}")
    return Question(asked + form, words, _things(statement, words, asked), stems(escape_money(statement)))


def _things(statement: str, words: frozenset[str], asked: str) -> frozenset[str]:
    """The things and persons of a problem, if its question, whose words are given, names none of them."""
    text, written = MATH_SPAN.sub(" ", statement.replace(asked, " ")), set(_WORD.findall(statement))
    things = stems(" ".join(_THING.findall(text)))
    capital = (name for name in _NAME.findall(text) if name.lower() not in written and not _ASKS.search(name))
    names = stems(" ".join(capital)) - things
    free = frozenset[str]() if things & words else things
    if _ELIDED.search(asked):
        free |= stems(" ".join(_MANY.findall(text)))
    if not names & words and (len(names) == 1 or _THEY.search(asked)):
        free |= names
    return free


def stems(text: str) -> frozenset[str]:
    """The stems of the words that mean something, other than units of measurement."""
    words = {word for word in _WORD.findall(MATH_SPAN.sub(" ", text).lower()) if known_unit(word) is None}
    return frozenset(stem.removesuffix("e") for stem in {*map(_stem, words)} - _IDLE)


def is_asked(statement: str, said: str, *, sure: bool) -> bool:
    """Whether the words of a sentence around its value are about what a problem asks for.

    If it is `sure` that the sentence concludes, it need not say what it is about.
    """
    asked, whole, said = question(statement), stems(said), said.strip()
    formulas, said = MATH_SPAN.findall(said), MATH_SPAN.sub(" ", said).strip()
    if asked is None:
        named = stems(said) or any(qualifier.search(said) for qualifier in _QUALIFIERS)
        return sure or (not named and _ALWAYS.search(said) is not None)
    if _strange(formulas, statement):
        return False
    text = MATH_SPAN.sub(" ", asked.text)
    if asked.words <= {"your"} and not _CONDITION.search(text):
        said = _OPERATION.sub("value", said)  # "the product" for "Compute $3(2+i)$"
    numbers, subject = NUMBER.findall(said), _CHINESE_SUBJECT.match(said)
    if not {*numbers} <= {*NUMBER.findall(asked.text)} or (subject and not _in_han(subject[1], asked.text)):
        return False
    said = _SHARED.sub(lambda pair: pair[1] if _is_amount(pair, statement, text) else pair[0], said)
    mine = stems(said)
    if not mine and sure:
        return True
    if not _same_qualifiers(text, said) or not _names_nothing_else(asked, text, said):
        return False
    units, others = ({known_unit(word) for word in _WORD.findall(part)} for part in (said, text))
    shared = whole - asked.things or numbers or subject or (units & others) - {None}
    return bool(sure or shared or _ALWAYS.search(said) or any(has.search(text) for has, _ in _NEEDED))


def _strange(formulas: list[str], statement: str) -> bool:
    """Whether one of the formulas is none of the problem's."""
    theirs = _LOOKS.sub("", statement) if formulas else ""
    return any(_LOOKS.sub("", undelimited(formula)) not in theirs for formula in formulas)


def contradicts(statement: str, before: str, after: str, *, sure: bool) -> bool:
    """Whether a sentence speaks of something else than what a problem asks for.

    It has a qualifier that the question has not (more, smallest), or names another thing of the problem, or
    counts what the problem does not speak of: "12 vertices". `before` and `after` stand around its number. If
    it is not `sure` that the sentence concludes, it must have the question's qualifiers, too, what it says
    "is" something must be what is asked, and its formulas must be the problem's.
    """
    asked = question(statement)
    if asked is None:
        return True
    said = f"{before} {after}"
    formulas, said = MATH_SPAN.findall(said), MATH_SPAN.sub(" ", said).strip()
    text, subject = MATH_SPAN.sub(" ", asked.text), _SUBJECT.match(said)
    if not sure:
        others = stems(subject[1]) - asked.words if subject else ()
        strange = _strange(formulas, statement)
        case = _STEP.match(said) or OTHER_CASE.search(said)
        if others or strange or case or not _same_qualifiers(text, said) or _of_conditions(text, said):
            return True
    counted = _COUNTED.match(after) if _COUNTS.search(text) else None
    new = new_measure(statement, said) or (counted and stems(counted[1]) - asked.known - asked.words)
    unasked = (word for word in (*_QUALIFIERS, _COUNTS) if word.search(said) and not word.search(text))
    if new or any(unasked):
        return True
    return names_another_thing(statement, said)


def names_another_thing(statement: str, said: str) -> bool:
    """Whether words name a thing of the problem that it does not ask for: Leo's stickers for Marta's."""
    asked, subject = question(statement), _CHINESE_SUBJECT.match(said)
    if asked is None:
        return False
    others = (stems(said) & asked.known) - asked.words - asked.things
    return bool(others) or (subject is not None and not _in_han(subject[1], asked.text))


def new_measure(statement: str, said: str) -> bool:
    """Whether words name what a value measures, and the problem does not: an area."""
    asked = question(statement)
    of = stems(" ".join(MEASURE.findall(said)))
    return bool(of - (asked.words | asked.known if asked else stems(statement)))


def alike(statement: str, said: str) -> bool:
    """Whether a sentence has the qualifiers of what a problem asks for (more, left), and no others."""
    asked = question(statement)
    return asked is not None and _same_qualifiers(MATH_SPAN.sub(" ", asked.text), MATH_SPAN.sub(" ", said))


def _is_amount(pair: re.Match[str], statement: str, asked: str) -> bool:
    """Whether a question about litres says "litres of fuel"."""
    return pair[0] in statement and pair[1] in asked and pair[2] not in asked


def _names_nothing_else(asked: Question, text: str, said: str) -> bool:
    """Whether the words of a sentence are the question's, but for things and new words in a complement.

    A sentence may leave out words of what is asked, or have words of its conditions, but not both: "the
    probability of a blue ball" is not "the probability of a red ball from 2 red and 6 blue balls".
    """
    if _of_conditions(text, said):
        return False
    for qualifier in _QUALIFIERS:
        said = qualifier.sub(" ", said)
    allowed = asked.words | asked.things
    return stems(_parts(said)[0]) <= allowed and stems(said) & asked.known <= allowed


def _of_conditions(text: str, said: str) -> bool:
    """Whether a sentence leaves out words of what is asked, and has words of the question's conditions."""
    mine, phrase = stems(said), stems(_main_part(text))
    return bool(mine & stems(text) - phrase and phrase - mine)


def _parts(said: str) -> tuple[str, str]:
    """What a sentence is about, and its complement: "the midpoint", "of the segment"."""
    said = _AMOUNT.sub(" ", said)
    start = _COMPLEMENT.search(said)
    return (said[: start.start()], said[start.start() :]) if start else (said, "")


def _main_part(asked: str) -> str:
    """A question without the conditions after it."""
    first = _CONDITION.split(asked)[0]
    return first if _ASKS.search(first) else asked


def _same_qualifiers(asked: str, said: str) -> bool:
    """Whether a sentence has the qualifiers of what is asked, and no others.

    A sentence without a complement may leave out those of the question's complement: "the length is 15" for
    "the length of its longer side".
    """
    needed = _main_part(asked)
    if not _parts(said)[1]:
        needed = _parts(needed)[0]
    for qualifier in _QUALIFIERS:
        mine = qualifier.search(said) is not None
        if mine != bool(qualifier.search(asked)) and (mine or qualifier.search(needed)):
            return False
    if _COUNTS.search(said) and not _COUNTS.search(asked):
        return False
    return all(needs.search(said) for has, needs in _NEEDED if has.search(asked))


def _in_han(subject: str, text: str) -> bool:
    """Whether two characters of a Chinese subject stand side by side in a text."""
    pairs = map("".join, pairwise(subject)) if len(subject) > 1 else subject
    return any(pair in text + "答案结果原式" for pair in pairs)


def unshared(sentence: str, statement: str) -> str:
    """A sentence without the words that the question has, too: "not red", "less than 20"."""
    if (asked := question(statement)) is None:
        return sentence
    sentence = _HAN_PAIR.sub(lambda said: " " if said[0] in asked.text else said[0], sentence)
    theirs, words = PHRASE.findall(asked.text.lower()), _HYPHEN.sub(" ", sentence).split()
    bare = ["".join(PHRASE.findall(word)).lower() for word in words]
    shared = {
        k
        for k, (mine, after) in enumerate(pairwise([*bare, ""]))
        if mine.isalpha()
        and mine in theirs
        and (not after[:1].isdigit() or (mine, after) in pairwise(theirs))
    }
    return " ".join(word for k, word in enumerate(words) if k not in shared)
