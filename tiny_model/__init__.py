"""The demo's tiny base model: generated episodes, tokenizer, plain-torch Qwen3, pre-training and validation."""
