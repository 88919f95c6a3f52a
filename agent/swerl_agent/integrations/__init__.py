"""Faces of the sandboxes for agents that were written for other ones."""
