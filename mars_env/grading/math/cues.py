"""The words that introduce an answer, "the answer is" and the like, and what stands before them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple


class Cue(NamedTuple):
    """A word that may introduce an answer: what must precede it, and what must follow it."""

    word: str
    before: re.Pattern[str] | None
    after: re.Pattern[str]
    decimal_comma: bool = False


def _cue(word: str, before: str, after: str, *, decimal_comma: bool = False) -> Cue:
    lead = re.compile(rf"(?:{before})\Z", re.IGNORECASE | re.MULTILINE) if before else None
    return Cue(word, lead, re.compile(after, re.IGNORECASE | re.DOTALL), decimal_comma)


_MARK = r"[ \t]*[*_]*[ \t]*[:=][ \t*_:】]*(?:\n\s*)?"
_PAUSE = r"[ \t*_:】]*(?:\n\s*)?"
_START = r"^[ \t*#_>【]*"
_FRENCH = r"\b(?:la|le) (?:bonne |seule )?"
_GERMAN = r"\b(?:die|das) (?:richtige |endgültige |gesuchte )?(?:end)?"
_SPANISH = r"\b(?:la|el) "
_CUES = [
    _cue(
        "answer",
        r"(?<![^\W_])",
        rf"answers?\b(?:[^.:=\n$\\]{{0,60}}?\b(?:is|are|equals?|(?:must|should) be)\b{_PAUSE}|{_MARK}"
        r"|[ \t*_:]*\n\s*)",
    ),
    _cue("answer", rf"{_START}(?:final[ \t]+)?", r"answer[ \t*_]+(?=[$\d\\(+-])"),
    _cue("result", r"\b(?:final|end)[ \t]+", rf"results?(?:[ \t]+(?:is|equals)\b{_PAUSE}|{_MARK})"),
    _cue("result", _START, rf"results?{_MARK}"),
    _cue("solution", _START, rf"solutions?{_MARK}"),
    _cue("option", r"\b(?:correct|right)[ \t]+", rf"option(?:[ \t]+is\b{_PAUSE}|{_MARK})"),
    _cue("choice", r"\b(?:correct|right)[ \t]+", rf"choice(?:[ \t]+is\b{_PAUSE}|{_MARK})"),
    *(
        _cue(word, before, after, decimal_comma=True)
        for names, articles, after in (
            (
                ("réponse", "reponse", "solution", "résultat"),
                _FRENCH,
                rf"\w+(?: finale?| correcte?| cherchée?)?(?: à [^.:\n]{{1,40}}?)? est\b{_PAUSE}",
            ),
            (
                ("antwort", "ergebnis", "lösung"),
                _GERMAN,
                rf"\w+(?: auf [^.:\n]{{1,40}}?)? (?:ist|lautet|beträgt)\b{_PAUSE}",
            ),
            (
                ("respuesta", "resultado", "solución"),
                _SPANISH,
                rf"\w+(?: final| correct[ao])?(?: a [^.:\n]{{1,40}}?)? es\b{_PAUSE}",
            ),
        )
        for word, before, after in ((name, articles, after) for name in names)
    ),
    *(
        _cue(
            word,
            r"(?<![^\W_])(?:end|endgültige )?",
            rf"\w+(?: finale?| correct[ao])?{_MARK}",
            decimal_comma=True,
        )
        for word in ("réponse", "reponse", "antwort", "ergebnis", "lösung", "respuesta")
    ),
    *(
        _cue(word, r"(?<![^\W_])", rf"{word}(?: finale?| correct[ao]| końcowa)?{_MARK}", decimal_comma=comma)
        for word, comma in (
            ("odpowiedź", True),
            ("risposta", True),
            ("resposta", True),
            ("cevap", True),
            ("उत्तर", False),
            ("정답", False),
        )
    ),
    _cue("ответ", r"(?<![^\W_])", rf"ответ\w{{0,2}}(?:{_MARK}|[ \t]*[–—-][ \t]*)", decimal_comma=True),
    _cue("答え", "", rf"答え(?:は|:){_PAUSE}"),
    _cue("答案", "", rf"答案(?:(?:应该|应|就)?(?:是|为|等于){_PAUSE}|{_MARK}|】{_PAUSE})"),
    _cue("结果", "", rf"结果(?:应该|应|就)?(?:是|为|等于){_PAUSE}"),
    _cue("答:", r"^|[\n。]", rf"答:{_PAUSE}"),
    _cue("选", r"(?<!可)", r"选项?[ :]*(?=[ (]*[A-J]{1,6}(?![A-Za-z]))"),
]
_ASCII_CUES = [cue for cue in _CUES if cue.word.isascii()]
_MOST_CUES = 12  # for each word, from the end of the text
_SUPPOSED = re.compile(
    r"n[’']t\b|\b(?:not|never|if|unless|whether|suppose|supposing|assume|assuming|unsure|unclear|doubt|wonder|might|could|would"
    r"|pretend|imagine|hope|wish|claim\w*|says?|said|told|asks?|thinks|thought|believes|guess\w*|false|si|wenn|falls|ob|не|если)\b"
    r"|\b(?:or|oder|ou|или)\s+(?:(?:the|my|our|die|das|la)\s+)?(?:final\s+|correct\s+)?\Z"
    r"|\b(?:check|verif|confirm|test)\w*\s+(?:(?:the|our|my|this|that)\s+)?(?:final\s+)?\Z"
    r"|\b(?:wrong|incorrect|common|mistaken|tempting|alternative|reference|official|possible|another|previous|initial|naive|student[’']s)\s+\Z"
    r"|不|如果|若|假设|是否",
    re.IGNORECASE,
)
_VARIABLE = r"\$?\\?[a-z](?:_\w)?(?:\$|\b)"
_CASE = re.compile(
    rf"\b(?:if|wenn|falls|si)\b(?!\s+(?:we|you|i|one|\w+ed)\b)|\bwhen(?:ever)?\s+(?:{_VARIABLE}|instead\b)"
    rf"|\b(?:for|with|at|taking|setting|pour|für|para)\s+(?:{_VARIABLE}\s*(?:=|<|>|≤|≥|\\[lg]eq?\b|\\in\b)|(?:general|arbitrary|any|all"
    rf"|every|each)\s+{_VARIABLE}|(?:comparison|example|instance)\b|the\s+(?:general|special|smaller)\b|small\w*\b)"
    r"|\bin\s+(?:general|decimals?|the\s+(?:general|special)\s+case)\b|\bas\s+an?\s+(?:decimal|approximation)\b|\bnumerically\b"
    r"|如果|若|当",
    re.IGNORECASE,
)
"""A condition, or another way of writing a value."""
_CONCLUDES = re.compile(
    r"\b(?:so|thus|hence|therefore|consequently|finally|conclu\w+)\b|\b(?:final|correct|right|actual|true)[\s*_]+\Z|因此|所以",
    re.IGNORECASE,
)
_PUTS_RIGHT = re.compile(
    r"\b(?:wait|actually|mistake\w*|correct(?:ion|ed|ing)|wrong|incorrect|errors?|oops|sorry|apologi\w+|misread"
    r"|misunder\w+|miscount\w*|overlooked|forgot\w*|recount\w*|revis\w+"
    r"|(?:not|cannot|can[’']t) (?:be|right|correct)|too (?:small|large))\b|错|不对",
    re.IGNORECASE,
)
_RELATIVE = re.compile(
    r"(?:\b(?:multiples?|factors?|divisors?|powers?|half|twice|double|third|quarter|square|cube|root|remainder)\s+of"
    r"|\b(?:divisible|divided|multiplied)\s+by|\bcongruent\s+to|\b(?:ends?|ending)\s+in|\bbase|\bcoprime\s+(?:to|with)"
    r"|\bexceeds?)[\s$*(]*\Z",
    re.IGNORECASE,
)
"""Before a number that is not the value of anything."""
_LIMITED = re.compile(r"\b(?:when(?:ever)?|provided|as\s+long\s+as)\b", re.IGNORECASE)
_STOP = re.compile(r"[.!?](?=\s)|[\n。！？]")


def cues(text: str) -> Iterator[tuple[int, int, Cue]]:
    """End, start and kind of the last cues of each kind."""
    lower = text.lower()
    if len(lower) != len(text):
        lower = text
    for cue in _ASCII_CUES if text.isascii() else _CUES:
        place = len(text)
        for _ in range(_MOST_CUES):
            place = lower.rfind(cue.word, 0, place)
            if place < 0:
                break
            start = place
            if cue.before is not None:
                lead = cue.before.search(text, max(0, place - 60), place)
                if lead is None:
                    continue
                start = lead.start()
            if match := cue.after.match(text, place):
                yield match.end(), start, cue


def supposed(text: str, place: int) -> bool:
    """Whether the clause before a cue only supposes, denies or reports it."""
    before = text[max(0, place - 200) : place]
    before = re.split(r"[.;!?:\n，。；]|,(?!\s*(?:that|dass|que)\b)", before)[-1]
    return bool(_SUPPOSED.search(before))


def of_another_case(text: str, place: int) -> bool:
    """Whether the sentence before a cue states a condition, or another form, and draws no conclusion.

    Example:
        >>> says = "Check: for n = 1, ", "So for n = 1, ", "If repetition were allowed, ", "If we add up, "
        >>> [of_another_case(lead + "the answer is 3", len(lead) + 4) for lead in says]
        [True, False, True, False]
    """
    before = _STOP.split(text[max(0, place - 200) : place])[-1]
    return bool(_CASE.search(before)) and not _CONCLUDES.search(before)


def puts_right(text: str) -> bool:
    """Whether a text says that what came before it was wrong."""
    return bool(_PUTS_RIGHT.search(text))


def of_something_else(before: str, after: str) -> bool:
    """Whether the words around a number say that it is not the value itself, or only in some cases.

    Example:
        >>> of_something_else("So n is a multiple of ", ""), of_something_else("So n is ", " when m is odd")
        (True, True)
        >>> of_something_else("So there is a total of ", " ways")
        False
    """
    return bool(_RELATIVE.search(before) or _LIMITED.search(after))
