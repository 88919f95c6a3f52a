"""The demo's tiny base model: generated pre-training episodes, tokenizer, plain-torch Qwen3, training and gates."""
