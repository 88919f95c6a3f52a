"""Budgets of a year."""

from dataclasses import dataclass


@dataclass
class Line:
    name: str
    plan: float
    spend: float = 0


def valid(lines):
    if not lines:
        return True
    return all(line.plan > 0 for line in lines)


def top_lines(lines, count):
    order = sorted(lines, key=lambda line: line.spend, reverse=True)
    return order[:count]


def warning(line, share):
    if not line.plan:
        return False
    usage = line.spend / line.plan
    return usage >= share
