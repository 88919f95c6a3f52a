"""Checks that jobs and evaluations pass before they take resources: prerequisites, capacity, images and sources."""
