"""The Markov chain as a folder of safetensors, as mlx-lm, vLLM and transformers read a model."""

import json
import struct
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import numpy as np
from markov import ASSISTANT, END, HEAD, TEMPLATE, Chain, byte_tokens, tensors_of

# Where this says nothing, transformers' server takes the likeliest token, whatever it is asked.
SAMPLED = {"do_sample": True, "temperature": 1.0, "top_p": 1.0, "top_k": 0}


def write_folder(
    folder: Path, chain: Chain, *, template: str = TEMPLATE, qwen: bool = False
) -> None:
    """A folder whose model goes from one piece of text to the next with these probabilities.

    `qwen` makes it a Qwen2 in name and shape: transformers parses the calls of no Llama.
    """
    folder.mkdir()
    spelled = byte_tokens()
    pieces = list(dict.fromkeys([ASSISTANT, *chain, *(to for row in chain.values() for to in row)]))
    control = ["<|im_start|>", END]
    special = [*control, *(piece for piece in pieces if piece not in control)]
    tokens = [*spelled, *special]
    width = -len(tokens) % HEAD + len(tokens)
    for name, document in {
        "config.json": _config(width, tokens.index(END)) | (_qwen(width) if qwen else {}),
        "generation_config.json": {"eos_token_id": tokens.index(END), **SAMPLED},
        "tokenizer.json": _tokenizer(spelled, special, {*control, ASSISTANT}),
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "eos_token": END,
            "clean_up_tokenization_spaces": False,
            "chat_template": template,
            "tool_parser_type": "json_tools",  # mlx-lm knows no parser by this template
        },
    }.items():
        (folder / name).write_text(json.dumps(document), encoding="utf-8")
    tensors = {_NAMES[name]: part for name, part in tensors_of(tokens, chain, width).items()}
    tensors = {name: _padded(part, width) for name, part in tensors.items()}
    if qwen:
        tensors |= _heads_of_qwen(width)
    (folder / "model.safetensors").write_bytes(_safetensors(tensors))


_NAMES = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output.weight": "lm_head.weight",
    "output_norm.weight": "model.norm.weight",
    **{
        f"blk.0.{short}.weight": f"model.layers.0.{long}.weight"
        for short, long in {
            "attn_norm": "input_layernorm",
            "attn_q": "self_attn.q_proj",
            "attn_k": "self_attn.k_proj",
            "attn_v": "self_attn.v_proj",
            "attn_output": "self_attn.o_proj",
            "ffn_norm": "post_attention_layernorm",
            "ffn_gate": "mlp.gate_proj",
            "ffn_up": "mlp.up_proj",
            "ffn_down": "mlp.down_proj",
        }.items()
    },
}


def _padded(part: np.ndarray, width: int) -> np.ndarray:
    """A vocabulary as wide as the model: what has no token is as good as impossible."""
    if part.ndim == 2 and part.shape[1] == width and HEAD < part.shape[0] < width:
        empty = np.full((width - part.shape[0], width), part.min() if part.min() < 0 else 0.0)
        part = np.concatenate([part, empty])
    return np.ascontiguousarray(part, dtype=np.float32)


def _config(width: int, end: int) -> dict[str, object]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": width,
        "intermediate_size": HEAD,
        "num_hidden_layers": 1,
        "num_attention_heads": 1,
        "num_key_value_heads": 1,
        "head_dim": HEAD,
        "vocab_size": width,
        "max_position_embeddings": 32768,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
        "attention_bias": False,
        "mlp_bias": False,
        "torch_dtype": "float32",
        "eos_token_id": end,
    }


def _qwen(width: int) -> dict[str, object]:
    return {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "num_attention_heads": width // HEAD,  # its heads share the width
    }


def _heads_of_qwen(width: int) -> dict[str, np.ndarray]:
    attention, rows = "model.layers.0.self_attn", {"q": width, "k": HEAD, "v": HEAD}
    square = dict.fromkeys((f"{attention}.{one}_proj.weight" for one in "qo"), (width, width))
    biases = {f"{attention}.{one}_proj.bias": (rows[one],) for one in rows}
    return {name: np.zeros(shape, np.float32) for name, shape in (square | biases).items()}


def _tokenizer(
    spelled: Sequence[str], special: Sequence[str], control: Collection[str]
) -> dict[str, object]:
    level = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": False,
    }
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "normalizer": None,
        "post_processor": None,
        "pre_tokenizer": level,
        "decoder": level,
        "added_tokens": [
            {
                "id": len(spelled) + at,
                "content": piece,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": piece in control,
            }
            for at, piece in enumerate(special)
        ],
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {piece: at for at, piece in enumerate(spelled)},
            "merges": [],
        },
    }


def _safetensors(tensors: Mapping[str, np.ndarray]) -> bytes:
    """The length of the head, the head in JSON, then the numbers of all tensors."""
    head: dict[str, object] = {"__metadata__": {"format": "pt"}}
    start = 0
    for name, part in tensors.items():
        head[name] = {
            "dtype": "F32",
            "shape": part.shape,
            "data_offsets": [start, start := start + part.nbytes],
        }
    told = json.dumps(head).encode()
    told += b" " * (-len(told) % 8)
    return struct.pack("<Q", len(told)) + told + b"".join(map(np.ndarray.tobytes, tensors.values()))
