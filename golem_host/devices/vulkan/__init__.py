"""The Vulkan device."""
