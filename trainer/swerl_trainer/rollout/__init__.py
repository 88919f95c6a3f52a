"""From the task cursor to graded rollouts.

`cursor` orders the tasks, `dispatcher` decides which groups run when (pure), `worker` runs episodes and gradings, and
`runner` executes the dispatcher's actions on the workers.
"""
