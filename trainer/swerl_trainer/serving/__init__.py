"""Engines for a SweEval: the weights of a folder or of a checkpoint, served until the evaluation ends."""
