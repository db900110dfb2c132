"""What tests of the host and of plugins are made of: fakes, clients, files written byte by byte, tiny checkpoints."""
