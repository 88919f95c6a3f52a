"""The driver: one process per attempt that trains a job from its newest checkpoint to its last step.

`python -m swerl_trainer.driver --job /etc/swerl/job.json`; the folder reads as the attempt runs: `job` (what is asked),
`download` (what lies elsewhere), `ownership` (whose the job's folder is), `place` (start everything), `loop` (train),
`status`, `lease`, `state`.
"""
