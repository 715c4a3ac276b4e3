"""Weights that a test makes itself: a Markov chain as a GGUF, so that its rates are known.

A token is a piece of a reply. Its embedding is one-hot, attention and feed-forward are zero, so
what is left of the context is the last token; the output matrix holds the logarithms of what may
follow it. A real server runs this as it runs any model, and its tokenizer, chat template, grammar
and tool parser do their real work.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import gguf
import numpy as np

ASSISTANT = "<|im_start|>assistant\n"  # one token: every reply begins after it
END = "<|im_end|>"
IMPOSSIBLE = -30.0  # as a logarithm
HEAD = 32

# In the manner of Hermes and Qwen2.5: JSON in <tool_call> tags.
TEMPLATE = """\
{%- if tools %}<|im_start|>system
{% if messages[0].role == 'system' %}{{ messages[0].content }}

{% endif %}# Tools

<tools>
{%- for tool in tools %}
{{ tool | tojson }}
{%- endfor %}
</tools>

For each function call, return a json object with function name and arguments within
<tool_call></tool_call> tags:
<tool_call>
{"name": <function-name>, "arguments": <args-json-object>}
</tool_call><|im_end|>
{% elif messages[0].role == 'system' %}<|im_start|>system
{{ messages[0].content }}<|im_end|>
{% endif %}
{%- for message in messages %}
{%- if message.role == 'user' or message.role == 'system' and not loop.first %}<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% elif message.role == 'assistant' %}<|im_start|>assistant
{% if message.content %}{{ message.content }}{% endif %}
{%- for call in message.tool_calls or [] %}{% if message.content or not loop.first %}
{% endif %}<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>{% endfor %}<|im_end|>
{% elif message.role == 'tool' %}<|im_start|>user
<tool_response>
{{ message.content }}
</tool_response><|im_end|>
{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""  # noqa: E501 -- a line break would be one of the prompt

Chain = Mapping[str, Mapping[str, float]]


def write_weights(path: Path, chain: Chain, *, name: str = "markov") -> None:
    """A GGUF whose model goes from one piece of text to the next with these probabilities.

    `chain` begins at ASSISTANT, and what leads nowhere else leads to END.
    """
    spelled = byte_tokens()
    pieces = list(dict.fromkeys([ASSISTANT, *chain, *(to for row in chain.values() for to in row)]))
    control = ["<|im_start|>", END]
    special = [*control, *(piece for piece in pieces if piece not in control)]
    tokens = [*spelled, "ĠĠ", *special]
    kinds = [gguf.TokenType.NORMAL] * (len(spelled) + 1) + [
        gguf.TokenType.CONTROL if token in {*control, ASSISTANT} else gguf.TokenType.USER_DEFINED
        for token in special
    ]
    writer = gguf.GGUFWriter(str(path), "llama")
    width = -len(tokens) % HEAD + len(tokens)
    _add_shape(writer, name, width)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges(["Ġ Ġ"])
    writer.add_bos_token_id(tokens.index(END))
    writer.add_eos_token_id(tokens.index(END))
    writer.add_add_bos_token(False)  # noqa: FBT003 -- the writer has it so
    writer.add_chat_template(TEMPLATE)
    for tensor, values in tensors_of(tokens, chain, width).items():
        writer.add_tensor(tensor, values.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def byte_tokens() -> list[str]:
    """One token for each byte, in the letters that GPT-2 writes bytes with."""
    shown = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in shown]
    return [chr(byte) for byte in shown] + [chr(256 + at) for at in range(len(hidden))]


def _add_shape(writer: gguf.GGUFWriter, name: str, width: int) -> None:
    writer.add_name(name)
    writer.add_context_length(32768)
    writer.add_embedding_length(width)
    writer.add_block_count(1)
    writer.add_feed_forward_length(HEAD)
    writer.add_head_count(1)
    writer.add_head_count_kv(1)
    writer.add_key_length(HEAD)
    writer.add_value_length(HEAD)
    writer.add_rope_dimension_count(HEAD)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)


def tensors_of(tokens: Sequence[str], chain: Chain, width: int) -> dict[str, np.ndarray]:
    place = {token: at for at, token in enumerate(tokens)}
    follows = np.full((len(tokens), width), IMPOSSIBLE)
    for at in range(len(tokens)):
        follows[place[END], at] = 0.0
    for piece, row in chain.items():
        follows[place[END], place[piece]] = IMPOSSIBLE
        for to, probability in row.items():
            follows[place[to], place[piece]] = np.log(probability)
    ones = np.ones(width)
    return {
        "token_embd.weight": np.eye(len(tokens), width),
        "output.weight": follows / np.sqrt(width),  # the norm makes of a one-hot its root
        "output_norm.weight": ones,
        "blk.0.attn_norm.weight": ones,
        "blk.0.attn_q.weight": np.zeros((HEAD, width)),
        "blk.0.attn_k.weight": np.zeros((HEAD, width)),
        "blk.0.attn_v.weight": np.zeros((HEAD, width)),
        "blk.0.attn_output.weight": np.zeros((width, HEAD)),
        "blk.0.ffn_norm.weight": ones,
        "blk.0.ffn_gate.weight": np.zeros((HEAD, width)),
        "blk.0.ffn_up.weight": np.zeros((HEAD, width)),
        "blk.0.ffn_down.weight": np.zeros((width, HEAD)),
    }
