"""All output of commands passes here: no text is read as markup, none controls the terminal."""

from collections.abc import Iterable
from typing import Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from mars_env.text import visible


class Screen(Console):
    r"""A console that takes strings as they are: no markup, and every control character escaped.

    Example:
        >>> import io
        >>> screen = Screen(file=io.StringIO(), width=40)
        >>> screen.print("[bold]a\x1b[2J[/bold]")
        >>> screen.file.getvalue().strip()
        '[bold]a␛[2J[/bold]'
    """

    def render_str(self, text: str, *, style: Any = "", **options: Any) -> Text:
        """No markup."""
        layout = {name: options[name] for name in ("justify", "overflow") if options.get(name) is not None}
        return Text(visible(text), style=style, **layout)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Only the console's own control codes stay codes."""
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield segment._replace(text=visible(segment.text))


def say_json(text: str) -> None:
    """JSON in ASCII on standard output, which stays JSON where `visible` would escape a character."""
    say(text.replace("\x7f", r"\u007f"))  # the one control character that JSON encoders leave as it is


def say(text: str, *, err: bool = False) -> None:
    """One line on standard output (or standard error), as `visible` shows it."""
    typer.echo(visible(text), err=err)
