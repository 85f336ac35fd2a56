"""What may follow an answer in a text: an offer, a check, a comparison, a reason, a remark on another value.

Offers and checks are never part of an answer. Any other sentence or clause is a remark only if a reference is
known that stands before it, and if it neither concludes nor corrects, doubts, objects, or has another value.
"""

import re
from collections.abc import Iterator

from mars_env.grading.math.agreement import in_words, is_near, is_same, telling
from mars_env.grading.math.asked import names_another_thing, new_measure
from mars_env.grading.math.doubt import doubtful
from mars_env.grading.math.sentences import (
    MATH_SPAN,
    NUMBER,
    SENTENCE_END,
    at_end,
    hidden,
    is_value,
    last_number,
    undelimited,
)
from mars_env.grading.math.tokens import escape_money
from mars_env.grading.math.vocabulary import CONCLUDES, CONCLUSION, CORRECTION, MARKER

_OFFER_OR_CHECK = re.compile(
    r"(?:\n[ \t]*|(?<=[.!?)*])[ \t]+)(?:would you like|do you want|let me know|feel free|shall i|i can also"
    r"|(?:and )?that['’]s (?:the answer|my answer|it)|if you(?:['’]d| would)? (?:like|want|have|need)"
    r"|(?:i )?hope (?:this|that) helps)\b[^\n]{0,300}[?!.]\Z"
    r"|\n[ \t]*where \$?[A-Z]\$? is (?:the|an?) (?:arbitrary )?constant\b[^\n]{0,40}\Z"
    r"|(?:\n[ \t]*|(?<=[.!*✓。])[ \t]*)(?:\(?\**(?:验证|检验|验算|代入"
    r"|(?:(?:(?:you|we|one) can )?(?:(?:as )?an? )?(?:(?:quick|sanity|final|simple|numerical) )*(?:double-)?"
    r"(?:check|verif\w+|substitut\w+\s[^\n.]{0,60}\b(?:confirms|verifies))"
    r"|conversely|for comparison|(?:you|we|this|it|which) (?:can|could|may) also)\b)(?P<check>[^\n]{1,300})"
    r"|(?P<aside>\([A-Z][^\n]{1,300}\)\.?))\Z",
    re.IGNORECASE,
)
_HOWEVER = re.compile(r"\W*(?:but|however|yet|though)\b", re.IGNORECASE)
_COMPARES = re.compile(
    r"\b(?:confirm\w*|match\w*|consistent|as (?:it|they) should|(?:as|is) expected|plausible|reasonable"
    r"|compar\w+|numerically|makes sense)\b",
    re.IGNORECASE,
)
_OBJECTS = re.compile(
    r"\W*(?:but|however|and|or|no|then|next|now|also|we|I|finally|let|if|can|is|are|does|do|what|how|that|each"
    r"|our|since|because|\w+ing|\w+ of (?:which|them)|which (?:means|implies|shows|gives|makes|leaves))\b"
    r"|[或另再还]|[A-Za-z]*\W*\Z",
    re.IGNORECASE,
)
_CHANGES = re.compile(
    r"\b(?:add(?:s|ed)?(?! up)|subtract(?:ed|s)?|doubl\w+|halv\w+|half|twice|divide[sd]?|multipl(?:y|ie[sd])"
    r"|remove[sd]?|count(?:s|ed)?|makes|becomes|total|altogether|plus|minus"
    r"|without|exclud\w+|reciprocal|opposite|complement|other|another)\b",
    re.IGNORECASE,
)
"""Words that change a value, or speak of another."""
_REASON = re.compile(r",?\s(?:because|since)\b|，?因为|, as (?:it|they) should", re.IGNORECASE)
_REJECTS = re.compile(
    r"\b(?:(?:must|should|has to) be )?\b(?:less|more|than|would|false|extraneous|rejected|discarded|invalid"
    r"|undefined|negative|impossible|not (?:defined|valid|allowed|a solution))\b"
)
"""Words that reject another value than the reference, or compare with it."""
_NEARLY = re.compile(r"\b(?:about|approximately|roughly)\b|≈", re.IGNORECASE)
_HARMLESS = re.compile(
    rf"{_NEARLY.pattern}|\bdoes(?:n[’']t| not) (?:affect|change|matter)\b|\bif you (?:prefer|like|wish)\b",
    re.IGNORECASE,
)
_SUBORDINATE = re.compile(r"\W*(?:since|because|as|if|when|while|although)\b|因为|由于", re.IGNORECASE)
_ONCE_MORE = re.compile(
    r"(?:that is|which is|i\.e\.|namely|or)\b(?!.*\b(?:than|less|more)\b),?", re.IGNORECASE
)
_AND = re.compile(r"(?:and|while|whereas)\s+")
_STOP = re.compile(r"[,;，；]\s*(?=\S)|\s[–—]\s|\s(?=\()|(?<=[\d*$])(?=\((?:[即约或]|0+\)))")
_GOES_ON = re.compile(r"(?:and |or |but )?[\d$\\*+−-]|[A-Za-z]\s*[=<>≤≥≠]", re.IGNORECASE)

_LENGTH = 400  # a longer sentence is not searched for remarks


def without_checks(text: str) -> str:
    """A text without offers and checks at its end."""
    while found := _OFFER_OR_CHECK.search(text, max(0, len(text) - _LENGTH)):
        said = found["check"] or found["aside"] or ""
        later = [part.strip() for part in SENTENCE_END.split(said)[1:]]
        if CORRECTION.search(said) or any(CONCLUSION.match(part) or _HOWEVER.match(part) for part in later):
            break
        if doubtful(_words(said, ""), beside_number=bool(found["aside"])):
            break
        text = text[: found.start()].rstrip()
    return text


def without_clauses(text: str, statement: str, reference: str) -> Iterator[str]:
    """A text without its last clauses that only remark on what is before them, one by one."""
    before, sentence = _last_sentence(text)
    if len(sentence) > _LENGTH or in_words(reference) or _SUBORDINATE.match(sentence):
        return
    for stop in reversed(list(_STOP.finditer(hidden(sentence)))[-4:]):
        rest = sentence[stop.end() :]
        rest = rest.strip("(). ") if rest.startswith("(") else rest
        again, number = _ONCE_MORE.match(rest), last_number(rest)
        value = undelimited(rest[again.end() :]) if again else ""
        if is_same(value, reference):
            if telling(reference) and not doubtful(sentence[: stop.start()]):
                yield before + value
        elif not (again and number and is_near(number[1], reference)):
            concludes = CONCLUDES.search(rest) and re.search(r"\d", rest)
            goes_on = _GOES_ON.match(rest) and not _rejects(rest, reference)
            reason = _REASON.match(f", {rest}") and not CORRECTION.search(rest)
            if concludes or goes_on or not (reason or _remarks(_AND.sub("", rest), statement, reference)):
                return
        yield before + sentence[: stop.start()] + "."


def without_remark(text: str, statement: str, reference: str) -> str | None:
    """A text without its last sentence; None if that may be more than a remark.

    Unless the reference is telling, a remark with numbers must compare, or be about something else.
    """
    before, sentence = _last_sentence(text)
    if not before.strip() or len(sentence) > _LENGTH or MARKER.search(sentence):
        return None
    number = last_number(sentence)
    if number and is_near(number[1], reference):
        return None if CORRECTION.search(sentence) else before.rstrip()
    if CONCLUDES.search(sentence) or not _remarks(sentence, statement, reference):
        return None
    if not telling(reference) and not _COMPARES.search(sentence) and re.search(r"[\d$]", sentence):
        numbers = NUMBER.findall(sentence)
        same = any(is_same(number, reference) for number in numbers)
        if same or not numbers or not names_another_thing(statement, sentence):
            return None
    return before.rstrip()


def _last_sentence(text: str) -> tuple[str, str]:
    start = max(len(text) - 2 * _LENGTH, 0)
    line = text.rfind("\n") + 1
    if re.search(r"[^\W\d_]", text[line:]):  # not only the end of a formula
        start = max(start, line)
    tail = escape_money(text[start:])
    stops = [stop.end() for stop in SENTENCE_END.finditer(hidden(tail))]
    end = next((end for end in reversed(stops) if re.search(r"[^\s.*_$)]", tail[end:])), 0)
    return text[:start] + tail[:end], tail[end:].strip()


def _rejects(rest: str, reference: str) -> bool:
    """Whether words reject another value than the reference, or compare with it."""
    number = last_number(rest)
    return bool(number and not is_same(number[1], reference) and _REJECTS.search(rest))


def _words(rest: str, reference: str) -> str:
    """The words that may doubt the answer: not reasons, "about", and what rejects another value."""
    said = _REASON.split(_HARMLESS.sub(" ", MATH_SPAN.sub(" 0 ", rest)))[0]
    return _REJECTS.sub(" ", said) if _rejects(rest, reference) else said


def _remarks(rest: str, statement: str, reference: str) -> bool:
    """Whether a sentence or a clause neither corrects nor doubts nor objects, nor has another value."""
    if CORRECTION.search(rest) or _OBJECTS.match(rest) or _CHANGES.search(rest):
        return False
    if doubtful(_words(rest, reference), beside_number=True):
        return False
    if is_value(undelimited(rest)) and not rest.startswith("("):
        return False
    number, value = last_number(rest), at_end(rest)
    another = number and not is_same(number[1], reference)
    if (value and not is_same(value[0], reference)) or (number and another and _ends(number[2])):
        return names_another_thing(statement, rest) or new_measure(statement, rest)
    return not another if _ONCE_MORE.match(rest) else bool(another) or _NEARLY.search(rest) is None


def _ends(after: str) -> bool:
    """Whether hardly anything but a unit follows a number."""
    return len(after.strip(" .*$)!").split()) < 3
