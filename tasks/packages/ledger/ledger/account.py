"""Accounts and what may be taken from them."""

from dataclasses import dataclass


@dataclass
class Account:
    balance: float
    credit: float = 0
    open: bool = True


def active(account, minimum):
    funded = account.balance > minimum
    return funded and account.open


def permit(account, amount):
    if not account.open:
        return False
    return amount <= account.balance


def available(account, reserve):
    total = account.balance - reserve
    if not account.open:
        return 0
    return total + account.credit
