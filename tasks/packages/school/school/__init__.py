"""Grades, exams and courses."""
