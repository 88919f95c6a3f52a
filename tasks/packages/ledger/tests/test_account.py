from ledger.account import Account, active, available, permit


def test_active_when_funded_and_open():
    assert active(Account(50), 10)


def test_active_is_false_when_empty_and_closed():
    assert not active(Account(0, open=False), 10)


def test_active_needs_an_open_account():
    assert not active(Account(50, open=False), 10)


def test_active_needs_funds():
    assert not active(Account(5), 10)


def test_permit_small_amounts():
    assert permit(Account(50), 10)


def test_permit_refuses_more_than_the_balance():
    assert not permit(Account(50), 51)


def test_permit_the_whole_balance():
    assert permit(Account(50), 50)


def test_available_without_credit():
    assert available(Account(50), 10) == 40


def test_available_counts_the_credit():
    assert available(Account(50, 20), 10) == 60


def test_available_of_a_closed_account():
    assert available(Account(50, 20, open=False), 10) == 0
