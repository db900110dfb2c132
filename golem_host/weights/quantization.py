"""The name of a file's quantization as people write it: `Q4_K_M`, `Q8_0`, `F16`."""

from __future__ import annotations

from collections import Counter

from golem_host.weights.gguf import Gguf

FILE_TYPES = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 7: "Q8_0", 8: "Q5_0", 9: "Q5_1", 10: "Q2_K", 11: "Q3_K_S", 12: "Q3_K_M",
    13: "Q3_K_L", 14: "Q4_K_S", 15: "Q4_K_M", 16: "Q5_K_S", 17: "Q5_K_M", 18: "Q6_K", 19: "IQ2_XXS", 20: "IQ2_XS",
    21: "Q2_K_S", 22: "IQ3_XS", 23: "IQ3_XXS", 24: "IQ1_S", 25: "IQ4_NL", 26: "IQ3_S", 27: "IQ3_M", 28: "IQ2_S",
    29: "IQ2_M", 30: "IQ4_XS", 31: "IQ1_M", 32: "BF16", 36: "TQ1_0", 37: "TQ2_0", 38: "MXFP4",
}  # fmt: skip
"""`general.file_type` (enum llama_ftype)."""


def quantization_name(gguf: Gguf) -> str:
    """What the file says of itself, else the storage type that holds most of its bytes."""
    file_type = gguf.metadata.get("general.file_type")
    if isinstance(file_type, int) and file_type in FILE_TYPES:
        return FILE_TYPES[file_type]
    held: Counter[str] = Counter()
    for tensor in gguf.tensors.values():
        held[tensor.type_name] += tensor.elements
    return held.most_common(1)[0][0] if held else "unknown"
