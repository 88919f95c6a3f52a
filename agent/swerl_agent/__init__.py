"""The agent side: tasks, sandboxes, episodes, grading.

Guarantee: nothing here imports ray, torch or the trainer.
"""
