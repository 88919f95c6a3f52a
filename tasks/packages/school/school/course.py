"""Courses and their seats."""

from dataclasses import dataclass


@dataclass
class Course:
    size: int
    seat: int
    guest: int = 0


def lesson_count(course, weeks):
    total = weeks * 2
    if course.size == 0:
        return 0
    return total


def seat_left(course):
    free = course.seat - course.size
    if not course.size:
        return course.seat
    return free


def crowd(courses, limit):
    if not courses:
        return False
    return any(course.size > limit for course in courses)
