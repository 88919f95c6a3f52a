"""A training checkpoint as a Hugging Face model folder.

Guarantee: transformers loads the exported folder again. It must give the logits of the training network (largest
difference 1e-4 in float32) and the ids of the training tokenizer; otherwise nothing is kept.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer

from tiny_model.episodes import observation, prompt
from tiny_model.network import Shape, TinyQwen3

CHAT_TEMPLATE = (
    "{%- for message in messages %}"
    "{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"
)
LARGEST_DIFFERENCE = 1e-4


class ExportError(RuntimeError):
    """The exported folder is not the trained model."""


def load_checkpoint(path: Path) -> TinyQwen3:
    """The network of a checkpoint written by `tiny_model.pretrain`, in evaluation mode."""
    checkpoint: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    model = TinyQwen3(Shape(**checkpoint["shape"]))
    model.load_state_dict(checkpoint["weights"])
    model.train(False)
    return model


def configuration(shape: Shape, end: int | None, pad: int | None) -> dict[str, Any]:
    """config.json of a Qwen3ForCausalLM of that shape."""
    return {
        "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "torch_dtype": "float32",
        "vocab_size": shape.vocab_size, "hidden_size": shape.hidden, "intermediate_size": shape.intermediate,
        "num_hidden_layers": shape.layers, "num_attention_heads": shape.heads, "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim, "max_position_embeddings": shape.context, "rms_norm_eps": shape.epsilon,
        "rope_theta": shape.theta, "rope_scaling": None, "hidden_act": "silu", "attention_bias": False,
        "attention_dropout": 0.0, "tie_word_embeddings": True, "use_sliding_window": False, "sliding_window": None,
        "max_window_layers": shape.layers, "initializer_range": 0.02, "use_cache": True,
        "bos_token_id": None, "eos_token_id": end, "pad_token_id": pad,
    }  # fmt: skip


def write_folder(model: TinyQwen3, tokenizer: Tokenizer, folder: Path) -> None:
    """Write weights, configuration and tokenizer in the layout transformers expects."""
    end, pad = tokenizer.token_to_id("<|im_end|>"), tokenizer.token_to_id("<|endoftext|>")
    texts = {
        "config.json": configuration(model.shape, end, pad),
        "generation_config.json": {"do_sample": True, "temperature": 1.0, "eos_token_id": end, "pad_token_id": pad},
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": model.shape.context,
            "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "chat_template": CHAT_TEMPLATE,
            "clean_up_tokenization_spaces": False,
        },
    }  # fmt: skip
    folder.mkdir(parents=True)
    for name, content in texts.items():
        (folder / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    tokenizer.save(str(folder / "tokenizer.json"))
    weights = {name: tensor.contiguous().float() for name, tensor in model.state_dict().items()}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "model.safetensors").chmod(0o644)


@torch.no_grad()
def verify(model: TinyQwen3, tokenizer: Tokenizer, folder: Path) -> float:
    """The largest difference in logits between the network and transformers; raises ExportError."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    text = prompt("`low` in `store/stock.py` is off by one.") + "```bash\nls\n```<|im_end|>" + observation(1, "été\n")
    loaded = AutoTokenizer.from_pretrained(folder)
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    if loaded.encode(text, add_special_tokens=False) != ids or loaded.decode(ids) != text:
        raise ExportError(f"the tokenizer of {folder} differs from the one trained with")
    reference = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    reference.train(False)
    batch = torch.tensor([ids])
    difference = float((reference(batch).logits - model.logits(model.hidden(batch))).abs().max())
    if difference > LARGEST_DIFFERENCE:
        raise ExportError(f"the model of {folder} differs from the network by {difference:.1e}")
    return difference


def main() -> None:
    parser = argparse.ArgumentParser(description="Export a checkpoint folder as a Hugging Face model folder.")
    parser.add_argument("source", type=Path, help="folder with checkpoint.pt and tokenizer.json")
    parser.add_argument("target", type=Path, help="model folder, replaced when it exists")
    arguments = parser.parse_args()
    model = load_checkpoint(arguments.source / "checkpoint.pt")
    tokenizer = Tokenizer.from_file(str(arguments.source / "tokenizer.json"))
    fresh = arguments.target.with_name(arguments.target.name + ".new")
    shutil.rmtree(fresh, ignore_errors=True)
    write_folder(model, tokenizer, fresh)
    difference = verify(model, tokenizer, fresh)
    shutil.rmtree(arguments.target, ignore_errors=True)
    fresh.rename(arguments.target)
    print(f"{arguments.target}: logits differ from the trained network by at most {difference:.1e}")


if __name__ == "__main__":
    main()
