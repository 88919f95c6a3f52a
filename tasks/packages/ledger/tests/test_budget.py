from ledger.budget import Line, top_lines, valid, warning

BUDGET = [Line("rent", 90, 80), Line("paper", 10, 2), Line("travel", 40, 30)]


def test_valid_when_nothing_is_planned():
    assert valid([])


def test_valid_budget():
    assert valid(BUDGET)


def test_valid_needs_a_plan_for_every_line():
    assert not valid([*BUDGET, Line("gift", 0)])


def test_top_lines_cuts_the_list():
    assert len(top_lines(BUDGET, 2)) == 2


def test_top_lines_starts_with_the_largest():
    assert [line.name for line in top_lines(BUDGET, 2)] == ["rent", "travel"]


def test_warning_above_the_share():
    assert warning(Line("rent", 100, 90), 0.5)


def test_warning_stays_quiet_below_the_share():
    assert not warning(Line("rent", 100, 10), 0.5)


def test_warning_exactly_at_the_share():
    assert warning(Line("rent", 100, 50), 0.5)


def test_warning_without_a_plan():
    assert not warning(Line("rent", 0, 50), 0.5)
