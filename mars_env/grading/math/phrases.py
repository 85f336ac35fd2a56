r"""Finds sentences that state an answer, in English, French, German, Spanish and Chinese.

A *value* is a formula, a number with or without a unit, a list of these, or a single letter. A sentence
states a value if it ends with it ("the largest n is 34") and nothing in it revokes it ("not", "if", "maybe").
"""

from __future__ import annotations

import re
from collections.abc import Container
from typing import NamedTuple

from mars_env.grading.math.cues import Cue, cues, of_another_case, of_something_else, puts_right, supposed
from mars_env.grading.math.spelled import date, is_number_word, spelled_number
from mars_env.grading.math.tokens import escape_money
from mars_env.grading.math.units import NOT_UNITS

MATH_SPAN = re.compile(
    r"\$\$.{1,2000}?\$\$|(?<!\\)\$[^$\n]{1,2000}\$|\\\(.{1,2000}?\\\)|\\\[.{1,2000}?\\\]", re.DOTALL
)
_DISPLAY = re.compile(r"(?:\$\$(.{1,4000}?)\$\$|\\\[(.{1,4000}?)\\\])", re.DOTALL)
_REVERSED = re.compile(
    r"\s+(?:is|are)\s+(?:therefore\s+|thus\s+|indeed\s+)?(?:the|our|my|your)\s+"
    r"(?:(?:(?:final|correct|required|desired|only|unique|requested)\s+){0,2}(?:answers?|solutions?|results?)"
    r"|(?:only|unique)\s+(?:such\s+|possible\s+|valid\s+)?(?:integer|number|value|pair|triple|function|root))[\s.!*_]*\Z",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"(?<=[^\s\d])[.!?](?=\s|\*|\Z)|(?<=\d)[.!?](?=\s|\*|\Z)|[。！？]|\n|(?<=\d)\?")
_ASIDE = re.compile(
    r",?\s+(?:because|since|as|which|so|thus|hence|therefore|parce|car|weil|denn|porque|pues)\s"
    r"|,\s*(?:not|und nicht|pas|no)\s|,\s*or\s+(?:about|approximately|roughly)\s"
    r"|\s\((?!base\b)(?=[A-Za-z]{2}|i\.e|e\.g)|(?:\*\*)?\s*\((?=[\u3040-\u30ff\u4e00-\u9fff])|,?\s+where\s(?!\s*\$?\\?[a-z]\b)|[✓✔✅]|，(?!\s*[\d$\\(-])"
    r"|[,;]\s+(?:the|but(?!\s+(?:I|we|my|our)\b)|although|however)\s",
    re.IGNORECASE,
)
_CHARACTER = re.compile(
    r"\s\((?:the )?(?:constant|linear|identity|zero|trivial|double root|repeated)"
    r"(?: function| solution)?\)(?=\s*(?:,|;|and\b))"
)
"""A remark on an item of a list."""
_ADVERB = re.compile(
    r"(?:(?:therefore|thus|hence|then|simply|just|indeed|clearly|exactly|choice|option|equal[ ]to|donc|alors"
    r"|also|entonces)(?![A-Za-z])[\s,:]*|[：:]\s*)+",
    re.IGNORECASE,
)
_LINKS = re.compile(
    r"\b(?:is|are|equals?|be)(?:\s+(?:therefore|thus|exactly|simply|then|just|equal\s+to|given\s+by))*[\s:,*_]+|=\s*|(?<!\d):\s*|:(?!\d)\s*",
    re.IGNORECASE,
)
_SAME_NAME = re.compile(
    r"(?<![\w\\])(\w{1,6})\s*=[^=]{1,80}?(?:,|;|\b(?:and|or|et|ou|und|oder|y|o|и|или)\b|或|和)[\s,]*(?:also\s+)?\1\s*=\s*[^=]{1,80}\Z",
    re.IGNORECASE,
)
"""Two values of one name: ``x = 2 or x = -5``."""
_OR_ELSE = re.compile(
    r"[\d)}\]%°][\s$*,;.(]*(?:\bor(?! so\b| more\b| less\b| fewer\b| greater\b)|\b(?:ou|oder|o|или)|或)\b"
    r"[^\d]*\Z",
    re.IGNORECASE,
)
"""Before a value: a number and "or"."""
_IN_ALL = re.compile(r"\s+(?:in total|in all|altogether|overall)\Z", re.IGNORECASE)
_ONLY = re.compile(
    r"(?:\A|[,;]\s+|\b(?:so|thus|hence|therefore)\s+)only\s+(\S.{0,80}?)\s+(?:is\s+(?:valid|possible|acceptable|a\s+solution)"
    r"|works|remains|is\s+left)[\s.!*_]*\Z",
    re.IGNORECASE,
)
_LINK_AT_END = re.compile(r"\b(?:is|are|be|equals?)[\s:,*_]*\Z|[=:\s]+\Z", re.IGNORECASE)
_IS_AT_END = re.compile(r"\b(?:is|equals)\s+\Z", re.IGNORECASE)
_THERE = re.compile(r"there\s+(?:are|is)\s+(?:exactly\s+|only\s+)?", re.IGNORECASE)
_TAKEN_BACK = re.compile(
    r"n[’']t\b|\b(?:not|never|neither|nor|no|cannot|if|unless|whether|suppose|supposing|assume|assuming|either|or"
    r"|may|might|could|would|should|possibly|perhaps|maybe|probably|presumably|likely|unlikely|unsure|unclear"
    r"|doubt|guess|wrong|incorrect|impossible|about|approximately|roughly|less|more|most|least|between|than"
    r"|almost|nearly|around|too (?:small|large|big|low|high|few|many|much)"
    r"|wonder|know|fails?|except|unknown|false|pas|peut-être|environ|si|ou|nicht|vielleicht"
    r"|ungefähr|etwa|wenn|ob|oder|quizás?|tal[ ]vez|aproximadamente|casi|falls|mindestens|höchstens|moins"
    r"|plus|menos|más|не|или|если|около|примерно|приблизительно|может)\b|ではな|ません|または|かもしれ|不|或|可能|大约|如果|若|假设|是否|吗|约|至少|至多",
    re.IGNORECASE,
)
_DOUBTED = re.compile(
    r"n[’']t\b|\b(?:(?:do|does|did|can|could|would|am|are|is) not|cannot"
    r"|not (?:true|sure|clear|certain|correct|known|the)|never|neither|if|unless|whether"
    r"|suppos\w+|assum\w+|either|perhaps|maybe|possibly|probably"
    r"|presumably|unsure|unclear|doubt|guess|wrong|false|incorrect|impossible|unlikely|wonder"
    r"|(?:said|claimed|believed|thought|alleged|reported) to|(?:nicht|pas|si|wenn|ob|не|если|может)\b"
    r"|(?:may|might|could|would|should)\s*\Z)|ではな|ません|かもしれ|不|可能|也许|或许|大约|如果|若|假设|是否",
    re.IGNORECASE,
)
_IDLE = re.compile(
    r"(?:also\s+)?(?:unique|correct|right|clear|obvious|independent|consistent|verified|confirmed|valid|reasonable|positive|as\s+follows"
    r"|an?\s|the\s+same|in\s+the|well\b|plausible|always)",
    re.IGNORECASE,
)
_OPENER = re.compile(
    r"[\s*_>#-]*(?:therefore|thus|hence|so|consequently|accordingly|in\s+(?:conclusion|total|summary)|finally|we\s+conclude|it\s+follows|altogether"
    r"|ainsi|donc|also|daher|somit|por\s+lo\s+tanto|así)\b",
    re.IGNORECASE,
)
_THUS = re.compile(r"\b(?:is|are)\s+(?:thus|therefore|hence)\b", re.IGNORECASE)
_FOREIGN_OPENER = re.compile(
    r"\b(?:donc|por lo tanto|por tanto|entonces|en total|insgesamt|au total|damit|folglich|ergibt sich)\b"
    r"|\b(?:таким образом|следовательно|итого)\b|したがって|よって|ゆえに"
    r"|\b(?:es|er|sie|hat|haben|sind|ist|beträgt|betragen|kostet|bleib\w*)\b[^.]*\b(?:also|somit|daher|demnach)\b"
    r"|因此|所以|因而|综上|故|答:|一共|总共|共有|还剩",
    re.IGNORECASE,
)
_UNFINISHED = re.compile(
    r"\b(?:must|needs? to|ha(?:ve|s) to|let|let[’']s|next|consider\w*|check\w*|try\w*|continu\w*|proceed"
    r"|recall|know|first|steps?|cases?|digits?|equations?|problem|question|theorem|formula|above|solve|use|using|define|denote|write"
    r"|faut|doit|devons|cas|müssen|muss|fall|fälle|debe|debemos|hay que|caso|casos)\b"
    r"|考虑|检查|证明|情况|第|步|再|下面|接下来",
    re.IGNORECASE,
)
_HARMLESS = re.compile(r"不同|约数|(?<=\b(?:in|of) )May\b|(?<=\band )May\b")
"""Words that contain a doubtful character and no doubt."""
_NUMBER = re.compile(
    r"(?<![A-Za-z0-9_.,^\\/√])[-−]?(?:\\?\$)?(?:\d+(?:,\d{3})*(?:\.\d+)?(?:√\d+)?|√\d+)(?:/\d+)?(?:\\?%)?"
    r"(?![A-Za-z\d_^/√]|[.,:]\d)"
)
_ATTAINED = re.compile(r",\s+(?:which is )?(?:attained|achieved|reached|with equality)\b", re.IGNORECASE)
_LEAD_IN = re.compile(
    r"(?:\b(?:is|are|be|equals?|so|thus|hence|therefore|gives?|get|obtain|have|that|conclude|find)|[:=]|是|为|等于|所以|因此|故|得|よって)"
    r"\s*[,:、，]?\s*\Z",
    re.IGNORECASE,
)
_COMMAND = re.compile(r"\\[A-Za-z]+\s*|[{}]")
_WORD = re.compile(r"[^\W\d_]{2,}")
_JOINERS = {
    "and": "and", "or": "or", "et": "and", "ou": "or", "und": "and", "oder": "or", "y": "and", "o": "or",
}  # fmt: skip
_JOINED = re.compile(r"(?<=[\s$\d])(et|ou|und|oder|y|o)(?=\s)", re.IGNORECASE)
_EAST_ASIAN = re.compile("[\u3040-\u30ff\u4e00-\u9fff]|答:")
_CHINESE = re.compile("[\u4e00-\u9fff]+")
_DECIMAL_COMMA = re.compile(
    r"(?<![\d.,(\[{])(?<![(\[{][-−])(\d+(?=,(?:\d{1,2}|\d{4,})(?![\d,.]))|0),(?=\d+(?![\d,.]))", re.ASCII
)
_SPACED = re.compile(r"(?<![\d.,] )(?<![\d.,])\d{1,3}(?: \d{3})+(?![\d.,])", re.ASCII)
_COPULA = re.compile(r"(?:です|である|になります|となる|となります)\Z")
_THEN = re.compile(r"(?:[,;]\s+|\s)(?:and\s+)?(?:therefore|thus|hence|so)[\s,]+", re.IGNORECASE)
_TWICE = re.compile(r"([A-Za-z][A-Za-z -]{1,60}) \((\d{1,9})\)")
"""A number in words and in digits."""
_LISTED = re.compile(r"\s*(?:,|(?:,\s*)?(?:and|or|und|oder|et|ou|y|o))\s*", re.IGNORECASE)
_BOLD = re.compile(r"\*\*([^*\n]{1,200})\*\*")
_ROUNDED = re.compile(
    r"\b(?:about|approximately|roughly|etwa|ungefähr|environ|aproximadamente|circa)\s+(?=\*\*)", re.IGNORECASE
)
_EXPLAINS = re.compile(r"\b(?:since|because|although|though|but|however|while|when)\b", re.IGNORECASE)
_POWERS = re.compile(r"(?<=[\d*) ])(?:square|cubic)\s+(?=[a-z]{2})", re.IGNORECASE)
"""Before the name of a unit."""
_STEPS = re.compile(
    r"\b(?:so|thus|hence|therefore|then|since)\b|所以|因此|得|よって|したがって", re.IGNORECASE
)
"""Words between the steps of an argument, which is not one value."""
_TIME = re.compile(r"(?<![\d:])\d{1,2}:[0-5]\d(?![\d:])(?:\s*[ap]\.?\s?m\b\.?)?", re.IGNORECASE)
_SUM = re.compile(
    r"\d\s*[-+−×*/÷·]\s*\\?\$?\d[\d.,]*(?:\s[A-Za-z]{1,12})?\s*=\s*(\\?\$?\d[\d,]*(?:\.\d+)?%?)"
    r"(?:\s[A-Za-z'’, -]{1,80})?[.!]\Z"
)
"""A computation with its result, and words after it."""
_AND_BOLD = re.compile(r"\d\$?,?\s+(?:and|und|et|y)\s+\*\*", re.IGNORECASE)
_YES_OR_NO = frozenset(("yes", "no", "true", "false"))


class Statement(NamedTuple):
    """What a sentence states, and whether it is a value rather than words."""

    answer: str
    is_value: bool


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
    bare = MATH_SPAN.sub(" 0 ", text)
    bare = _POWERS.sub("", _COMMAND.sub(" 0 ", bare))
    if _STEPS.search(bare):
        return False
    said = [word.lower() for word in _WORD.findall(bare)]
    if said and all(is_number_word(word) for word in said):
        return True
    if not re.search(r"\d|[π∞∅]|(?<![^\W_])[A-Za-z](?![^\W_])", bare):
        return False
    leads = said and not (said[0] in _JOINERS and re.match(r"[^\W\d_]\s*=", bare))
    if leads and not re.match(r"[\s(\[*_+\-−$€£\\]*(?:\d|[A-Z](?![A-Za-z]))", bare):
        return False  # words that precede a number rather than follow it
    kept = [word for word in said if word not in _JOINERS and not _CHINESE.fullmatch(word)]
    return (
        len(kept) <= 3
        and not any(word in NOT_UNITS for word in kept)
        and not _TAKEN_BACK.search(re.sub(r"\b(?:or|ou|oder)\b|或", " ", bare, flags=re.IGNORECASE))
    )


def last_statement(text: str, quoted: Container[int], *, boxed: bool = False) -> Statement | None:
    """What the last "answer is ..." in a text states; None if there is none.

    A statement about another case ("for n = 1, the answer is 3") takes the place of no earlier answer, unless
    the text between them says that this was wrong.

    Args:
        text: A message.
        quoted: The positions that do not count (`Quotations`).
        boxed: Whether the text follows a box. Then only values count.
    """
    case: tuple[int, Statement] | None = None
    for end, start, cue in sorted(cues(text), key=lambda one: one[:2], reverse=True):
        if start in quoted or supposed(text, start):
            continue
        said = _said(text, start, end, cue)
        if said is None or ((boxed or case) and not said.is_value):
            continue
        if of_another_case(text, start):
            case = case or (start, said)
        else:
            return case[1] if case and puts_right(text[end : case[0]]) else said
    return case[1] if case and (not boxed or puts_right(text[: case[0]])) else None


def _said(text: str, start: int, end: int, cue: Cue) -> Statement | None:
    """What follows a cue; None for nothing, a question, or a remark about the answer."""
    answer, asked = clause(escape_money(text[end : end + 5000]))
    answer = _COPULA.sub("", answer).rstrip()
    if cue.decimal_comma:
        answer = _continental(answer)
        answer = _JOINED.sub(lambda match: _JOINERS[match[1].lower()], answer)
    if not answer or asked or _IDLE.match(answer):
        return None
    if answer.startswith("~") and text[end : end + 20].lstrip(" *_").startswith("~"):
        return Statement(rf"\approx {answer[1:]}", False)  # in prose it is not LaTeX's space
    value = stated(answer)
    if value is not None:
        return Statement(value, True)
    marked = text[start:end].rstrip().rstrip("*_ ").endswith((":", "】"))
    if marked and (number := only_number(f"So {answer}")):
        return Statement(number, False)
    bold = _BOLD.findall(text[end : end + len(answer) + 8])
    told = len(bold) == 1 and not _TAKEN_BACK.search(answer)
    return Statement(peel(bold[0]) if told else answer, False)


def clause(text: str) -> tuple[str, bool]:
    """The first sentence of a text, with formulas kept whole, and whether it is a question."""
    text = (
        _ADVERB.sub("", text.lstrip(" \t\n*_:"), count=1)
        if _ADVERB.match(text.lstrip(" \t\n*_:"))
        else text.lstrip(" \t\n*_:")
    )
    if display := _DISPLAY.match(text):
        return peel(display.group()), False
    kept, place, asked = "", 0, False
    while place < len(text):
        span = MATH_SPAN.search(text, place)
        stop = _SENTENCE_END.search(text, place)
        if span and (stop is None or span.start() < stop.start()):
            kept += text[place : span.end()]
            place = span.end()
            continue
        kept += text[place : stop.start() if stop else len(text)]
        asked = bool(stop) and stop.group() in "?？"  # type: ignore[union-attr]
        break
    kept = _CHARACTER.sub("", kept)
    aside = _ASIDE.search(MATH_SPAN.sub(lambda match: "0" * len(match.group()), kept))
    if aside and kept[: aside.start()].strip():
        kept = kept[: aside.start()]
    return peel(kept), asked or kept.rstrip().endswith("吗")


def stated(sentence: str) -> str | None:
    """The value that a sentence states; None if it states none or revokes it.

    Example:
        >>> stated("The largest $n$ is 34"), stated("there are exactly 34"), stated("it is not 34")
        ('34', '34', None)
    """
    sentence = _in_digits(sentence)
    if is_value(sentence):
        number = spelled_number(sentence.lower().replace("-", " ").removeprefix("a "))
        return sentence if number is None else str(number)
    sentence = _IN_ALL.sub("", sentence)
    hidden = MATH_SPAN.sub(lambda match: "0" * len(match.group()), sentence)
    starts = [match.end() for match in _LINKS.finditer(hidden)]
    if there := _THERE.match(hidden):
        starts.append(there.end())
    if several := _SAME_NAME.search(hidden):
        values = peel(sentence[several.start() :])
        return values if is_value(values) and not _doubted(hidden[: several.start()]) else None
    for start in starts[-1:]:
        value = _in_digits(peel(sentence[start:]))
        if is_value(value) and not _doubted(hidden[:start]) and not _OR_ELSE.search(hidden[:start]):
            return value
    if said := _REVERSED.search(hidden):
        before = sentence[: said.start()]
        if not _doubted(hidden[: said.start()]):
            return _last_value(before)
    return None


def _doubted(text: str) -> bool:
    """Whether a sentence, up to the value at its end, says that this may not be so."""
    text = _LINK_AT_END.sub("", text.replace("if and only if", " "))
    return bool(_DOUBTED.search(text))


def without_opener(text: str) -> str:
    """A sentence without "so", "therefore" and the like at its beginning."""
    return _OPENER.sub("", text, count=1).lstrip(" ,:")


def _in_digits(text: str) -> str:
    """A text that begins with "thirty-two (32)" with the digits alone."""
    twice = _TWICE.match(text)
    same = twice and spelled_number(twice[1].lower().replace("-", " ")) == int(twice[2])
    return twice[2] + text[twice.end() :] if twice and same else text


def leaves_doubt(words: str) -> bool:
    """Whether words beside a value revoke it, or announce work that is still to be done.

    Example:
        >>> leaves_doubt("there may be"), leaves_doubt("we must check"), leaves_doubt("the longer side")
        (True, True, False)
    """
    return bool(_TAKEN_BACK.search(_HARMLESS.sub("", words)) or _UNFINISHED.search(words))


def _last_value(text: str) -> str | None:
    """The formula or the number at the end of a text."""
    spans = list(MATH_SPAN.finditer(text))
    if spans and not text[spans[-1].end() :].strip(" *_"):
        return peel(spans[-1].group())
    number = re.search(
        r"(?<![^\s,:(*])(?:[-+]?\\?\$?\d[^\s$]{0,200}|\\[a-z]+\{.{0,200}|\([^()]{1,100}\))[*_]*\Z", text
    )
    return peel(number.group()) if number else None


def _continental(text: str) -> str:
    """Numbers as they are written on the continent, ``12 500`` and ``3,5``, in the English way."""
    return _DECIMAL_COMMA.sub(r"\1.", _SPACED.sub(lambda match: match.group().replace(" ", ""), text))


def concluded(sentence: str) -> str | None:
    """The value at the end of a text's last sentence, introduced by "is", "so", "therefore" or the like.

    One value in bold counts too, wherever it stands in the sentence.

    Example:
        >>> concluded("Adding up, there are **42** posts."), concluded("We get 2x = -6, therefore x = -3.")
        ('42', 'x = -3')
        >>> concluded("The solutions are $x = 5$ and $x = -3$.")
        '$x = 5$ and $x = -3$'
    """
    if (attained := _ATTAINED.search(sentence)) and sentence[: attained.start()].strip():
        sentence = sentence[: attained.start()] + "."
    ended = sentence.rstrip(" \t*_")[-1:] in (".", "!", "。")  # a number at a cut may lack digits
    opener = _FOREIGN_OPENER.search(sentence)
    continental = bool(opener) and not _EAST_ASIAN.search(opener.group())  # type: ignore[union-attr]
    if ended and (bold := _emphasised(_continental(sentence) if continental else sentence)):
        return bold
    sentence = sentence.replace("**", "").strip().rstrip(".!。 \t*_")
    if continental:
        sentence = _continental(sentence)
    hidden = MATH_SPAN.sub(lambda match: "0" * len(match.group()), sentence)
    only = None if _doubted(hidden) else _ONLY.search(sentence)
    if only and is_value(valid := peel(only[1])):
        return valid
    said = None if _doubted(hidden) else _REVERSED.search(hidden)
    if said:
        return _last_value(sentence[: said.start()])
    spans = list(MATH_SPAN.finditer(sentence))
    if spans and not sentence[spans[-1].end() :].strip(" .!*_"):
        lead = sentence[: spans[-1].start()].rstrip("*_ ")
        plain = not lead.strip() or _LEAD_IN.search(lead) or _OPENER.fullmatch(lead.rstrip(",: "))
        if plain:
            return None if _doubted(MATH_SPAN.sub(" ", lead)) else peel(spans[-1].group())
        start = _start_of_list(sentence, spans)
        lead = sentence[:start]
        if start < spans[-1].start() and _LINK_AT_END.search(lead):
            return None if _doubted(MATH_SPAN.sub(" ", lead)) else sentence[start:].strip(" .!*_")
    if ended and len(spans) == 1 and (value := _measured(sentence, spans[0])):
        return value
    if _OPENER.match(sentence) or _THUS.search(hidden):
        value = stated(without_opener(sentence))
        if value is not None:
            return value
    then = list(_THEN.finditer(hidden)) if ended else []
    if then and not _doubted(hidden[: then[-1].start()]) and not _UNFINISHED.search(hidden[then[-1].end() :]):
        value = stated(sentence[then[-1].end() :])
        if value is not None:
            return value
    if ended and (computed := _SUM.search(f"{sentence}.")) and sentence.count("=") == 1:
        return None if leaves_doubt(sentence) else computed[1]
    return only_number(sentence) if ended else None


def _measured(sentence: str, span: re.Match[str]) -> str | None:
    """The formula with a unit that follows "is" at the end of a sentence: "The width is $7$ cm"."""
    lead, value = sentence[: span.start()], sentence[span.start() :].strip(" *_")
    numbers = re.search(r"\d", span.group()), re.search(r"\d", sentence[span.end() :])
    if not _IS_AT_END.search(lead) or numbers[0] is None or numbers[1] is not None:
        return None
    doubted = _TAKEN_BACK.search(lead) or _UNFINISHED.search(sentence) or _EXPLAINS.search(sentence)
    return value if is_value(value) and not doubted else None


def _emphasised(sentence: str) -> str | None:
    """The one value in bold in a sentence that leaves no doubt, also yes and no; "about" rounds it."""
    rounded = bool(_ROUNDED.search(sentence))
    sentence = _ROUNDED.sub(" ", sentence)
    bold = _BOLD.findall(sentence)
    rest = _BOLD.sub(" ", _HARMLESS.sub("", sentence))
    if len(bold) != 1 or _AND_BOLD.search(sentence) or leaves_doubt(rest) or _EXPLAINS.search(rest):
        return None
    value = peel(bold[0])
    if is_value(value):
        return rf"\approx {value}" if rounded else value
    return value if value.lower() in _YES_OR_NO and not rounded else None


def _start_of_list(sentence: str, spans: list[re.Match[str]]) -> int:
    """Where the formulas start that end a sentence with commas, "and" or "or" between them."""
    first = len(spans) - 1
    while first and _LISTED.fullmatch(sentence, spans[first - 1].end(), spans[first].start()):
        first -= 1
    return spans[first].start()


def only_number(sentence: str) -> str | None:
    """The number in a sentence that draws a conclusion, if it has no other number and no doubt.

    Example:
        >>> only_number("So Tom has 42 apples left"), only_number("Il reste donc 42 pommes")
        ('42', '42')
        >>> only_number("Tom has 42 apples"), only_number("So Tom has 42 of the 50 apples")
        (None, None)
        >>> only_number("So Tom has less than 42 apples"), only_number("So we must check 42 cases")
        (None, None)
    """
    if not (_OPENER.match(sentence) or _FOREIGN_OPENER.search(sentence)):
        return None
    if _TAKEN_BACK.search(_HARMLESS.sub("", sentence)) or _UNFINISHED.search(sentence):
        return None
    values = [peel(span.group()) for span in MATH_SPAN.finditer(sentence)]
    rest = MATH_SPAN.sub(" ", sentence).replace("*", " ")
    values += [time.group() for time in _TIME.finditer(rest)]
    rest = _TIME.sub(" ", rest)
    values += [number.group() for number in _NUMBER.finditer(rest)]
    if len(values) != 1 or len(re.findall(r"\d+", _NUMBER.sub(" ", rest))) or not is_value(values[0]):
        return None
    if of_something_else(*sentence.partition(values[0])[::2]):
        return None
    said = [w for w in _WORD.findall(rest.lower()) if w != "one" and spelled_number(w) is not None]
    return None if said or not re.search(r"\d", values[0]) else values[0]


def last_sentence(line: str) -> str:
    """The last sentence of a line, with formulas kept whole."""
    hidden = MATH_SPAN.sub(lambda match: "0" * len(match.group()), line.rstrip(" .!。*_"))
    stops = [match.end() for match in _SENTENCE_END.finditer(hidden)]
    return line[stops[-1] if stops else 0 :].strip()


def peel(text: str) -> str:
    """Remove white space, emphasis, a full stop, and the delimiters around one whole formula."""
    while True:
        before = text
        text = text.strip().strip("*_`").strip()
        if (
            text.endswith((".", ",", ";", "。", "!"))
            and not text.endswith(("...", "\\,", "\\;", "\\!"))
            and not re.search(r"[\d)]!\Z", text)
        ):
            text = text[:-1]
        for left, right in (("$$", "$$"), ("$", "$"), ("\\(", "\\)"), ("\\[", "\\]"), ('"', '"'), ("“", "”")):
            if text.startswith(left) and text.endswith(right) and len(text) > len(left) + len(right) - 1:
                inner = text[len(left) : -len(right)]
                if left not in inner and right not in inner and not inner.endswith("\\"):
                    text = inner
                    break
        if text == before:
            return text
