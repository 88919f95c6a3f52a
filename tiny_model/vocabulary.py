"""The tokenizer of the tiny model: whole words and shell phrases as tokens, bytes for everything else.

Guarantees: any text encodes and decodes to itself. A name is the same token in an issue, in code and in a command: the
blanks around it belong to the adjacent operator, keyword or phrase. Encoding text piece by piece, split where an
episode is split, gives the same ids as encoding the whole.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable

from tokenizers import AddedToken, Regex, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE

from tiny_model.defects import random_defect
from tiny_model.episodes import SUBMIT, Noise, demonstration
from tiny_model.scope import WORDS

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
PHRASES = (
    SUBMIT, "```bash\n", "\n```", "sed -n '/def ", "/,/^$/p' ", "sed -i 's|", "|' ",
    "<returncode>0</returncode>\n<output>\n", "<returncode>", "</returncode>\n<output>\n", "</output>",
    ".py", ", reverse=", "system\n", "user\n", "assistant\n",
)  # fmt: skip
_KEYWORDS = "return|if|elif|for|not|while|raise|import|from|lambda|def|and|or|in|else|is"
PATTERN = "|".join(
    (
        *(re.escape(phrase).replace("\\\n", "\\n").replace("\\ ", " ") for phrase in PHRASES),
        r"\n+ *",  # a line break with the indentation that follows
        r" (?:and|or|in|if|else|for|is) ",
        rf"(?<![\p{{L}}_])(?:{_KEYWORDS}) ",
        r" ?[<>=+\-*/%!&]+ ",  # operators own the blanks around them
        r"[,:;] ",
        r" ?\p{L}+",  # a leading blank is for prose: names follow punctuation, operators or keywords
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]",
        r"\s",
    )
)
VOCABULARY_MULTIPLE = 128  # padded so that tensor-parallel ranks divide it


def _splitter() -> pre_tokenizers.PreTokenizer:
    split = pre_tokenizers.Split(Regex(PATTERN), "isolated")
    return pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def build_tokenizer(*, episodes: int = 6000, at_least: int = 3, seed: int = 7) -> Tokenizer:
    """A tokenizer over the words of the generator and the pieces seen `at_least` times in generated episodes."""
    splitter = _splitter()
    pieces = Counter(_pieces(_texts(episodes, seed), splitter))
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    known = [piece for piece, count in sorted(pieces.items()) if count >= at_least and len(piece) > 1]
    numbers = [str(number) for number in range(10, 101)]
    entries = dict.fromkeys([*SPECIAL, *alphabet, *_as_bytes(PHRASES, splitter), *numbers, *WORDS, *known])
    vocabulary = {entry: index for index, entry in enumerate(entries)}
    tokenizer = Tokenizer(BPE(vocab=vocabulary, merges=[], ignore_merges=True))
    tokenizer.pre_tokenizer = splitter
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL])
    return tokenizer


def padded_size(tokenizer: Tokenizer) -> int:
    """Rows of the embedding: the tokenizer's size, rounded up."""
    return -(-tokenizer.get_vocab_size() // VOCABULARY_MULTIPLE) * VOCABULARY_MULTIPLE


def _texts(episodes: int, seed: int) -> Iterable[str]:
    rng = random.Random(seed)
    for _ in range(episodes):
        for segment in demonstration(random_defect(rng), rng, Noise()):
            yield from re.split("|".join(map(re.escape, SPECIAL)), segment.text)


def _pieces(texts: Iterable[str], splitter: pre_tokenizers.PreTokenizer) -> Iterable[str]:
    for text in texts:
        for piece, _ in splitter.pre_tokenize_str(text):
            yield piece


def _as_bytes(phrases: Iterable[str], splitter: pre_tokenizers.PreTokenizer) -> list[str]:
    entries = [splitter.pre_tokenize_str(phrase) for phrase in phrases]
    broken = [phrase for phrase, pieces in zip(phrases, entries, strict=True) if len(pieces) != 1]
    if broken:
        raise ValueError(f"phrases are not single pieces: {broken}")
    return [pieces[0][0] for pieces in entries]
