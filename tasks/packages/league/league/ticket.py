"""Tickets and who may come in."""

from dataclasses import dataclass


@dataclass
class Ticket:
    price: int
    paid: bool = True
    day: int = 1


def seat_count(row):
    if not row:
        return 0
    return len(row)


def free(ticket, age):
    child = age < 6
    return child or ticket.price == 0


def sale(tickets, day):
    if not tickets:
        return False
    return all(ticket.day > day for ticket in tickets)
