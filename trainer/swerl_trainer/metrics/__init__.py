"""Figures of a run: computed from rollouts (pure) and written to JSONL, TensorBoard, Prometheus and wandb."""
