"""Parts of pages are replaced between their marks."""

import pytest
from messages import raises

from mars_env.errors import ConfigError
from studies.common.pages import write


def test_a_part_of_a_page_is_replaced_between_its_marks(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# Page\n\n<!-- begin a -->\nold\n<!-- end a -->\nrest\n")
    write(page, "a", "new\n\n")
    assert page.read_text() == "# Page\n\n<!-- begin a -->\nnew\n<!-- end a -->\nrest\n"


@pytest.mark.parametrize(
    "text", ["", "begin", "end", "end begin", "begin begin end", "begin end begin end", "begin end end"]
)
def test_a_page_without_its_marks_once_each_stays_as_it_is(tmp_path, text):
    page = tmp_path / "page.md"
    before = "".join(f"<!-- {mark} a -->\nold\n" for mark in text.split())
    page.write_text(before)
    with raises(ConfigError):
        write(page, "a", "new")
    assert page.read_text() == before
