from journal.page import Page, index, last_number, line_height


def test_line_height_of_whole_numbers():
    assert line_height(Page(1), 20) == 3


def test_line_height_keeps_the_decimals():
    assert line_height(Page(1), 24) == 2.5


def test_line_height_of_an_empty_page():
    assert line_height(Page(1), 0) == 60


def test_last_number_of_nothing():
    assert last_number([]) == 0


def test_last_number_of_three_pages():
    assert last_number([Page(1), Page(2), Page(3)]) == 3


def test_index_of_nothing():
    assert index([]) == []


def test_index_starts_with_most_pictures():
    journal = [Page(1, picture=2), Page(2, picture=7), Page(3)]
    assert [page.number for page in index(journal)] == [2, 1, 3]
