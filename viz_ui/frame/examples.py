"""The texts that the menu of examples offers for a model that has none of its own."""

EXAMPLES = {
    "A story begins": "Once upon a time there was a king who had three daughters.",
    "Words that come again": "The red fox met a grey goose by the old mill. The red fox met a grey goose by the",
    "Random words, twice": " ".join(2 * ["Uffish tove horse candle wolf vub kex vorpal grimble kettle"]),
    "Who is she?": "The queen gave the girl a ring, and she thanked her.",
    "Numbers and names": "Hansel had 3 pebbles, Grethel had 4 pebbles, and Hansel counted the pebbles.",
    "Any script, any sign": "naïve café, 你好, مرحبا, 👩‍🚀 <b>bold</b> *stars* $x$",
}
