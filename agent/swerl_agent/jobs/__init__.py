"""Jobs for people: job files, their faults, what a job does and why not, and the few changes that steer it.

Guarantee: no function here prints, asks or parses options; commands are in `swerl_agent.cli`.
"""

from .describing import JobDescription, describe, description_lines
from .errors import JobCommandError
from .faults import Fault, file_faults
from .job_file import JobFile, parse_job, read_job_file
from .overview import HEADS, JobRow, job_row, table
from .steering import cancel, find_job, list_jobs, resume, retry, submit, suspend

__all__ = [
    "HEADS",
    "Fault",
    "JobCommandError",
    "JobDescription",
    "JobFile",
    "JobRow",
    "cancel",
    "describe",
    "description_lines",
    "file_faults",
    "find_job",
    "job_row",
    "list_jobs",
    "parse_job",
    "read_job_file",
    "resume",
    "retry",
    "submit",
    "suspend",
    "table",
]
