"""Training on Megatron-core: one actor per rank, one façade for the driver.

The driver talks to `TrainGroup`; `MegatronTrainer` is what each rank does; `WeightSender` is the training side of a
weight update. Importing this package imports neither torch nor Megatron.
"""
