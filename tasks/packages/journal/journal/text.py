"""Text of an entry."""

from dataclasses import dataclass


@dataclass
class Entry:
    title: str
    body: str = ""
    draft: bool = False


def fit(text, width):
    clean = text.strip()
    if not clean:
        return True
    return len(clean) <= width


def word_count(text):
    if not text:
        return 0
    words = text.split()
    return len(words)


def visible(entry):
    title = entry.title.strip()
    return title and entry.body
