"""Speech to text: Kyutai's streaming models (Mimi codes, a decoder over 80 ms frames), for files and live."""
