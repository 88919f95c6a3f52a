"""The driver: one process per attempt that trains a job from its newest checkpoint to its last step.

`python -m swerl_trainer.driver --job /etc/swerl/job.json`. An attempt uses the modules in this order:
`download` (models and tasks from the Hub), `ownership` (the job's folder), `components` (start everything), `training`
and `loop` (train), `status` (report), `state` (resume).
"""
