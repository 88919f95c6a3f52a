from ledger.loan import Loan, late_fee, month_rate, open_months


def test_month_rate_of_whole_numbers():
    assert month_rate(Loan(120)) == 10


def test_month_rate_keeps_the_decimals():
    assert month_rate(Loan(30)) == 2.5


def test_month_rate_without_a_term():
    assert month_rate(Loan(30, term=0)) == 0


def test_late_fee_on_time():
    assert late_fee(Loan(100), 0) == 0


def test_late_fee_of_two_days():
    assert late_fee(Loan(100), 2) == 10


def test_late_fee_has_a_lower_bound():
    assert late_fee(Loan(100), 1) == 10


def test_late_fee_grows():
    assert late_fee(Loan(100), 6) == 30


def test_open_months_of_a_finished_loan():
    assert open_months(Loan(100), True) == 0


def test_open_months_of_an_open_loan():
    assert open_months(Loan(100), False) == 12
