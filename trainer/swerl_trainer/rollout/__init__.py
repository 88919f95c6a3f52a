"""From the task cursor to graded rollouts.

`cursor` says which task comes next, `dispatcher` decides which groups run when (pure), `worker` runs episodes and
gradings, `runner` carries out the one with the other.
"""
