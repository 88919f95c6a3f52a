"""Options that several commands share as a whole."""

from __future__ import annotations

from .command import together
from .model import model_options
from .options import agent_options, cluster_options, sampling_options
from .output import output_format_option
from .pod_options import grading_options, jobs_option, pod_options, sandbox_options
from .task_options import task_options

run_samples_options = together(  # of commands that run episodes and grade their patches
    model_options,
    agent_options(),
    sampling_options,
    task_options,
    pod_options,
    sandbox_options,
    grading_options("grading-"),
    output_format_option,
    cluster_options,
)
grade_patches_options = together(  # of commands that only grade
    task_options, jobs_option, grading_options(), pod_options, output_format_option, cluster_options
)
