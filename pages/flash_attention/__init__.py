"""The page FlashAttention: one head tile by tile, what moves between memories, and what it takes."""
