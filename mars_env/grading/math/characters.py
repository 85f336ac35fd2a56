r"""Replaces characters that look like ASCII, or are invisible, by the ASCII that they stand for.

Only these are changed: full-width forms, mathematical letters and
digits, the decimal digits of four other scripts, spaces, and invisible characters.
Digits of other scripts stay unchanged, and the reader refuses them.
"""

from __future__ import annotations

import unicodedata


def _table() -> dict[int, str]:
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


_TABLE = _table()


def as_ascii(text: str) -> str:
    r"""The text with such characters replaced; takes linear time, and none if the text is already ASCII.

    Example:
        >>> as_ascii("ｘ＝２５\u200b％"), as_ascii("𝑥 = 𝟐𝟓"), as_ascii("٢٥ √2")
        ('x=25%', 'x = 25', '25 √2')
    """
    return text if text.isascii() else text.translate(_TABLE)
