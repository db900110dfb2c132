"""The krea2 plugin: pictures by Krea 2, from a ComfyUI directory."""
