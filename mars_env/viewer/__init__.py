"""The page of a run: one HTML file that needs no network."""

from typing import TYPE_CHECKING

from mars_env.lazy import lazy_names

if TYPE_CHECKING:
    from mars_env.viewer.page import Episode as Episode
    from mars_env.viewer.page import render_page as render_page
    from mars_env.viewer.page import write_page as write_page
    from mars_env.viewer.turns import Display as Display

__getattr__, __dir__, __all__ = lazy_names(__name__)
