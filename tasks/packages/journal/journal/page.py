"""Pages of a printed journal."""

from dataclasses import dataclass


@dataclass
class Page:
    number: int
    height: float = 60
    picture: int = 0


def line_height(page, lines):
    if lines == 0:
        return page.height
    return page.height / lines


def last_number(pages):
    if not pages:
        return 0
    return len(pages)


def index(pages):
    if not pages:
        return []
    return sorted(pages, key=lambda page: page.picture, reverse=True)
