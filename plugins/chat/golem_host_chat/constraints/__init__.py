"""What an answer must look like: JSON schemas and grammars as masks over the vocabulary."""
