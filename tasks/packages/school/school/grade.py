"""Grades and points."""

from dataclasses import dataclass


@dataclass
class Student:
    name: str
    point: float


def average(grades):
    if not grades:
        return 0
    return sum(grades) / len(grades)


def honor(student, threshold):
    if not student.name:
        raise ValueError("name")
    return student.point >= threshold


def rank(students):
    if not students:
        return []
    return sorted(students, key=lambda student: student.point, reverse=True)
