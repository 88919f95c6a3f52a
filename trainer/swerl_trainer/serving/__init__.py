"""Engines for a SweEval: the weights of a folder or of a checkpoint, served as long as the evaluation needs them."""
