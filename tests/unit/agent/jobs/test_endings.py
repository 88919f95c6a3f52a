"""How a script in a Pod ended decides what a caller gets."""

from __future__ import annotations

from typing import Any

import pytest
from swerl_agent.jobs import JobCommandError
from swerl_agent.jobs.output import JobOutput, OutputLost
from swerl_agent.sandbox import FileError
from swerl_agent.sandbox.copying import upload
from swerl_kube.exec import KILLED, ExitStatus


class EndedClient:
    """Opens streams that end at once with a status."""

    def __init__(self, status: ExitStatus | None) -> None:
        self.status = status

    async def exec_stream(self, *_: Any, **__: Any) -> EndedClient:
        return self

    async def send(self, data: bytes) -> None: ...

    async def receive(self) -> None: ...

    async def close(self) -> None: ...


@pytest.mark.parametrize(
    ("status", "error"),
    [(ExitStatus(None, "no runtime"), JobCommandError), (ExitStatus(KILLED, ""), OutputLost), (None, OutputLost)],
)
async def test_folder_of_a_job_is_not_read_as_empty(status: ExitStatus | None, error: type[Exception]) -> None:
    client: Any = EndedClient(status)
    output = JobOutput(client, "n", "pod", "ray-head", "/output/demo", live=True)
    with pytest.raises(error) as raised:
        await output.read("ls")
    assert raised.type is error


async def test_copy_that_the_runtime_refused_is_an_error(tmp_path: Any) -> None:
    (tmp_path / "file").write_bytes(b"1")
    client: Any = EndedClient(ExitStatus(None, "no runtime"))
    with pytest.raises(FileError, match="no runtime"):
        await upload(client, "n", "pod", tmp_path / "file", "/tmp/file")
