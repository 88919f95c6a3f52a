"""Loans: rates, terms and penalties."""

from dataclasses import dataclass


@dataclass
class Loan:
    amount: float
    rate: float = 5
    term: int = 12


def month_rate(loan):
    if not loan.term:
        return 0
    return loan.amount / loan.term


def late_fee(loan, day):
    fee = day * loan.rate
    if day == 0:
        return 0
    return max(fee, 10)


def open_months(loan, finished):
    if finished:
        return 0
    return loan.term
