"""Writes `_abi.py`, the cffi module of the Vulkan API, from the Khronos header: for developers, when a function or
structure is added to the lists below.

Out-of-line ABI mode: what is written is plain Python, so an install needs neither the header nor a compiler. Wants gcc
(its preprocessor) and Vulkan's headers (Debian: libvulkan-dev).

    python -m golem_host.devices.vulkan.generate_abi
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import cffi

from golem_host.devices.vulkan.structs import structure_type_name


def names(text: str) -> list[str]:
    """The words of a text."""
    return text.split()


FUNCTIONS = names("""
vkEnumerateInstanceVersion vkEnumerateInstanceExtensionProperties vkCreateInstance vkDestroyInstance
vkEnumeratePhysicalDevices vkGetPhysicalDeviceProperties2 vkGetPhysicalDeviceFeatures2
vkGetPhysicalDeviceMemoryProperties2 vkGetPhysicalDeviceQueueFamilyProperties
vkEnumerateDeviceExtensionProperties vkCreateDevice vkDestroyDevice vkGetDeviceQueue vkDeviceWaitIdle
vkCreateBuffer vkDestroyBuffer vkGetBufferMemoryRequirements vkAllocateMemory vkFreeMemory vkBindBufferMemory
vkMapMemory vkCreateShaderModule vkDestroyShaderModule vkCreateDescriptorSetLayout
vkDestroyDescriptorSetLayout vkCreatePipelineLayout vkDestroyPipelineLayout vkCreateComputePipelines
vkDestroyPipeline vkCreatePipelineCache vkGetPipelineCacheData vkDestroyPipelineCache vkCreateDescriptorPool
vkDestroyDescriptorPool vkAllocateDescriptorSets vkUpdateDescriptorSets vkCreateCommandPool
vkDestroyCommandPool vkAllocateCommandBuffers vkBeginCommandBuffer vkEndCommandBuffer vkCmdBindPipeline
vkCmdBindDescriptorSets vkCmdPushConstants vkCmdDispatch vkCmdPipelineBarrier vkCmdCopyBuffer vkCmdFillBuffer
vkCreateQueryPool vkDestroyQueryPool vkCmdResetQueryPool vkCmdWriteTimestamp vkGetQueryPoolResults
vkQueueSubmit vkCreateSemaphore vkDestroySemaphore vkWaitSemaphores
""")

STRUCTURES = names("""
VkPhysicalDeviceVulkan11Properties VkPhysicalDeviceVulkan12Properties VkPhysicalDeviceMaintenance4Properties
VkPhysicalDeviceSubgroupSizeControlProperties VkPhysicalDeviceShaderIntegerDotProductProperties
VkPhysicalDeviceVulkan11Features VkPhysicalDeviceVulkan12Features VkPhysicalDeviceSubgroupSizeControlFeatures
VkPhysicalDeviceShaderIntegerDotProductFeatures VkPhysicalDeviceMemoryBudgetPropertiesEXT
VkTimelineSemaphoreSubmitInfo VkSemaphoreTypeCreateInfo
""")

ENUMERATIONS = names("""
VkResult VkPhysicalDeviceType VkBufferUsageFlagBits VkMemoryPropertyFlagBits VkMemoryHeapFlagBits
VkPipelineStageFlagBits VkAccessFlagBits VkQueueFlagBits VkShaderStageFlagBits VkQueryResultFlagBits
VkInstanceCreateFlagBits VkSubgroupFeatureFlagBits VkPipelineCacheHeaderVersion
""")

DECLARATION = re.compile(
    r"typedef (?:struct|union|enum) (\w+) \{.*?\} \w+;"
    r"|typedef struct \w+_T ?\* ?(\w+);"
    r"|typedef [\w ]+? (\w+);"
    r"|typedef [\w\* ]+?\( ?\*(\w+)\)\([^;]*;"
    r"|^\s*\w[\w\* ]*? (vk\w+)\([^;]*;",
    re.S | re.M,
)


def header() -> tuple[str, int]:
    """The preprocessed header from its first type on, and its VK_HEADER_VERSION."""
    empty = ["-DVKAPI_PTR=", "-DVKAPI_CALL=", "-DVKAPI_ATTR="]
    command = ["gcc", "-E", "-P", *empty, "-include", "vulkan/vulkan_core.h", "-x", "c", "-"]

    def preprocessed(text: str) -> str:
        return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout

    text = preprocessed("")
    return text[text.index("typedef uint32_t VkBool32") :], int(preprocessed("VK_HEADER_VERSION").split()[-1])


def declarations(text: str) -> dict[str, str]:
    """Every declaration of the header by its name."""
    found: dict[str, str] = {}
    for match in DECLARATION.finditer(text):
        name = next(group for group in match.groups() if group)
        found.setdefault(name, match.group(0))
    return found


def closure(found: dict[str, str], wanted: list[str]) -> list[str]:
    """The declarations of what is wanted and of all they name, each after what it names."""
    ordered: list[str] = []
    seen: set[str] = set()

    def add(name: str) -> None:
        if name in seen or name not in found:
            return
        seen.add(name)
        for word in re.findall(r"\b(?:Vk|PFN_vk)\w+", found[name]):
            add(word)
        ordered.append(name)

    for name in wanted:
        if name not in found:
            raise SystemExit(f"the header does not declare {name}")
        add(name)
    return ordered


def definitions() -> tuple[str, int]:
    """What cffi is given, and the version of the header it comes from."""
    text, version = header()
    found = declarations(text)
    names = closure(found, STRUCTURES + ENUMERATIONS + FUNCTIONS)
    tags = {
        structure_type_name(name) for name in names if found[name].startswith("typedef struct") and "{" in found[name]
    }
    # Thousands of tags of structures that are not used would make the module ten times as long.
    kept = [
        line
        for line in found["VkStructureType"].splitlines()
        if _tag(line) in tags or "MAX_ENUM" in line or "=" not in line
    ]
    found["VkStructureType"] = "\n".join(kept)
    cdef = "\n".join(found[name] for name in names)
    cdef = cdef.replace("~0ULL", "0xFFFFFFFFFFFFFFFF").replace("~0U", "0xFFFFFFFF")
    return re.sub(r"\[(\d+)U\]", r"[\1]", cdef), version


def _tag(line: str) -> str:
    return line.split("=")[0].strip()


def write(path: Path) -> None:
    """Write the module to `path`."""
    cdef, version = definitions()
    ffi = cffi.FFI()
    ffi.cdef(cdef)
    ffi.set_source("golem_host.devices.vulkan._abi", None)
    ffi.emit_python_code(str(path))
    body = path.read_text().replace("# auto-generated file\n", "")
    path.write_text(f"# Written by generate_abi.py from version {version} of the Khronos header.\n{body}")


if __name__ == "__main__":
    write(Path(__file__).with_name("_abi.py"))
