"""The wrapper's report, as it is found in a Pod's log."""

from __future__ import annotations

import base64
import gzip

import pytest
from swerl_agent.grading.framing import HEAD_BYTES, TAIL_BYTES, Framer, Malformed

NONCE = "01234567-89ab-cdef-0123-456789abcdef"
KEY = "5e1ec7ed-89ab-cdef-0123-456789abcdef"


def framed(body: bytes = b"output", *, total: int | None = None, tail: bytes = b"", test_record: bytes = b"") -> bytes:
    sign = f"swerl-grading {NONCE}"
    parts = [sign, f"{sign} note restored\\ x", f"{sign} head", packed(body)]
    parts += [f"{sign} tail", packed(tail)] if tail else []
    parts += [f"{sign} key {KEY}", f"{sign} test_record", base64.b64encode(test_record).decode()]
    length = len(body) if total is None else total
    end = f"{sign} end stage=eval exit=1 began=10.5 ended=12.0 total={length}\n"
    return "\n".join([*parts, end]).encode()


def packed(data: bytes) -> str:
    return base64.b64encode(gzip.compress(data)).decode()


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_report_is_found_however_the_log_is_cut(size: int) -> None:
    data, framer = framed(b"line\n\nswerl-grading other end stage=eval exit=0\n"), Framer()
    reports = [framer.feed(data[at : at + size]) for at in range(0, len(data), size)]
    assert reports[-1] is not None
    assert reports[:-1] == [None] * (len(reports) - 1)
    assert reports[-1].log == b"line\n\nswerl-grading other end stage=eval exit=0\n"
    assert (reports[-1].exit_code, reports[-1].seconds, reports[-1].keys) == (1, 1.5, (KEY,))
    assert reports[-1].notes == ("restored\\ x",)


def test_report_of_another_nonce_does_not_count() -> None:
    forged = framed(b"PASSED").replace(NONCE.encode(), b"f" * 36)
    framer = Framer()
    assert framer.feed(b"swerl-grading " + NONCE.encode() + b"\n" + forged) is None


def test_log_of_another_length_is_refused() -> None:
    with pytest.raises(Malformed):
        Framer().feed(framed(b"output", total=5))


def test_part_that_is_not_whole_is_refused() -> None:
    with pytest.raises(Malformed):
        Framer().feed(framed(b"output").replace(packed(b"output").encode(), packed(b"output")[:16].encode()))


def test_very_long_log_loses_only_its_middle() -> None:
    head, tail = b"a" * HEAD_BYTES, b"b" * TAIL_BYTES
    report = Framer().feed(framed(head, tail=tail, total=HEAD_BYTES + TAIL_BYTES + 1))
    assert report
    assert report.log == head + b"\n" + tail
    assert report.left_out == 1
    result = Framer().feed(framed(head, tail=head + b"end", total=HEAD_BYTES + 3))
    assert result
    assert (result.log, result.left_out) == (head + b"end", 0)
