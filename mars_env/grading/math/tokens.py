"""The lexical part of reading mathematical notation: tidies a text and cuts it into tokens."""

import re
import unicodedata
from collections.abc import Callable
from typing import NamedTuple

from mars_env.grading.math.nodes import TRIGONOMETRY, OverLimit, Unreadable, word_set
from mars_env.grading.math.spelled import in_digits

MAX_LENGTH = 10_000  # characters of a text that is read


def _look_alikes() -> dict[int, str]:
    """Full-width forms, mathematical letters, digits of four other scripts, spaces, invisible characters."""
    table: dict[int, str] = dict.fromkeys(
        (0x00AD, 0x200B, 0x200C, 0x200D, 0x200E, 0x200F, 0x2060, 0x2061, 0xFEFF), ""
    )
    table.update(dict.fromkeys((0x00A0, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000), " "))
    table.update({0x2044: "/", 0x2062: r"\cdot ", 0x2063: ",", 0x2064: "+", 0x210E: "h"})
    table.update({code: chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)})
    for zero in (0x0660, 0x06F0, 0x0966, 0x09E6):  # Arabic-Indic (twice), Devanagari, Bengali
        table.update({zero + digit: str(digit) for digit in range(10)})
    table.update({code: unicodedata.normalize("NFKC", chr(code)) for code in range(0x1D400, 0x1D800)})
    return table


_LOOK_ALIKES = _look_alikes()


def as_ascii(text: str) -> str:
    r"""The text with such characters replaced.

    Example:
        >>> as_ascii("ｘ＝２５\u200b％"), as_ascii("𝑥 = 𝟐𝟓"), as_ascii("٢٥ √2")
        ('x=25%', 'x = 25', '25 √2')
    """
    return text if text.isascii() else text.translate(_LOOK_ALIKES)


UNICODE = {
    "−": "-", "–": "-", "—": "-", "×": r"\times ", "÷": r"\div ", "·": r"\cdot ", "⋅": r"\cdot ", "∗": "*",
    "π": r"\pi ", "∞": r"\infty ", "≤": r"\le ", "≥": r"\ge ", "≠": r"\ne ", "≈": r"\approx ",
    "≡": r"\equiv ", "∪": r"\cup ", "∩": r"\cap ", "∖": r"\setminus ", "∈": r"\in ", "∅": r"\emptyset ",
    "±": r"\pm ", "∓": r"\mp ", "°": r"^\circ ", "…": r"\ldots ", "⋯": r"\ldots ", "√": r"\sqrt ",
    "ℝ": r"\mathbb{R}", "ℤ": r"\mathbb{Z}", "½": r"\frac{1}{2}", "⅓": r"\frac{1}{3}", "⅔": r"\frac{2}{3}",
    "¼": r"\frac{1}{4}", "¾": r"\frac{3}{4}", "θ": r"\theta ",
    "α": r"\alpha ", "β": r"\beta ", "γ": r"\gamma ", "λ": r"\lambda ", "φ": r"\phi ", "ω": r"\omega ",
    "μ": r"\mu ", "∠": r"\angle ", "△": r"\triangle ", "⟨": r"\langle ", "⟩": r"\rangle ", "⌊": r"\lfloor ",
    "⌋": r"\rfloor ", "⌈": r"\lceil ", "⌉": r"\rceil ", "’": "'", "′": "'", "€": r"\euro ", "£": r"\pounds ",
    "¥": r"\yen ", "￥": r"\yen ", "₹": r"\rupee ",
    "、": ",", "。": ".", "和": r"\text{ and }", "与": r"\text{ and }", "且": r"\text{ and }",
    "或者": r"\text{ or }", "或": r"\text{ or }", "无解": r"\text{no solution}",
}  # fmt: skip
_UNICODE = re.compile("|".join(map(re.escape, UNICODE)))
_RAISED = re.compile("([⁺⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)|[₀₁₂₃₄₅₆₇₈₉]+")
_ON_THE_LINE = str.maketrans("⁺⁻⁰¹²³⁴⁵⁶⁷⁸⁹₀₁₂₃₄₅₆₇₈₉", "+-01234567890123456789")
CHINESE_UNITS = {
    "平方厘米": "cm^2", "平方米": "m^2", "立方厘米": "cm^3", "立方米": "m^3", "厘米": "cm", "毫米": "mm",
    "千米/小时": "km/h", "千米/时": "km/h", "米/秒": "m/s", "千米": "km", "公里": "km",
    "米": "m", "吨": "tonne", "千克": "kg", "公斤": "kg", "毫升": "ml", "升": "liter",
    "克": "g", "小时": "hours", "分钟": "minutes", "秒": "seconds", "天": "days", "年": "years",
    "岁": "years", "美元": "dollars", "万元": "wanyuan", "元": "yuan", "度": "degrees",
    **dict.fromkeys("个只人种次本张条块页名辆棵颗件位支枝根枚双朵头杯盒箱袋组层间份步圈项", "units"),
}  # fmt: skip
_CHINESE_UNIT = re.compile(
    rf"(?<=[0-9}}\s)])(?:\\text\s*\{{)?\s*\(?({'|'.join(CHINESE_UNITS)})\)?(?![\u4e00-\u9fff])\s*\}}?"
)
SPACING = word_set(
    r"\, \! \; \: \> \  \quad \qquad \left \right \middle \displaystyle \textstyle \limits \nolimits \hfill"
    r" \thinspace \big \Big \bigg \Bigg \bigl \bigr \Bigl \Bigr \biggl"
    r" \biggr \Biggl \Biggr \mathopen \mathclose \nobreak"
) | {"\\ ", "~", "\\\n"}
_SYMBOL_FONTS = word_set(r"\mathrm \operatorname \mathbf \mathit \mathsf \boldsymbol \bm")
_BOLD = word_set(r"\mathbf \boldsymbol \bm")
_LETTER = re.compile(r"\{[A-Za-z]\}")
_ALIASES = {
    r"\dfrac": r"\frac", r"\tfrac": r"\frac", r"\sfrac": r"\frac",
    r"\nicefrac": r"\frac", r"\cfrac": r"\frac", r"\dbinom": r"\binom",
    r"\tbinom": r"\binom", r"\leq": r"\le", r"\leqslant": r"\le", r"\geq": r"\ge", r"\geqslant": r"\ge",
    r"\neq": r"\ne", "*": r"\cdot", r"\ast": r"\cdot", r"\cdotp": r"\cdot", "/": r"\div",
    r"\dots": r"\ldots", r"\cdots": r"\ldots", "...": r"\ldots", r"\dotsc": r"\ldots", r"\dotsb": r"\ldots",
    r"\land": "and", r"\lor": "or", r"\wedge": "and", r"\vee": "or", r"\lt": "<", r"\gt": ">", "<=": r"\le",
    ">=": r"\ge", "!=": r"\ne", r"\varnothing": r"\emptyset", r"\backslash": r"\setminus",
    r"\lbrace": r"\{", r"\rbrace": r"\}", r"\lvert": "|", r"\rvert": "|", r"\vert": "|", r"\mid": "|",
    r"\lparen": "(", r"\rparen": ")", r"\lbrack": "[", r"\rbrack": "]", r"\degree": r"\circ",
    r"\simeq": r"\approx", r"\%": "%", r"\infin": r"\infty", r"\varphi": r"\phi",
    r"\varepsilon": r"\epsilon", r"\colon": ":", r"\bigcup": r"\cup", r"\bigcap": r"\cap",
    r"\to": r"\rightarrow", r"\R": r"\RR", "**": "^", r"\tg": r"\tan", r"\arctg": r"\arctan",
    r"\ctg": r"\cot", "$": r"\$", r"\textdollar": r"\$",
}  # fmt: skip
FUNCTIONS = TRIGONOMETRY | word_set("ln log lg exp gcd lcm max min sqrt abs floor ceil binom")
_WORD_COMMANDS = FUNCTIONS | {"pi", "infty", "theta", "alpha", "beta", "gamma", "lambda", "cup"}
SHORT_WORDS = word_set("for if no yes odd red not the one two six ten all any may per old to")
RAW_UNITS = word_set(
    "cm mm km ft kg mg ml mi in hr hrs min sec mph rad deg yd lb lbs oz kph meters metres"
    " feet inches hours minutes pct kJ kW kN kV Hz mol"
)

_TOKEN = re.compile(
    r"""(?P<space>\s+)
    |(?P<repeat>[0-9]*\.[0-9]*\\(?:overline|bar|dot|overset\{\.\})\s*(?:\{[0-9]+\}|[0-9]))
    |(?P<based>(?=[0-9]*[A-F]+[0-9]|[0-9]+[A-F])[0-9A-F]+_\{?(?:1[1-9]|2[0-9]|3[0-6])\}?(?![0-9]))
    |(?P<science>[0-9]+(?:\.[0-9]+)?[eE][+-]?[0-9]{1,6}(?![0-9A-Za-z]))
    |(?P<grouped>[1-9][0-9]{0,2}
        (?:(?:\{\s*,\s*\}|,\\!|\\[,;:!\ ]|\{\\,\}|~)\s*[0-9]{3}(?![0-9]))+(?:\.[0-9]+)?)
    |(?P<commas>[1-9][0-9]{0,2}(?:,[0-9]{3})+(?![0-9])(?:\.[0-9]+)?)
    |(?P<spaced>[1-9][0-9]{0,2}(?:\ [0-9]{3})+(?![0-9/])(?:\.[0-9]+)?)
    |(?P<num>[0-9]+\.[0-9]+|\.[0-9]+|[0-9]+(?:\.(?![.0-9]))?)
    |(?P<wrap>\\(?:text(?:bf|it|rm|sf|tt|normal|up)?|emph|mbox|hbox|math(?:rm|bf|it|sf|bb|cal|scr)|operatorname\*?|boldsymbol|bm|underline)\s*\{)
    |(?P<env>\\(?:begin|end)\s*\{[A-Za-z]+\*?\}(?:(?<=array\})\s*\{[lcr|\s]*\})?)
    |(?P<cmd>\\[A-Za-z]+|\\.)
    |(?P<word>[A-Za-z]+)
    |(?P<op>\.\.\.|<=|>=|!=|\*\*|[-+*/^_=<>(){}\[\]|,;:!'%~&$?\"`@#.])
    """,
    re.VERBOSE | re.DOTALL,
)
_TEXT_WORD = re.compile(r"(?:[ap]\.\ ?m\.?|[A-Za-z]+(?:['’\-][A-Za-z]+)*(?:/[A-Za-z]+)*)\.?")
_BARE_DOLLAR = re.compile(r"(?<!\\)\$")
_SYSTEM = re.compile(
    r"\\left\s*\\(?:\{|lbrace)\s*\\begin\s*\{(array|aligned|matrix|gathered)\}(?:\s*\{[lcr| ]{1,9}\})?"
    r"(.{1,2000}?)"
    r"\\end\s*\{\1\}\s*\\right\s*\.",
    re.DOTALL,
)
_MODULO = re.compile(
    r"\(\s*(?:\\b?mod|\\(?:text|mathrm)\s*\{\s*mod\s*\}|mod)(?:\\[ ,;])?\s*([0-9]{1,9})\s*\)"
    r"|\\b?mod\s*\{?([0-9]{1,9})\}?|\\text\s*\{\s*\(?\s*mod\s+([0-9]{1,9})\s*\)?\s*\}"
)
_OF_NUMBERS = re.compile(r"\\in\s*(?:\\math(?:bb|bf|rm)\s*)?\{?([ZNR])\b\}?(?:[\^_]?\{?(?:\*|\\ast|\+)\}?)?")
_IN_BRACKETS = re.compile(r"(?:\\[,;: ]|\s)*\(\s*([a-z]\s*\\in\s*\\mathbb\s*\{[ZNR]\})\s*\)\s*\Z")
_GAP = r"(?:\s|\\[,;: ]|\\q?quad){0,9}"
_INDEX = re.compile(
    rf"(\A[^<>=]+=(?:(?!\\[lg]e|\\in)[^<>=]){{1,200}}?)(?:,|{_GAP}\(|\\text\s*\{{\s*for(?: all)?\s*\}})"
    rf"{_GAP}([kmn])\s*(?:\\ge(?:q|qslant)?\s*1|>\s*0|=\s*1\s*,\s*2\s*,(?:\s*3\s*,)?\s*\\[lc]?dots)"
    r"\s*\)?\s*\Z"
)
"""``a_n = n^2, n \\ge 1``, ``a_n = n^2 (n = 1, 2, ...)``."""
_ONE_MODULUS = re.compile(r"\A((?:(?!\\pmod)[^()\n])*)\\pmod\s*\{?(\d+)\}?\s*\Z")
_BETWEEN = re.compile(rf"{_GAP}(?:(?:,|\\text\s*\{{\s*(?:or|and)\s*\}}|\b(?:or|and)\b){_GAP}){{1,2}}|\Z")
_BOTH_REAL = re.compile(r",(?:\\ |\s)*([a-z]),(?=\s*[a-z]\s*\\in\s*\\mathbb\{R\}\s*\Z)")
_SAID = (
    r"\s*,?\s*(?:(?:where|for|with|any|all|some|every|an?|arbitrary|real|is|are|constants?|numbers?|reals"
    r"|integers?|of|integration)\b\s*)+"
)
_REMARK = re.compile(
    rf"{_GAP},?{_GAP}(?:\\text\w*\s*\{{)?{_SAID}\}}?\s*\$?([a-zA-Z](?:\s*(?:,|\\text\s*\{{\s*and\s*\}})\s*[a-zA-Z]){{0,5}})"
    r"(?:\s*\\in\s*\\mathbb\s*\{R\})?\$?\s*"
    rf"(?:(?:\\text\w*\s*\{{)?{_SAID}\}}?\s*)?\Z"
)
"""``where c is a constant``, ``for any integer k``."""
_PROSE_UNIT = re.compile(r"(?<=[0-9}])\s*\$\s*([A-Za-z]{1,3}(?:/[A-Za-z]{1,3})?)\s*\Z")
_POWER_UNIT = re.compile(r"(?<=[0-9}π$])\s+([kcdm]?m)([²³])")
_UNIT_FRACTION = re.compile(
    r"\\[dt]?frac\s*\{\s*\\(?:text|mathrm)\s*\{([A-Za-z ]+)\}\s*\}"
    r"\s*\{\s*\\(?:text|mathrm)\s*\{([A-Za-z ]+)\}\s*\}"
)
_EACH = re.compile(r"(?<=\d)(\s*)(?:/|per\b)\s*(?:\\text\s*\{\s*)?([A-Za-z]{2,})\s*\}?\s*\Z")
_INVISIBLE = re.compile(
    r"\\(?:phantom|hphantom|vphantom|hspace\*?|vspace\*?|label|tag\*?|color|textcolor)\s*\{[^{}]*\}"
)
_BUILDER = re.compile(r"(?<![\\A-Za-z0-9_^}])\{\s*([a-z])\s*[|:]((?:[^{}|]|\{[^{}]*\})+)\}\s*\Z")
_END = re.compile(r"(?:\\[,;:!> ]|(?<!\\)[;,]|\s|\\q?quad|(?<!\\)\\)\Z")
_ESCAPED_TWICE = re.compile(r"(?:[^\\]|\\\\)+")
_MONEY = re.compile(
    r"\\.|\$\$|(?P<money>\$)(?=\d)(?=[^$\n]*(?:[ \t+*/=-]\$\d|(?:\n|\Z)))|\$[^$\n]*\$", re.DOTALL | re.ASCII
)


class Token(NamedTuple):
    """A lexical unit: its kind (num, repeat, science, based, sym, text, cmd, op, env) and its text."""

    kind: str
    text: str


def tidy(text: str) -> str:
    r"""The text with Unicode notation written as LaTeX and math delimiters removed.

    Example:
        >>> tidy("$x ≤ √2$")
        'x \\le  \\sqrt{2}'
    """
    if len(text) > MAX_LENGTH:
        raise OverLimit(f"the answer is longer than the limit of {MAX_LENGTH} characters")
    if r"\\" in text and re.search(r"\\\\[A-Za-z]{2}", text) and _ESCAPED_TWICE.fullmatch(text):
        text = text.replace(r"\\", "\\")
    if text.count("$") == 2:
        text = _PROSE_UNIT.sub(r"$\\text{ \1}", text)
    if not text.isascii():
        text = _POWER_UNIT.sub(lambda m: rf"\text{{ {m[1]}}}^{'23'['²³'.index(m[2])]}", text)
        text = _RAISED.sub(lambda m: f"{'^' if m[1] else '_'}{{{m[0].translate(_ON_THE_LINE)}}}", text)
        text = re.sub(r"√\s*([0-9]+(?:\.[0-9]+)?)", r"\\sqrt{\1}", as_ascii(text))
        text = _CHINESE_UNIT.sub(lambda m: rf"\text{{ {CHINESE_UNITS[m[1]]}}}", text)
        text = _UNICODE.sub(lambda m: UNICODE[m.group()], text)
    # "$25$" has delimiters; "\$25", an unpaired "$25" and the signs in "$20 + $5" are money
    if "$" in text and len(_BARE_DOLLAR.findall(text)) % 2 == 0:
        text = _BARE_DOLLAR.sub(" ", escape_money(text))
    for marker, pattern, replacement in _REWRITTEN:
        if marker in text:
            text = pattern.sub(replacement, text)
    while end := _END.search(text, max(0, len(text) - 8)):
        text = text[: end.start()].rstrip()
    return in_digits(text.removesuffix(".").strip())


def _declared(remark: re.Match[str]) -> str:
    of = "Z" if "integer" in remark[0] else "R" if re.search("constant|real", remark[0]) else ""
    names = re.findall(r"\b[a-zA-Z]\b", remark[1])
    return "".join(rf", {name}\in\mathbb{{{of}}}" for name in names) if of else remark[0]


def escape_money(text: str) -> str:
    r"""Write ``$`` as ``\$`` where it means money: before an amount, and not at the start of a formula.

    Example:
        >>> escape_money("$10,200 + $255 = $10,455."), escape_money("$10,455$ of $x$")
        ('\\$10,200 + \\$255 = \\$10,455.', '$10,455$ of $x$')
    """
    if "$" not in text:
        return text
    return _MONEY.sub(lambda match: r"\$" if match.group("money") else match.group(), text)


def _system(match: re.Match[str]) -> str:
    name = match[1] if match[1] in ("aligned", "gathered") else "cases"
    return rf"\begin{{{name}}}{match[2]}\end{{{name}}}"


_REWRITTEN: tuple[tuple[str, re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (r"\\[", re.compile(r"\\\\\[-?[\d.]+(?:pt|em|ex|mm|cm|in)\]"), r"\\\\"),
    ("\\", re.compile(r"\\[()]|(?<!\\)\\[\[\]]"), " "),
    ("{", _INVISIBLE, " "),
    ("{", _BUILDER, r"\\{\1 | \2\\}"),
    ("cancel", re.compile(r"(?<=[{)}])\\b?cancel\s*(?=\{)"), ""),
    (":}", re.compile(r"\\text\{:\}|\{:\}"), ":"),
    (r"\right", _SYSTEM, _system),
    (r"\math", re.compile(r"\\(math(?:bb|bf|rm|it))\s*([A-Za-z])(?![A-Za-z])"), r"\\\1{\2}"),
    (r"\in", _OF_NUMBERS, r"\\in\\mathbb{\1}"),
    ("n", _INDEX, r"\1, \2\\in\\mathbb{N}"),
    (r"\mathbb", _IN_BRACKETS, r", \1"),
    (r"\mathbb", _BOTH_REAL, r", \1\\in\\mathbb{R},"),
    (r"\mathbb", re.compile(r"(?<=\\mathbb\{R\})\s*-\s*(?=\\\{)"), r"\\setminus "),
    (r"\circ", re.compile(r"\^\s*(?:\{\s*\\circ\s*\}|\\circ(?![A-Za-z]))"), r"\\circ "),
    ("U", re.compile(r"(?<=[)\]]) ?U ?(?=[(\[])"), r" \\cup "),
    ("mod", _MODULO, lambda m: rf"\pmod{{{m[1] or m[2] or m[3]}}}"),
    (r"\pmod", _ONE_MODULUS, lambda m: _BETWEEN.sub(rf" \\pmod{{{m[2]}}}\g<0>", m[1])),
    ("frac", _UNIT_FRACTION, r"\\text{ \1/\2}"),
    (r"\$", _EACH, r"\1\\text{ per \2}"),
    ("t", _REMARK, _declared),
    (r"\text", re.compile(r"(?<=[0-9}\s])(\\text\s*\{)\s*\(\s*([A-Za-z ]{2,40})\)\s*\}"), r"\1\2}"),
)
"""A text that must occur, what is then looked for, and what is written in its place."""


def tokenize(text: str, *, commas: bool = True) -> list[Token]:
    """Tokens of a tidied text; `Unreadable` if a character is not in the grammar."""
    tokens: list[Token] = []
    modes: list[tuple[str, int]] = []  # for each open brace: the font in it, and its place if it opens that
    place, brackets = 0, 0
    while place < len(text):
        mode = modes[-1][0] if modes else ""
        if mode in _BOLD and _LETTER.match(text, place - 1):
            tokens.append(Token("sym", f"bold {text[place]}"))
            place += 1
            continue
        if mode and (word := _TEXT_WORD.match(text, place)):
            tokens.append(_text_word(word.group(), mode, _is_value(tokens[-2:-1])))
            place = word.end()
            continue
        kind, piece = _next_piece(text, place, commas=commas and not brackets)
        place += len(piece)
        if kind == "space" or piece in SPACING:
            place += piece in (r"\left", r"\right") and text[place : place + 1] == "."
        elif kind == "wrap":
            modes.append((piece[:-1].strip().rstrip("*"), len(tokens)))
            tokens.append(Token("op", "{"))
        elif kind == "word":
            tokens.extend(_letters(piece, _is_value(tokens[-1:])))
        else:
            piece = _ALIASES.get(piece, piece)
            if piece == "{":
                modes.append((mode, -1))
            brackets += (piece in ("(", "[", r"\{")) - (piece in (")", "]", r"\}"))
            opened = modes.pop()[1] if piece == "}" and modes else -1
            inner = tokens[opened + 1 :] if opened >= 0 else []
            if len(inner) == 1 or any(token.kind == "text" for token in inner):
                del tokens[opened]  # the braces of a font around words, or around one token
            else:
                tokens.append(_token(kind, piece))
    return _join_text(tokens)


def _next_piece(text: str, place: int, *, commas: bool) -> tuple[str, str]:
    match = _TOKEN.match(text, place)
    if match is None:
        raise Unreadable(f"the character {text[place]!r} is not mathematical notation")
    kind, piece = match.lastgroup or "", match.group()
    if kind == "commas" and not commas:
        return "num", piece[: piece.index(",")]
    return kind, piece


def _is_value(last: list[Token]) -> bool:
    """Whether the last token may end a value, so that ``min`` means minutes, and not the function."""
    return any(token.kind == "num" or token.text in ("}", ")", r"\div") for token in last)


def _token(kind: str, piece: str) -> Token:
    if kind in ("grouped", "commas", "spaced"):
        return Token("num", re.sub(r"[^0-9.]", "", piece))
    if kind in ("repeat", "based", "science", "num", "env"):
        return Token(kind, piece)
    return Token("cmd" if piece.startswith("\\") and piece[1:].isalpha() else "op", piece)


def _text_word(word: str, mode: str, after_value: bool) -> Token:
    bare = word.rstrip(".")
    if mode == r"\mathbb":
        return Token("cmd", "\\" + bare * 2)
    if bare.lower() in ("and", "or"):
        return Token("op", bare.lower())
    if after_value and mode == r"\mathrm" and bare in ("min", "sec"):
        return Token("text", bare)
    if bare in ("e", "i") and mode in (r"\text", r"\textrm"):
        return Token("sym", bare)
    if mode in _SYMBOL_FONTS:
        if bare in _WORD_COMMANDS:
            return Token("cmd", "\\" + bare)
        if len(bare) == 1 and bare in "eidxyzijkabcnCPT":
            return Token("sym", bare)
    return Token("text", bare)


def _letters(run: str, after_value: bool) -> list[Token]:
    low = run.lower()
    if low in ("and", "or"):
        return [Token("op", low)]
    if after_value and run in RAW_UNITS:
        return [Token("text", run)]
    name = "infty" if low in ("infinity", "inf", "oo") else low
    if name in _WORD_COMMANDS and not run.isupper():
        return [Token("cmd", "\\" + name)]
    if run.isupper():
        return [Token("sym", run)]
    if low in SHORT_WORDS or len(run) >= 4:
        return [Token("text", run)]
    return [Token("sym", letter) for letter in run]


def _join_text(tokens: list[Token]) -> list[Token]:
    joined: list[Token] = []
    for token in tokens:
        if token.kind == "text" and joined and joined[-1].kind == "text":
            before = joined.pop()
            token = before._replace(text=f"{before.text} {token.text}")
        joined.append(token)
    return joined
