"""The demo: one SweRLJob trains a tiny agent on a real Kubernetes, from set-up to the learned trajectory."""
