"""Adapters that let agents written for other sandboxes use ours."""
