"""Chat templates that behave as those of model families do."""

# Qwen2.5: a system message of its own where there is none.
QWEN_2_5 = (
    "{% if messages[0].role != 'system' %}<|im_start|>system\nYou are helpful.<|im_end|>\n{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

# Qwen3: thinking is stripped from answers before the last user message, and inserted, empty, into a last answer
# without. Asked not to think, the header of an answer holds an empty block.
QWEN_3 = (
    "{% set ns = namespace(last=0) %}"
    "{% for m in messages if m.role == 'user' and not m.content.startswith('<tool_response>') %}"
    "{% set ns.last = messages.index(m) %}{% endfor %}"
    "{% for m in messages %}"
    "{% if m.role == 'assistant' %}"
    "{% set parts = m.content.split('</think>') %}{% set said = parts[-1].lstrip('\n') %}"
    "{% set thought = parts[0].split('<think>')[-1].strip('\n') if parts|length > 1 else '' %}"
    "<|im_start|>assistant\n"
    "{% if loop.index0 > ns.last and (loop.last or thought) %}<think>\n{{ thought }}\n</think>\n\n{% endif %}"
    "{{ said if parts|length > 1 else m.content }}<|im_end|>\n"
    "{% else %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endif %}"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
QWEN_3_NO_THINKING = QWEN_3.replace(
    "<|im_start|>assistant\n{% endif %}", "<|im_start|>assistant\n<think>\n\n</think>\n\n{% endif %}"
)

# GLM: no token closes a message, the next role does; earlier answers get an empty block for the thinking they lose.
GLM = (
    "[gMASK]<sop>"
    "{% set ns = namespace(last=0) %}"
    "{% for m in messages if m.role == 'user' %}{% set ns.last = messages.index(m) %}{% endfor %}"
    "{% for m in messages %}"
    "{% if m.role == 'assistant' %}<|assistant|>"
    "{% set parts = m.content.split('</think>') %}"
    "{% if loop.index0 > ns.last and parts|length > 1 %}"
    "{{ '\n' }}<think>{{ parts[0].split('<think>')[-1].strip() }}</think>"
    "{% else %}{{ '\n' }}<think></think>{% endif %}"
    "{{ '\n' + parts[-1].strip() }}"
    "{% elif m.role == 'tool' %}<|observation|>\n<tool_response>\n{{ m.content }}\n</tool_response>"
    "{% else %}<|{{ m.role }}|>\n{{ m.content }}{% endif %}"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
