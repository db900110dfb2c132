"""The chat plugin: GGUF language models behind the OpenAI and Ollama chat and completion routes."""
