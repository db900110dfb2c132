"""Devices: one thread each that owns what is allocated there and runs one pass at a time."""
