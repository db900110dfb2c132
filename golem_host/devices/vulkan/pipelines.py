"""Compute pipelines: a shader with its specialization constants set."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from golem_host.devices.vulkan.pipeline_cache import PipelineCache
from golem_host.devices.vulkan.structs import constant, struct

if TYPE_CHECKING:
    from golem_host.devices.vulkan.gpu import Gpu

SHADERS = Path(__file__).parent / "shaders"

PUSH_BYTES = 128
"""Bytes of push constants: what every device has."""

FUSED, SMALL_HALVES = 99, 98
"""Specialization constants of what the device does (`Facts`; `shaders/fused.glsl`, `shaders/unpack.glsl`): set in all
shaders that have them.
"""

# Numbers of the SPIR-V specification.
_MAGIC = 0x07230203
_OP_TYPE_INT, _OP_TYPE_FLOAT, _OP_DECORATE = 21, 22, 71
_OP_SPEC_TRUE, _OP_SPEC_FALSE, _OP_SPEC_CONSTANT = 48, 49, 50
_SPEC_ID, _BINDING = 1, 33


@dataclass(frozen=True)
class Shader:
    """SPIR-V with what it says of itself: how many views it binds, and for each specialization constant its type
    ("int", "float" or "bool").
    """

    code: bytes
    bindings: int
    constants: dict[int, str]


def read_shader(path: Path) -> Shader:
    """Read a shader. Raises ValueError when the file is not SPIR-V."""
    code = path.read_bytes()
    if len(code) < 20 or len(code) % 4:
        raise ValueError(f"{path} is not SPIR-V")
    words = np.frombuffer(code, np.uint32)
    if words[0] != _MAGIC:
        raise ValueError(f"{path} is not SPIR-V")
    bindings = 0
    identifiers: dict[int, int] = {}
    types: dict[int, str] = {}
    constants: dict[int, str] = {}
    at = 5
    while at < len(words):
        operation, length = int(words[at]) & 0xFFFF, int(words[at]) >> 16
        if length == 0 or at + length > len(words):
            raise ValueError(f"{path} is cut short")
        operands = [int(word) for word in words[at + 1 : at + length]]
        if operation == _OP_DECORATE and operands[1] == _BINDING:
            bindings = max(bindings, operands[2] + 1)
        elif operation == _OP_DECORATE and operands[1] == _SPEC_ID:
            identifiers[operands[0]] = operands[2]
        elif operation in (_OP_TYPE_INT, _OP_TYPE_FLOAT):
            types[operands[0]] = "int" if operation == _OP_TYPE_INT else "float"
        elif operation in (_OP_SPEC_TRUE, _OP_SPEC_FALSE, _OP_SPEC_CONSTANT) and operands[1] in identifiers:
            constants[identifiers[operands[1]]] = types.get(operands[0], "bool")
        at += length
    return Shader(code, bindings, constants)


@dataclass(frozen=True, eq=False)
class Kernel:
    """A pipeline: `bindings` views, and handles of the pipeline, its layout and its set layout."""

    name: str
    bindings: int
    pipeline: Any
    layout: Any
    set_layout: Any


class Pipelines:
    """The pipelines of a device, each made once."""

    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu
        self._lock = threading.RLock()  # a shader is run to find out what others are to be told
        self._made: dict[tuple[str | Path, tuple[tuple[type, int | float], ...]], Kernel] = {}
        self._shaders: dict[str | Path, Shader] = {}
        self._layouts: dict[int, tuple[Any, Any]] = {}
        self._cache = PipelineCache(gpu)

    def get(self, name: str | Path, constants: tuple[int | float, ...]) -> Kernel:
        """The kernel; see `Gpu.kernel`."""
        key = (name, tuple((type(value), value) for value in constants))
        made = self._made.get(key)
        if made is None:
            with self._lock:
                made = self._made.get(key)
                if made is None:
                    made = self._made[key] = self._make(name, constants)
        return made

    def save(self) -> None:
        with self._lock:
            self._cache.save()

    def _make(self, name: str | Path, constants: tuple[int | float, ...]) -> Kernel:
        gpu = self._gpu
        gpu.alive()
        ffi, lib = gpu.ffi, gpu.lib
        shader = self._shaders.get(name)
        if shader is None:
            path = name if isinstance(name, Path) else SHADERS / f"{name}.spv"
            shader = self._shaders[name] = read_shader(path)
        own = sorted(shader.constants.keys() - {FUSED, SMALL_HALVES})
        if own != list(range(len(constants))):
            declared = ", ".join(map(str, own)) or "none"
            raise ValueError(f"shader {name} has the specialization constants {declared}; {len(constants)} are given")
        layout, set_layout = self._layout(shader.bindings)
        words = ffi.new("uint32_t[]", len(shader.code) // 4)
        ffi.buffer(words)[:] = shader.code
        module = gpu.create(
            "vkCreateShaderModule",
            struct("VkShaderModuleCreateInfo", codeSize=len(shader.code), pCode=words),
            "VkShaderModule",
        )
        try:
            given = dict(enumerate(constants))
            if FUSED in shader.constants:
                given[FUSED] = gpu.facts.fused
            if SMALL_HALVES in shader.constants:
                given[SMALL_HALVES] = gpu.facts.small_halves
            values = ffi.new("uint32_t[]", [_bits(shader.constants[i], value) for i, value in given.items()])
            entries = ffi.new(
                "VkSpecializationMapEntry[]",
                [{"constantID": i, "offset": 4 * at, "size": 4} for at, i in enumerate(given)],
            )
            special = struct(
                "VkSpecializationInfo",
                mapEntryCount=len(entries),
                pMapEntries=entries,
                dataSize=4 * len(values),
                pData=values,
            )
            entry = ffi.new("char[]", b"main")
            info = struct("VkComputePipelineCreateInfo", layout=layout)
            info.stage = struct(
                "VkPipelineShaderStageCreateInfo",
                stage=constant("SHADER_STAGE_COMPUTE_BIT"),
                module=module,
                pName=entry,
                pSpecializationInfo=special,
            )[0]
            made = ffi.new("VkPipeline *")
            code = lib.vkCreateComputePipelines(gpu.handle, self._cache.handle, 1, info, ffi.NULL, made)
            gpu.check(code, f"vkCreateComputePipelines of {name}")
        finally:
            lib.vkDestroyShaderModule(gpu.handle, module, ffi.NULL)
        self._cache.changed = True
        gpu.own(self, lib.vkDestroyPipeline, gpu.handle, made[0], ffi.NULL)
        return Kernel(str(name), shader.bindings, made[0], layout, set_layout)

    def _layout(self, bindings: int) -> tuple[Any, Any]:
        """A pipeline layout with one set of that many storage buffers, and the set's layout."""
        known = self._layouts.get(bindings)
        if known is not None:
            return known
        gpu = self._gpu
        if not 1 <= bindings <= gpu.limits.storage_buffers:
            raise ValueError(f"a shader binds {bindings} views; this device allows 1 to {gpu.limits.storage_buffers}")
        stage = constant("SHADER_STAGE_COMPUTE_BIT")
        each = {"descriptorType": constant("DESCRIPTOR_TYPE_STORAGE_BUFFER"), "descriptorCount": 1, "stageFlags": stage}
        wanted = gpu.ffi.new("VkDescriptorSetLayoutBinding[]", [{"binding": i, **each} for i in range(bindings)])
        info = struct("VkDescriptorSetLayoutCreateInfo", bindingCount=bindings, pBindings=wanted)
        set_layout = gpu.create("vkCreateDescriptorSetLayout", info, "VkDescriptorSetLayout")
        gpu.own(self, gpu.lib.vkDestroyDescriptorSetLayout, gpu.handle, set_layout, gpu.ffi.NULL)
        sets = gpu.ffi.new("VkDescriptorSetLayout *", set_layout)
        push = struct("VkPushConstantRange", stageFlags=stage, size=PUSH_BYTES)
        info = struct(
            "VkPipelineLayoutCreateInfo",
            setLayoutCount=1,
            pSetLayouts=sets,
            pushConstantRangeCount=1,
            pPushConstantRanges=push,
        )
        layout = gpu.create("vkCreatePipelineLayout", info, "VkPipelineLayout")
        gpu.own(self, gpu.lib.vkDestroyPipelineLayout, gpu.handle, layout, gpu.ffi.NULL)
        self._layouts[bindings] = (layout, set_layout)
        return layout, set_layout


def _bits(type: str, value: int | float) -> int:
    """The 32 bits of a specialization constant."""
    if type == "float":
        return int(np.float32(value).view(np.uint32))
    if value != int(value) or not -(2**31) <= value < 2**32:
        raise ValueError(f"a specialization constant of type {type} cannot be {value}")
    return int(value) & 0xFFFFFFFF if type == "int" else int(bool(value))
