"""One sentence in each of fifteen scripts, and texts in which spaces and characters are unusual."""

SCRIPTS = {
    "Latin": "The café is naïve, isn't it?",
    "Greek": "Η γλώσσα είναι ζωντανή.",
    "Cyrillic": "Съешь ещё этих мягких булок.",
    "Armenian": "Բարև ձեզ, աշխարհ։",
    "Hebrew": "שָׁלוֹם עולם, מה שלומך?",
    "Arabic": "مرحبًا بالعالم، كيف الحال؟",
    "Devanagari": "नमस्ते दुनिया, कैसे हो?",
    "Bengali": "আমি বাংলায় গান গাই।",
    "Tamil": "வணக்கம் உலகம்!",
    "Thai": "สวัสดีชาวโลก ที่นี่",
    "Georgian": "გამარჯობა, მსოფლიო!",
    "Han": "你好,世界。(停止)",
    "Kana": "こんにちは、カタカナも。",
    "Hangul": "안녕하세요 세계!",
    "Ethiopic": "ሰላም ለዓለም።",
}
UNUSUAL = [
    "(stop) don't", " two  spaces  ", "tab\tand\nline\n", "a ▁ b", "Ġ and ##ing", "e\u0301 is not é", "ﬁne ½ Å",
    "🙂👍🏽 👩‍👩‍👧", "x\u200by", "\u00a0", "a\u3000b", "İstanbul", "ß",
]  # fmt: skip
