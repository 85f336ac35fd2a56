"""Pages that are made of parts: each part is written by its own command and leaves the others as they are."""

from __future__ import annotations

from pathlib import Path

from mars_env.errors import ConfigError
from mars_env.files import write_whole


def write_part(page: Path, name: str, text: str) -> None:
    r"""Replace one part of a page: what stands between its two marks, which Markdown does not show.

    Args:
        page: A text file with the marks ``<!-- begin NAME -->`` and ``<!-- end NAME -->``, each on a line of
            its own.
        name: Of the part.
        text: Its new text.

    Raises:
        ConfigError: The page lacks the marks, or holds them more than once or in the wrong order.

    Example:
        >>> import tempfile
        >>> page = Path(tempfile.mkdtemp()) / "page.md"
        >>> _ = page.write_text("# Page\n\n<!-- begin a -->\nold\n<!-- end a -->\n")
        >>> write_part(page, "a", "new\n")
        >>> print(page.read_text(), end="")
        # Page
        <BLANKLINE>
        <!-- begin a -->
        new
        <!-- end a -->
    """
    begin, end = f"<!-- begin {name} -->\n", f"<!-- end {name} -->\n"
    old = page.read_text(encoding="utf-8")
    before, found, rest = old.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed or begin in rest or end in before + after:
        raise ConfigError(f"{page} must hold the lines {begin.strip()!r} and {end.strip()!r}, once each")
    write_whole(page, f"{before}{begin}{text.rstrip()}\n{end}{after}")
