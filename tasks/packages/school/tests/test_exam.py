from school.exam import Section, best, complete, permit

EXAM = [Section(12), Section(30), Section(5)]


def test_permit_who_has_paid():
    assert permit(EXAM, 0, True)


def test_permit_refuses_who_has_not_paid():
    assert not permit(EXAM, 20, False)


def test_permit_is_free_without_a_fee():
    assert permit(EXAM, 0, False)


def test_permit_paid_fee():
    assert permit(EXAM, 20, True)


def test_best_of_nothing():
    assert best([]) == 0


def test_best_of_one_section():
    assert best([Section(7)]) == 7


def test_best_section():
    assert best(EXAM) == 30


def test_complete_when_every_section_is_final():
    assert complete(EXAM)


def test_complete_is_false_for_nothing():
    assert not complete([])


def test_complete_needs_every_section():
    assert not complete([*EXAM, Section(4, final=False)])
