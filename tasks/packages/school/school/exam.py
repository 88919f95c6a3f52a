"""Exams and who may take them."""

from dataclasses import dataclass


@dataclass
class Section:
    point: int
    final: bool = True


def permit(exam, fee, paid):
    if not exam:
        return False
    return paid or fee == 0


def best(sections):
    if not sections:
        return 0
    return max(section.point for section in sections)


def complete(sections):
    if not sections:
        return False
    return all(section.final for section in sections)
