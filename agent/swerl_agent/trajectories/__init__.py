"""The stored trajectories of jobs and evaluations: reading them, exporting them, importing those of other agents.

Guarantees: any content of a file gives a trajectory or an error that names the file; one odd file never ends the work
on the others. Nothing in a folder that is read changes.
"""
