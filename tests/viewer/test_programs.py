"""Programs with colours, and differences between two texts."""

from mars_env.viewer.programs import MAX_COLOURED, MAX_LINES, changed_lines, coloured


def test_long_programs_and_unknown_languages_are_plain():
    assert coloured("return", "brainf") is None
    assert coloured("return 1\n" * MAX_COLOURED) is None


def test_changes_show_deleted_and_inserted_lines_with_some_around():
    before = "\n".join(f"line {i}" for i in range(20))
    found = str(changed_lines(before, before.replace("line 10", "<b>")))
    assert found.count("<span>") == 4 and "<del>- line 10</del>\n<ins>+ &lt;b&gt;</ins>" in found


def test_equal_and_very_long_texts_have_no_changes():
    assert changed_lines("a\nb", "a\nb\n") is None
    assert changed_lines("a\n" * (MAX_LINES + 1), "b") is None


def test_a_paragraph_is_compared_sentence_by_sentence():
    text = "This is a sentence that stays as it is. " * 8
    found = str(changed_lines(text + "It is 4.", text + "It is 5."))
    assert "<del>- It is 4.</del>" in found and "<ins>+ It is 5.</ins>" in found
