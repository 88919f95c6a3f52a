from school.course import Course, crowd, lesson_count, seat_left


def test_lesson_count_of_an_empty_course():
    assert lesson_count(Course(0, 20), 10) == 0


def test_lesson_count_of_ten_weeks():
    assert lesson_count(Course(5, 20), 10) == 20


def test_seat_left_in_an_empty_course():
    assert seat_left(Course(0, 20)) == 20


def test_seat_left_takes_students_away():
    assert seat_left(Course(5, 20)) == 15


def test_crowd_in_every_course():
    assert crowd([Course(30, 30), Course(28, 30)], 25)


def test_crowd_in_no_school():
    assert not crowd([], 25)


def test_crowd_in_one_course_is_enough():
    assert crowd([Course(30, 30), Course(8, 30)], 25)
