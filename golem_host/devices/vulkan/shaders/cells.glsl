// Where keys lie: in blocks of 32 cells, one word (two halves) of all of them after another, so that neighbouring threads
// with neighbouring cells read neighbouring words. Values lie cell by cell. (`cache.py`)

const uint BLOCK_CELLS = 32;

// The first word of the keys of a head of a slot; `head` counts through all slots.
uint first_key(uint head, uint cells, uint key_words) {
  return head * ((cells + BLOCK_CELLS - 1) / BLOCK_CELLS) * BLOCK_CELLS * key_words;
}

// A word of a cell's key, from the head's first on.
uint key_word(uint cell, uint word, uint key_words) {
  return (cell / BLOCK_CELLS * key_words + word) * BLOCK_CELLS + cell % BLOCK_CELLS;
}
