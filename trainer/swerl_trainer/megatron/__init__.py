"""Training on Megatron-core: one actor per rank, one façade for the driver.

The driver uses `TrainGroup`; each rank runs a `MegatronTrainer`; `WeightSender` is the training side of a
weight update. Importing this package imports neither torch nor Megatron.
"""
