r"""Finds the value that a sentence states.

A *value* is a formula, a number with or without a unit, a list of these, or a single letter. A sentence
states a value if it ends with it ("the largest n is 34") and leaves no doubt (`doubt.py`).
"""

import re

from mars_env.grading.math.doubt import doubtful
from mars_env.grading.math.spelled import date, spelled_number, with_digits
from mars_env.grading.math.tokens import escape_money
from mars_env.grading.math.units import NOT_UNITS, known_unit
from mars_env.grading.math.vocabulary import CONCLUDES, RELATIVE

MATH_SPAN = re.compile(
    r"\$\$.{1,2000}?\$\$|(?<!\\)\$[^$\n]{1,2000}\$|\\\(.{1,2000}?\\\)|\\\[.{1,2000}?\\\]", re.DOTALL
)
NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?")
BOLD = re.compile(r"\*\*([^*\n]{1,200})\*\*")
_BOLDS = re.compile(r"\*\*([^*\n]{1,99})\*\*(,? (?:and|or) |, )\*\*(?=[^*\n]{1,99}\*\*)")
_DELIMITERS = (
    ("$$", "$$"),
    ("$", "$"),
    ("\\(", "\\)"),
    ("\\[", "\\]"),
    ("\\boldsymbol{", "}"),
    ('"', '"'),
    ("“", "”"),
)
_FULL_STOP = re.compile(r"(?<!\.\.)\.|(?<!\\)[,;]|。|(?<![\d)\\])!")
SENTENCE_END = re.compile(
    r"(?<!\bi\.e)(?<!\be\.g)(?<!\bMrs)(?<!\bM[rs])(?<!\bDr)(?:[.!]\)(?=\s+[A-Z])|[.!?](?=\s|\*|\Z)(?!\s*[=+×]))|[。！？]|\n|(?<=\d)\?"
)
_EXPLANATION = re.compile(
    r",?\s+(?:because|since|as|which|so|thus|hence|therefore)\s|,?\s+where\s(?!\s*\$?\\?[a-z]\b)|[✓✔✅]|，(?!\s*[\d$\\(-])"
    r"|[,;]\s+(?:the|but(?!\s+(?:I|we|my|our)\b)|although|however)\s",
    re.IGNORECASE,
)
_REMARK = re.compile(
    r",\s*(?:(?:not|rather than|(?:or )?(?:about|approximately|roughly))\s"
    r"|(?:(?:which|and (?:it|this)) (?:is |occurs ))?(?:attained|achieved|reached|(?<=occurs )at"
    r"|with equality|including(?=[^,]*\Z))\b"
    r"|which is (?:about|approximately|roughly)|(?:while|whereas)\s)[^$]*\Z"
    r"|,?\s+where\s+(?:000|[A-Z])\s+(?:is|denotes)\s[^,]*\Z|\s\((?:that\s+is|i\.e\.)[,\s][^()]{1,100}\)"
    r"|\s+is\s+(?:valid|admissible|the\s+(?:only|unique)\s+(?:such\s+\w+|solution|function|possibility|answer|one))[\s.]*\Z"
    r"|[;,]\s[^;,]*\b(?:discarded|rejected|extraneous|invalid|inadmissible)\b"
    r"(?:,?\s(?:since|because|as)\b.*)?[\s.]*\Z"
    r"|\s+for\s+(?:all|every|any|each)\s[^,=]*\Z|(?<=[\w$*)%]),?\s+(?:because|since)\s[^\n]*\Z"
    r"|(?:\*\*)?\s\((?!base\b|or\b)(?:≈|an? |[a-z][a-z.]|\d[^()]*[a-z]{2})[^()]{1,200}\)"
    r"(?=\s*(?:[,;.!*]|and\b|or\b|\Z))",
    re.IGNORECASE,
)
_AGAIN = re.compile(r"[\s*]*\(\d")
_MEASURED = re.compile(r"\d\S*(?: [A-Za-z]+){0,2}\Z")
_CHINESE_REST = re.compile(r"(?<=\d)\s?(?!平方|立方)(?![^\d]*[万亿百千以多左半])[\u4e00-\u9fff]{3,}\Z")
_LETTER_UNIT = re.compile(r"(?<=[\d⁰¹²³⁴⁵⁶⁷⁸⁹]) ([mgsLNJWVA])\Z")
_ADVERB = re.compile(
    r"(?:(?:therefore|thus|hence|then|simply|just|indeed|clearly|exactly|choice|option|equal[ ]to)"
    r"(?![A-Za-z])[\s,:]*|[：:]\s*)+",
    re.IGNORECASE,
)
_LINK = re.compile(
    r"\b(?:is|are|equals?|be)(?:\s+(?:therefore|thus|exactly|simply|then|just|equal\s+to|given\s+by|(?:located\s+)?at))*[\s:,*_]+"
    r"|\b(?:simplif(?:y|ies)|reduces?|evaluates?|amounts?|comes?|converges?|tends?)\s+to\s+"
    r"|\bfalls?\s+on\s+"
    r"|\bthere\s+(?:are|is)\s+(?:exactly\s+|only\s+)?|=\s*|(?<!\d)(?<!\d ):\s*|:(?![\d ])\s*"
    r"|\b(?:so|thus|hence|therefore|gives?|yields?|get|obtain|have|that|conclude|find)[\s,:]+(?=0)"
    r"|(?:[是为得故]|等于|所以|因此|最[大小]值)[\s,:、，]*(?=[\d$\\(\[-])",
    re.IGNORECASE,
)
"""What stands between the words of a sentence and its value."""
_NUMBER_OR = re.compile(r"[\d)}\]%°][\s$*,;.(]*(?:\bor(?! so\b| more\b| less\b)\b|或)[^\d]*\Z", re.IGNORECASE)
_QUANTITY = re.compile(
    r"(?<![\d:])\d{1,2}:[0-5]\d(?![\d:])(?:\s*[ap]\.?\s?m\b\.?)?"
    r"|(?<![A-Za-z0-9_.,^\\/√])[-−]?(?:\\?\$)?"
    r"(?:\d+ \d+(?=/)|\d+(?:,\d{3})*(?:\.\d+)?(?:√\d+)?|√\d+)(?:/\d+)?(?:\\?%)?"
    r"(?![A-Za-z\d_^/√π]|[.,:]\d)",
    re.IGNORECASE,
)
_WITH_PART = re.compile(r"\d+ ([a-z]+),? (?:and )?\Z")  # "2 hours and" before "24 minutes"
_COMMAND = re.compile(r"\\[A-Za-z]+\s*|[{}]")
_NO_VALUE = re.compile(r"[是为得即]|等于|\A[^\d]*[\u4e00-\u9fff][^\n]*\d")
_PRICED = re.compile(r"\d\D*(?!\b(?:and|or)\b)\b[A-Za-z]{2,}\s+\\?\s*[$€£]\s*\d")
_WORD = re.compile(r"[^\W\d_²³⁰¹⁴⁵⁶⁷⁸⁹]{2,}")


_WORDS_AFTER = re.compile(r"(?<=[\d%$)}])(?: (?!(?:and|or|but)\b)[A-Za-z]{2,}){1,6}(?: \$?[a-z]\$?)?\Z")


def undelimited(text: str) -> str:
    """A text without white space, emphasis, a full stop, and the delimiters around one whole formula."""
    while True:
        before = text
        text = text.strip().strip("*_`✓✔✅∎∴").removeprefix("\\therefore").strip()
        if _FULL_STOP.match(text, len(text) - 1):
            text = text[:-1]
        for left, right in _DELIMITERS:
            inner = text[len(left) : len(text) - len(right)]
            whole = inner and text.startswith(left) and text.endswith(right) and not inner.endswith("\\")
            if whole and left not in inner and right not in inner:
                text = inner
                break
        if text == before:
            return text


def is_value(text: str) -> bool:
    r"""Whether a text is a value and nothing else.

    Example:
        >>> [is_value(t) for t in ("34", "$x < 3$", "25 apples", "thirty-four", "B", "34 or 35")]
        [True, True, True, True, True, True]
        >>> [is_value(t) for t in ("not 34", "34 more than 5", "unique", "between 3 and 4")]
        [False, False, False, False]
    """
    if not text or len(text) > 400:
        return False
    if date(text):
        return True
    plain = re.sub(r"\b(?:square|cubic) (?=[a-z]{2})", "", _COMMAND.sub(" 0 ", MATH_SPAN.sub(" 0 ", text)))
    if CONCLUDES.search(plain) or _NO_VALUE.search(plain) or _PRICED.search(plain):
        return False
    words = [word.lower() for word in _WORD.findall(plain)]
    if spelled_number(" ".join(words)) is not None:
        return True
    if not re.search(r"\d|[π∞∅]|(?<![^\W_])[A-Za-z](?![^\W_])", plain):
        return False
    if words and not re.match(r"[\s(\[*_+\-−$€£\\]*(?:\d|[A-Z](?![^\W\d_])|[^\W\d_]\s*=)", plain):
        return False  # words that precede a number rather than follow it
    kept = [word for word in words if word not in ("and", "or")]
    return (
        len(kept) <= 3
        and not any(word in NOT_UNITS for word in kept)
        and not doubtful(re.sub(r"\bor\b|或", " ", plain, flags=re.IGNORECASE), beside_number=True)
    )


def clause(text: str) -> tuple[str, bool]:
    """The first sentence of a text without remarks, formulas kept whole, and whether it is a question."""
    text = text.lstrip(" \t\n*_:")
    if adverb := _ADVERB.match(text):
        text = text[adverb.end() :].lstrip(" \t\n*_:")
    stop = SENTENCE_END.search(hidden(text))
    kept = without_remarks(text[: stop.start()] if stop else text)
    aside = _EXPLANATION.search(hidden(kept))
    if aside and kept[: aside.start()].strip():
        kept = kept[: aside.start()]
    asked = stop is not None and stop.group() in "?？"
    return undelimited(kept), asked or kept.rstrip().endswith("吗")


def last_line(text: str) -> str:
    """The last line of a text, with the signs of money escaped."""
    line = text[text.rfind("\n") + 1 :].strip(" \t✓✔✅∎")
    return escape_money(_BOLDS.sub(r"**\1\2", line))


def last_sentence(line: str) -> str:
    """The last sentence of a line, with formulas kept whole."""
    stops = [match.end() for match in SENTENCE_END.finditer(hidden(line.rstrip(" .!。*_")))]
    return line[stops[-1] if stops else 0 :].strip()


def without_remarks(text: str) -> str:
    """A sentence without "(about 31%)", ", attained at ..." and ", not 35"."""
    for remark in reversed(list(_REMARK.finditer(hidden(text)))):
        again = _AGAIN.match(remark[0]) is None or _MEASURED.search(hidden(text[: remark.start()]))
        if remark.start() and again:
            text = text[: remark.start()] + "**" * remark[0].startswith("**") + text[remark.end() :]
    return text


def hidden(text: str) -> str:
    """A text with zeros in the place of its formulas."""
    return MATH_SPAN.sub(lambda match: "0" * len(match.group()), text)


def stated(sentence: str) -> str | None:
    """The value that a sentence states at its end; None if it states none, or with a doubt.

    Example:
        >>> stated("The largest $n$ is 34"), stated("it is not 34")
        ('34', None)
    """
    if is_value(written := with_digits(sentence)):
        return with_long_unit(written)
    if found := at_end(sentence):
        value, before, _ = found
        if not (doubtful(hidden(before)) or _NUMBER_OR.search(hidden(before))):
            return with_long_unit(value)
    return None


def at_end(clause: str) -> tuple[str, str, str] | None:
    """The value at the end of a clause, what stands before it, and what links them: "is", a sign."""
    for link in _LINK.finditer(hidden(clause)):
        value = undelimited(with_digits(undelimited(clause[link.end() :])))
        if is_value(value):
            return value, clause[: link.start()], link[0].strip()
    return None


def with_long_unit(value: str) -> str:
    """A number with a unit of several words (15 toy cars) as the parser reads it: without "12 cm *tall*"."""
    value = _LETTER_UNIT.sub(r"\\text{ \1}", _CHINESE_REST.sub("", value))
    number = measured(value)
    words = value[len(number) :].split()
    if not words or number[-1].isalpha() or number.endswith("%"):
        return number
    return rf"{number}\text{{ {' '.join(words)}}}" if len(words) > 1 else value


def last_number(sentence: str) -> tuple[str, str, str] | None:
    """The last number or formula of a sentence, after the words before it, and before those after it."""
    found = [*_QUANTITY.finditer(hidden(sentence))]
    if not found:
        return None
    start, end = found[-1].span()
    start = with_part(sentence, start)
    return sentence[:start], undelimited(sentence[start:end]), sentence[end:]


def with_part(sentence: str, start: int) -> int:
    """Where a number begins with its larger part: "2 hours and 24 minutes"."""
    more = _WITH_PART.search(sentence[:start])
    return more.start() if more and known_unit(more[1]) else start


def measured(text: str) -> str:
    """A text without words after its number, but for a unit of measurement: "12 cm" of "12 cm tall"."""
    found = _WORDS_AFTER.search(text)
    words = found[0].split() if found else []
    known = next((n for n in range(len(words), 0, -1) if known_unit(" ".join(words[:n]))), 0)
    return " ".join((text[: found.start()], *words[:known])) if found else text


def only_number(sentence: str) -> str | None:
    """The number in a sentence without doubt, if it has no other: 42 in "So Tom has 42 apples left"."""
    rest = MATH_SPAN.sub(" ", sentence).replace("*", " ")
    values = [undelimited(span.group()) for span in MATH_SPAN.finditer(sentence)]
    values += [number.group() for number in _QUANTITY.finditer(rest)]
    if len(values) != 1 or not re.search(r"\d", values[0]) or re.search(r"\d", _QUANTITY.sub(" ", rest)):
        return None
    doubt = doubtful(rest, beside_number=True) or RELATIVE.search(sentence.partition(values[0])[0])
    spelled = any(word != "one" and spelled_number(word) is not None for word in _WORD.findall(rest.lower()))
    return None if doubt or spelled or not is_value(values[0]) else values[0]
