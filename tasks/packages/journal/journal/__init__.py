"""Helpers to write and print a journal."""
