"""The agent side: tasks, sandboxes, episodes, grading.

Guarantee: nothing here imports ray, torch or the trainer.
"""

RELEASE = "0.1.0"  # of swe-rl: of this distribution, the chart and its CRDs
