r"""The English and Chinese words around an answer: what introduces it, casts doubt on it, or replaces it."""

import re


def _any_of(english: str, anywhere: str = "") -> re.Pattern[str]:
    """One pattern for whole words (``~`` stands for a space), and others that match anywhere."""
    words = "|".join(english.split()).replace("~", r"\s+")
    others = "".join(f"|{word}" for word in anywhere.split())
    return re.compile(rf"\b(?:{words})\b{others}", re.IGNORECASE)


_PAUSE = r"[ \t*_:】]*(?:\n\s*)?"
_COLON = r"[ \t]*[*_]*[ \t]*[:=][ \t*_:】]*(?:\n\s*)?"
MARKER = re.compile(
    r"(?<![^\W_])answers?\b"
    rf"(?:[^.:=\n$\\]{{0,60}}?\b(?:is|are|equals?|(?:must|should)\ be)\b{_PAUSE}|{_COLON}|[ \t*_:]*\n\s*)"
    r"|^[ \t*#_>]*(?:final[ \t]+)?answer[ \t*_]+(?=[$\d\\(+-])"
    rf"|\b(?:final|end)[ \t]+results?(?:[ \t]+(?:is|equals)\b{_PAUSE}|{_COLON})"
    rf"|^[ \t*#_>]*(?:results?|solutions?){_COLON}(?<!\n)(?=\S)"
    rf"|\b(?:correct|right)[ \t]+(?:option|choice|number|value|total)(?:[ \t]+is\b{_PAUSE}|{_COLON})"
    rf"|\brequested[ \t]+\w+[ \t]+(?:is|equals)\b{_PAUSE}"
    r"|(?<![^\s.])\#{4}[ \t]+(?=\S)"
    rf"|(?:答案|结果)(?:(?:应该|应|就)?(?:是|为|等于){_PAUSE}|{_COLON}|】{_PAUSE})"
    r"|(?<!可)选项?[ :]*(?:[是为][ :]*)?(?=[ (*]*[A-J]{1,6}(?![A-Za-z]))",
    re.IGNORECASE | re.MULTILINE,
)
"""What introduces a final answer: "the answer is", "Answer:", "####", "答案是"."""
MARKER_WORDS = ("answer", "result", "solution", "correct", "right", "requested", "####", "答案", "结果", "选")
"""A text without any of these has no marker, which is found out much faster."""

CONCLUSION = re.compile(
    r"[\s*_>#-]*(?:(?:therefore|thus|hence|so(?!\s+far)|consequently|in\s+(?:conclusion|total|all)|finally|altogether|overall|as\s+a\s+result"
    r"|we\s+conclude|it\s+follows)\b|.*?(?:因此|所以|综上|故|一共|总共|共有|还剩|答:))",
    re.IGNORECASE,
)
"""What opens a sentence that concludes."""

DOUBT = _any_of(
    r"""(?:do|does|did|can|could|would|am|are|is)~not cannot never neither nor
    not~(?:true|sure|clear|certain|correct|known|the)
    if unless whether suppos\w+ assum\w+ either perhaps maybe possibly probably presumably
    unsure unclear unknown doubt guess\w* wonder wrong false incorrect impossible unlikely fails?
    (?:may|might|could|would|should)(?=\s*\Z) pretend imagine hope wish
    claim\w* says? said told asks? thinks thought believe[sd]? alleged reported
    contradict\w* violat\w+ except try let (?:we|I)~(?:must(?!~have)|need~to|have~to)
    mistake\w* error slip trap remarks? comparison reference hint tempting (?:upper|lower)~bound
    first~sight starts?~with remains?~to conjectur\w+""",
    r"n[’']t\b 不(?![同等]) 约(?!数) 可能 也许 或许 大约 大概 如果 若 假设 是否 吗",
)
"""Words in a sentence that mean that its answer may not be the answer."""

BOUND = _any_of(
    r"""not or about approximately roughly almost nearly around less more least most between than
    would should may might could likely too~(?:small|large|big|low|high|few|many|much)
    must (?:we|I)~(?:need~to|have~to) let next consider\w* check\w* try\w* continu\w* recall know first steps?
    cases? digits? equations? problem question theorem formula above solve use using define denote write
    before although though but however while when(?:ever)? provided as~long~as""",
    "至少 至多 或 考虑 检查 证明 情况 第 步 再 下面",
)
"""Words beside a number that limit it, or that announce work, so that it need not be an answer."""

_NO_LENGTH = "areas? volumes? perimeters? circumferences? angles? probabilit(?:y|ies)"
NO_LENGTH = _any_of(_NO_LENGTH)
MEASURE = _any_of(
    f"{_NO_LENGTH} radi(?:us|i) diameters? slopes? lengths? distances? averages? means? medians?"
)
"""What a value may measure, and of these what no segment has."""

RELATIVE = re.compile(
    r"\b(?:(?:multiples?|factors?|divisors?|powers?|half|twice|double|third|quarter|square|cube|root|remainder)\s+of"
    r"|(?:divisible|divided|multiplied)\s+by|congruent\s+to|(?:ends?|ending)\s+in|base|coprime\s+(?:to|with)|exceeds?"
    r"|(?:attained|achieved|reached|occurs?)\s+(?:at|for|when))"
    r"[\s$*(]*\Z",
    re.IGNORECASE,
)
"""Before a number that is not the value of anything."""

NOT_MINE = re.compile(
    r"\b(?:or\s+(?:(?:the|my|our)\s+)?(?:final\s+|correct\s+)?"
    r"|(?:check|verif|confirm|test)\w*\s+(?:(?:the|our|my|this|that)\s+)?(?:final\s+)?"
    r"|(?:wrong|incorrect|old|your|common|mistaken|tempting|alternative|reference|official|possible|another|previous"
    r"|initial|naive|closest|[a-z]+[’']s)\s+|(?:not|might|could|would)\b.*)\Z",
    re.IGNORECASE,
)
"""In the clause before a marker: it speaks of another answer."""

OTHER_CASE = re.compile(
    r"\b(?:if|when(?:ever)?)\b(?!\s+(?:we|you|i|one|\w+ed|\w+ing)\b)|\b(?:assum\w+|granted|under|naively|at\s+first)\b"
    r"|\b(?:for|with|at|taking|setting)\s+(?:\$?\\?[a-z](?:_\w)?\s*(?:=|<|>|≤|≥|\\[lg]eq?\b|\\in\b)"
    r"|(?:general|arbitrary|any|all|every|each)\s+\$?[a-z](?:\$|\b)|(?:comparison|example|instance|the\s+general)\b|small\w*\b)"
    r"|\bin\s+(?:general|decimals?|the\s+case)\b|\bwithout\b|\bas\s+an?\s+(?:decimal|approximation)\b|\bnumerically\b|如果|若|当",
    re.IGNORECASE,
)
"""A condition, or another way of writing a value."""
CONCLUDES = _any_of(
    r"""so(?!\s+far) thus hence therefore consequently finally conclu\w+
    (?:final|correct|right|actual)(?=[\s*_]+\Z)""",
    "因此 所以 答:",
)

CORRECTION = _any_of(
    r"""wait actually mistake\w* correct(?:ion|ed|ing) wrong incorrect errors? oops sorry apologi\w+ misread
    misunder\w+ miscount\w* overlooked forgot\w* recount\w* revis\w+ (?:on|upon)~reflection double~count\w*
    (?:not|cannot|can[’']t)~(?:be|right|correct) too~(?:small|large|big) leave~(?:it|this)~open
    (?:this|that|it)~is~(?:false|untrue|not~true)""",
    "错 不对",
)
"""Words that mean that what came before them was wrong."""
WITHDRAWAL = _any_of(
    r"""I~(?:hereby~|must~|have~to~)?(?:withdraw|retract|take~(?:it|this|that)~back)
    (?:disregard|ignore)~(?:the|this|that|my)~(?:above~|previous~|boxed~)?(?:answer|box)"""
)

DENIED_BEFORE = re.compile(
    r"(?:\b(?:can)?not(?: be| equal(?: to)?)?|n[’']t(?: be| equal(?: to)?)?"
    r"|\b(?:wrong|incorrect) (?:answer|value|result)s?(?: is| was)?"
    r"|\b(?:rather|other) than|\binstead of|\\neq?|≠|\\not ?=|\bnever(?: be)?|\bneither|不是|不等于)"
    r"[\s$*:(]*(?:\\[(\[,;]\s*)?\Z",
    re.IGNORECASE,
)
DENIED_AFTER = re.compile(
    r"[\s$*)\].\\]{0,12}(?:(?:is|was|would be) (?:wrong|incorrect|impossible|invalid|too \w+"
    r"|not (?=the|our|my|correct|right))|fails\b|does(?: not|n[’']t) (?:work|fit|hold|satisfy)"
    r"|(?:isn[’']t|can[’']t be|cannot be) (?=the|our|my|correct|right)"
    r"|[^.\n]{0,20}(?:\.\.\.|…)\s*no\b)",
    re.IGNORECASE,
)
"""Right before and right after a box: it is what the answer is not."""

LABEL = re.compile(
    r"(?:the |an? )?(?:[xy]-|vertical |horizontal )?(?:cent(?:er|re)|radius|vert(?:ex|ices)|foc(?:us|i)"
    r"|directrix|max(?:imum)?|min(?:imum)?|mean|median|mode|range|domain|period|amplitude|limit|quotient|remainder|slope"
    r"|area|length|width|height|line|asymptote|point|midpoint|intercept|interval|solution|eigenvalue)s?"
    r"(?: value)?(?: is| are| at|)\Z",
    re.IGNORECASE,
)
"""The name of a value that follows."""
