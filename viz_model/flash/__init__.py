"""FlashAttention: the tiled softmax, what moves between memories, and how long it takes."""
