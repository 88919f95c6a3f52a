from journal.text import Entry, fit, visible, word_count


def test_fit_short_text():
    assert fit("snow", 10)


def test_fit_refuses_long_text():
    assert not fit("snow and rain", 10)


def test_fit_text_as_wide_as_the_line():
    assert fit(" snow ", 4)


def test_fit_empty_text():
    assert fit("  ", 0)


def test_word_count_of_nothing():
    assert word_count("") == 0


def test_word_count_of_a_sentence():
    assert word_count("it rained all day") == 4


def test_visible_with_title_and_body():
    assert visible(Entry("rain", "all day"))


def test_visible_is_false_without_anything():
    assert not visible(Entry(" "))


def test_visible_needs_a_body():
    assert not visible(Entry("rain"))


def test_visible_needs_a_title():
    assert not visible(Entry(" ", "all day"))
