"""The Vulkan device: a thin layer over the system's Vulkan loader (`gpu.py`, `memory.py`, `commands.py` and what they
use), and on it shaders, the lowering of operations to them, and the executor that replays recorded passes.
"""
