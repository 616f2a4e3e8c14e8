"""The terms of the field that stand on screen: one definition each, of at most two sentences, with its source.

A reader finds a definition by pointing at the "?" behind a title, a sentence or the label of a widget, by tapping it or
by reaching it with the Tab key:

    st.markdown("The weights of one query …", help=explained("attention weight", "query"))

Explain a term where it first stands on a page. What the sidebar explains (layer, head, query, key, mask) is explained
on every page. `tests/pages/test_glossary.py` reads all text of a page and finds the terms that it leaves unexplained.
"""

from typing import NamedTuple


class Term(NamedTuple):
    """A definition, the work that it follows, and a regular expression for all the ways in which the term is written.

    spelled: without one, the term itself and its plural.
    """

    definition: str
    source: str
    spelled: str = ""


GLOSSARY = {
    "token": Term(
        "A piece of text that the model reads as one unit: a word, a part of a word, a punctuation mark, or a byte.",
        "Sennrich et al. 2016, “Neural Machine Translation of Rare Words with Subword Units”, §3.2",
    ),
    "layer": Term(
        "One round of attention and feed-forward. A model runs its layers one after another.",
        "Vaswani et al. 2017, “Attention Is All You Need”, §3.1",
    ),
    "head": Term(
        "One attention with queries, keys and weights of its own. The heads of a layer work side by side.",
        "Vaswani et al. 2017, “Attention Is All You Need”, §3.2.2",
    ),
    "query": Term(
        "The vector with which a token asks what to read: its row of Q.",
        "Vaswani et al. 2017, “Attention Is All You Need”, §3.2.1",
        r"quer(y|ies)",
    ),
    "key": Term(
        "The vector by which a token is found: its row of K. A query reads most where its product with a key is large.",
        "Vaswani et al. 2017, “Attention Is All You Need”, §3.2.1",
    ),
    "value": Term(
        "The vector that a token hands over when a query reads it: its row of V.",
        "Vaswani et al. 2017, “Attention Is All You Need”, §3.2.1",
        r"value vectors?|values|keys? and values?|key/value",
    ),
    "score": Term(
        "How well a query fits a key: the product q·k, scaled. The larger the score, the more the query reads.",
        "Vaswani et al. 2017, “Attention Is All You Need”, §3.2.1",
    ),
    "attention weight": Term(
        "The share of a token's value that a query takes in, from 0 to 1. Softmax makes the weights from the scores.",
        "Vaswani et al. 2017, “Attention Is All You Need”, §3.2",
        r"(attention )?weights?",
    ),
    "softmax": Term(
        "Turns numbers into shares that add up to 1. Each number x becomes eˣ, and each eˣ is divided by the sum of "
        "all of them.",
        "Goodfellow et al. 2016, “Deep Learning”, §6.2.2.3",
    ),
    "ALiBi": Term(
        "Attention with linear biases. Each head lowers a score by a fixed slope for each token of distance between "
        "query and key.",
        "Press et al. 2022, “Train Short, Test Long: Attention with Linear Biases”, §3",
    ),
    "mask": Term(
        "The rule that says which keys a query may read. A forbidden cell gets the score −∞, so its weight is 0.",
        "Vaswani et al. 2017, “Attention Is All You Need”, §3.2.3",
        r"masks?|masked",
    ),
    "cross-attention": Term(
        "Attention between two texts. The queries come from the text being written (the target); the keys and values "
        "come from the text that was read (the source).",
        "Vaswani et al. 2017, “Attention Is All You Need”, §3.2.3",
    ),
    "encoder output": Term(
        "The vectors of the source after the last layer of the encoder. The keys and values of cross-attention are "
        "computed from them.",
        "Vaswani et al. 2017, “Attention Is All You Need”, §3.1",
    ),
    "component": Term(
        "One of the vectors whose sum is the residual stream: an embedding, what one head added, what one feed-forward "
        "added, or the biases.",
        "Elhage et al. 2021, “A Mathematical Framework for Transformer Circuits”",
    ),
    "frozen norm": Term(
        "A norm whose divisor is fixed at what it was in this pass. Such a norm can be applied to each part of a sum "
        "alone, and the results add up to what it gives for the whole sum.",
        "Elhage et al. 2021, “A Mathematical Framework for Transformer Circuits”",
        r"norms? frozen|norms? (is|are) frozen|frozen norms?",
    ),
    "logit lens": Term(
        "The residual stream after a layer, read through the final norm and the unembedding as if no layer followed.",
        "nostalgebraist 2020, “interpreting GPT: the logit lens”",
    ),
    "ablation": Term(
        "Running the model again with one part switched off, and comparing what it says.",
        "Michel et al. 2019, “Are Sixteen Heads Really Better than One?”, §2.2",
        r"ablat\w+|switch(ed|ing)? off",
    ),
    "OV circuit": Term(
        "What a head writes for each token that it reads: from the token's embedding through W_V and W_O to the "
        "logits.",
        "Elhage et al. 2021, “A Mathematical Framework for Transformer Circuits”",
    ),
    "QK circuit": Term(
        "Which key a query of a head looks for: the score of each token as a query with each token as a key, "
        "through W_Q and W_K.",
        "Elhage et al. 2021, “A Mathematical Framework for Transformer Circuits”",
    ),
    "eigenvalue": Term(
        "A number λ by which a matrix stretches some direction: for one vector v, the matrix turns v into λ·v. It may "
        "be a complex number.",
        "Goodfellow et al. 2016, “Deep Learning”, §2.7",
    ),
    "copying score": Term(
        "The sum of the real parts of the eigenvalues of a head's OV circuit, divided by the sum of their lengths. "
        "Near 1, the head raises the logits of the tokens that it reads; near −1, it lowers them.",
        "Elhage et al. 2021, “A Mathematical Framework for Transformer Circuits”, “Copying”",
    ),
    "composition": Term(
        "A head reads what a head of an earlier layer wrote: in its queries (Q), its keys (K) or its values (V).",
        "Elhage et al. 2021, “A Mathematical Framework for Transformer Circuits”, “Composition”",
        r"[QKV]-composition|composition",
    ),
    "activation patching": Term(
        "Running the model again with one value replaced by that of another run. It shows how much of the other run's "
        "answer this value carries.",
        "Vig et al. 2020, “Investigating Gender Bias in Language Models Using Causal Mediation Analysis”, §3",
        r"activation patching|[Pp]atch(ed|es|ing)?",
    ),
    "path patching": Term(
        "Activation patching of one path. Only one thing is changed: what one head adds to one input of a later head, "
        "or to the residual stream after the last layer, which the logits are computed from.",
        "Wang et al. 2022, “Interpretability in the Wild”, §3.1",
        r"[Pp]ath patching|[Pp]aths into",
    ),
    "clean run": Term(
        "The pass over the prompt whose answer is traced back to values inside the model. The corrupted run is the "
        "pass over a prompt that differs in a few tokens and has another answer.",
        "Meng et al. 2022, “Locating and Editing Factual Associations in GPT”, §2.1",
        r"(clean|corrupted) (run|prompt|answer)s?",
    ),
    "edited pass": Term(
        "A pass in which something was changed by hand, such as a head that is switched off. What differs from the "
        "pass without edits is an effect of the change.",
        "Vig et al. 2020, “Investigating Gender Bias in Language Models Using Causal Mediation Analysis”, §3",
        r"edited pass(es)?",
    ),
    "steering vector": Term(
        "A vector that is added to the residual stream, such as the difference between the streams of two prompts. It "
        "moves what the model says towards the one prompt and away from the other.",
        "Turner et al. 2023, “Steering Language Models With Activation Engineering”, §3",
    ),
    "residual stream": Term(
        "The vector of C numbers that each token carries through the model. Attention and feed-forward read it and add "
        "to it.",
        "Elhage et al. 2021, “A Mathematical Framework for Transformer Circuits”",
        r"residual streams?|streams?",
    ),
    "final hidden state": Term(
        "The residual stream after the last layer. The logits are computed from it.",
        "Elhage et al. 2021, “A Mathematical Framework for Transformer Circuits”",
    ),
    "embedding": Term(
        "The vector of C numbers with which a token enters the model.",
        "Vaswani et al. 2017, “Attention Is All You Need”, §3.4",
    ),
    "unembedding": Term(
        "The matrix that turns the final hidden state of a token into logits.",
        "Elhage et al. 2021, “A Mathematical Framework for Transformer Circuits”",
    ),
    "logit": Term(
        "The number that a model gives to each token of its vocabulary. Softmax turns the logits into probabilities.",
        "Vaswani et al. 2017, “Attention Is All You Need”, §3.4",
    ),
    "norm": Term(
        "Brings the vectors of all tokens to the same scale, so that their lengths do not upset later steps.",
        "Ba et al. 2016, “Layer Normalization”, §3; Zhang and Sennrich 2019, “Root Mean Square Layer Normalization”",
        r"norms?|LayerNorm|RMSNorm",
    ),
    "pre-norm": Term(
        "The norm comes before attention and before feed-forward, so the residual stream itself is never scaled.",
        "Xiong et al. 2020, “On Layer Normalization in the Transformer Architecture”, §3",
    ),
    "post-norm": Term(
        "The norm comes after the result of attention or feed-forward has been added, so it scales the residual stream "
        "itself each time.",
        "Vaswani et al. 2017, “Attention Is All You Need”, §3.1",
    ),
    "feed-forward": Term(
        "A small network that works on each token alone. It widens the vector, applies a nonlinear function to each "
        "number, and narrows the vector again.",
        "Vaswani et al. 2017, “Attention Is All You Need”, §3.3",
        r"feed-forwards?|FFN",
    ),
    "tied": Term(
        "The unembedding is the same table of numbers as the embedding.",
        "Press and Wolf 2017, “Using the Output Embedding to Improve Language Models”",
        "tied",
    ),
    "parameter": Term(
        "A number that training has set. A model is its parameters, and the equations that use them.",
        "Goodfellow et al. 2016, “Deep Learning”, §5.1.4",
    ),
    "entropy": Term(
        "How evenly shares are spread. It is 0 bits if one share is 1 and the rest are 0, and log₂ n bits for n equal "
        "shares.",
        "Shannon 1948, “A Mathematical Theory of Communication”, §6",
    ),
    "bit": Term(
        "A unit of information: the toss of a fair coin carries 1 bit. A number stored in n bits can take 2ⁿ different "
        "values.",
        "Shannon 1948, “A Mathematical Theory of Communication”, introduction",
    ),
    "nat": Term(
        "A unit of information like the bit, but with the natural logarithm in place of log₂. 1 nat is 1.443 bits.",
        "Shannon 1948, “A Mathematical Theory of Communication”, introduction",
    ),
    "surprise": Term(
        "How unlikely the model found the token that was there: −log₂ of its probability, in bits.",
        "Shannon 1948, “A Mathematical Theory of Communication”, §6",
        "surprise",
    ),
    "rank correlation": Term(
        "How far two lists of numbers have the same order: 1 if it is the same, 0 if the two orders have nothing in "
        "common, −1 if it is the opposite.",
        "Spearman 1904, “The Proof and Measurement of Association between Two Things”",
        r"rank correlations?",
    ),
    "KL divergence": Term(
        "How far one list of probabilities is from another: KL(P‖Q) = Σ p·log₂(p/q). It is 0 where they are equal.",
        "Kullback and Leibler 1951, “On Information and Sufficiency”, §2",
        r"KL divergence|KL",
    ),
    "Jensen–Shannon divergence": Term(
        "How far two lists of shares are apart, from 0 bits (the same) to 1 bit (nothing in common). It is the mean KL "
        "divergence of both from the list halfway between them.",
        "Lin 1991, “Divergence Measures Based on the Shannon Entropy”, §4",
        r"Jensen[–-]Shannon divergence|[Dd]ivergence(?! of the)",
    ),
    "previous-token head": Term(
        "A head that reads mostly the token right before its query.",
        "Elhage et al. 2021, “A Mathematical Framework for Transformer Circuits”, “Induction heads”",
        r"previous-token heads?|previous token",
    ),
    "induction": Term(
        "The work of a head that looks for an earlier copy of the current token, and reads the token after that copy. "
        "The model can then continue as the text continued after that copy.",
        "Olsson et al. 2022, “In-context Learning and Induction Heads”",
        "induction( heads?)?",
    ),
    "95 % interval": Term(
        "A range in which the true mean probably lies: about 95 of 100 such ranges hold it. To find it, 1,000 new "
        "samples of the same size are drawn from the windows that were read, with repeats, and the few lowest and few "
        "highest of their means are left out.",
        "Efron 1979, “Bootstrap Methods: Another Look at the Jackknife”",
        "95 % intervals?",
    ),
    "text window": Term(
        "A piece of a text that the model reads at once, of at most 512 tokens. The model knows nothing of the text "
        "before it.",
        "Radford et al. 2019, “Language Models are Unsupervised Multitask Learners”, §2",
        "text windows?",
    ),
    "attention sink": Term(
        "A token that many queries read though it tells them nothing, often the first one. Some models "
        "have a learned number instead of such a token: it takes part in softmax and carries no value.",
        "Xiao et al. 2023, “Efficient Streaming Language Models with Attention Sinks”, §3.1",
        r"attention sinks?|sinks?",
    ),
    "grouped heads": Term(
        "Several query heads share one head of keys and values, so the model has fewer keys and values to keep while "
        "it writes.",
        "Ainslie et al. 2023, “GQA”, §2.2",
        r"grouped heads|key/value heads?",
    ),
    "RoPE": Term(
        "Rotary positions: queries and keys are rotated by angles that grow with the position. The product of a "
        "query and a key then depends only on the distance between their positions.",
        "Su et al. 2021, “RoFormer”, §3.2.2",
        r"RoPE|rotary( positions?)?",
    ),
    "KV cache": Term(
        "The keys and values of the tokens read so far. They are kept, so each step computes keys and values only for "
        "its new token.",
        "Pope et al. 2022, “Efficiently Scaling Transformer Inference”, §2",
        r"KV cache|cache",
    ),
    "prefill": Term(
        "The first pass of generation, which reads the whole prompt at once.",
        "Pope et al. 2022, “Efficiently Scaling Transformer Inference”, §2",
        "prefill",
    ),
    "FLOP": Term(
        "One multiplication or one addition.",
        "Kaplan et al. 2020, “Scaling Laws for Neural Language Models”, §2.1",
    ),
    "greedy": Term(
        "The likeliest token is taken at every step, so nothing is left to chance.",
        "Holtzman et al. 2020, “The Curious Case of Neural Text Degeneration”, §2.2",
        "[Gg]reed(y|ily)",
    ),
    "temperature": Term(
        "The number by which the logits are divided before softmax. A temperature below 1 makes likely tokens "
        "likelier, and one above 1 makes unlikely tokens likelier.",
        "Ackley et al. 1985, “A Learning Algorithm for Boltzmann Machines”",
        "[Tt]emperature",
    ),
    "top-k": Term(
        "Only the k likeliest tokens can be drawn.",
        "Fan et al. 2018, “Hierarchical Neural Story Generation”",
        "[Tt]op-k",
    ),
    "top-p": Term(
        "Only the likeliest tokens can be drawn: the smallest set of them whose probabilities add up to at least p.",
        "Holtzman et al. 2020, “The Curious Case of Neural Text Degeneration”, §3.1",
        "[Tt]op-p",
    ),
    "NF4": Term(
        "A code with 4 bits per number. Its 16 levels are spaced like numbers from a bell curve: closer together near "
        "0.",
        "Dettmers et al. 2023, “QLoRA”, §3",
        "NF4",
    ),
    "outlier": Term(
        "A number far larger than those around it. Such numbers stretch the scale that they share with others, "
        "so the others lose precision.",
        "Dettmers et al. 2022, “LLM.int8()”, §4",
    ),
}


def explained(*terms: str) -> str:
    """The definitions of these terms as Markdown, for the `help` of what stands on screen."""
    return "\n\n".join(f"**{term}**: {GLOSSARY[term].definition} *{GLOSSARY[term].source}*" for term in terms)
