import pytest
from school.grade import Student, average, honor, rank


def test_average_of_nothing():
    assert average([]) == 0


def test_average_of_whole_numbers():
    assert average([2, 4]) == 3


def test_average_keeps_the_decimals():
    assert average([2, 3]) == 2.5


def test_honor_above_the_threshold():
    assert honor(Student("ann", 95), 90)


def test_honor_below_the_threshold():
    assert not honor(Student("ann", 80), 90)


def test_honor_exactly_at_the_threshold():
    assert honor(Student("ann", 90), 90)


def test_honor_needs_a_name():
    with pytest.raises(ValueError):
        honor(Student("", 90), 90)


def test_rank_of_nobody():
    assert rank([]) == []


def test_rank_starts_with_the_best():
    group = [Student("ann", 70), Student("bob", 90)]
    assert [student.name for student in rank(group)] == ["bob", "ann"]
