"""What --help shows of every command at its end: lines that one can type as they stand, none over 78 characters."""

EXAMPLES = {
    "whence": (
        'whence explain "The keys to the cabinet [MASK] on the table."',
        'whence why "The capital of France is" --model gpt2',
        "whence measure corpus.txt --out run",
        "whence serve",
    ),
    "explain": (
        'whence explain "The keys to the cabinet [MASK] on the table." --open',
        'whence explain "Who slept?" --pair "The cat slept." --model bert-base-uncased',
        'whence explain "She sat down." --measures attention,norms --layers 1 6',
        "whence explain --contribution --out page.html < sentence.txt",
    ),
    "why": (
        'whence why "The keys to the cabinet [MASK] on the table."',
        'whence why "The capital of France is" --model gpt2 --against " London"',
        'whence why "Once upon a time" --model gpt2 --generate 20 --open',
        "whence why --chat messages.json --model MODEL --generate 20 --spans turn",
        'whence why "What a wonderful film." --model CLASSIFIER --against NEGATIVE',
        'whence why "How old are you?" --model RERANKER --pair "I am six."',
        'whence why "How old are you?" --model TRANSLATOR --prefix "Wie alt"',
        'whence why "A man eats." --model EMBEDDING_MODEL --similar-to "A meal."',
        "whence why cat.png --model PICTURE_CLASSIFIER --out page.html",
        'whence why "What is this?" --image cat.png --model VISION_LANGUAGE_MODEL',
    ),
    "lm-head": (
        'whence lm-head "The keys to the cabinet [MASK] on the table."',
        'whence lm-head "Paris is the capital of [MASK]." --layer all --chart lens.svg',
        "whence lm-head lama:squad.jsonl --recipe no-period mask-word --out clozes",
    ),
    "lens": (
        "whence lens fit texts.txt --model gpt2 --out lens",
        'whence lens read "The capital of France is" --model gpt2 --lens lens',
    ),
    "lens fit": (
        "whence lens fit texts.txt --out lens",
        "whence lens fit texts.txt --model gpt2 --layers 0 6 12 --error 0.05",
    ),
    "lens read": (
        'whence lens read "Paris is the capital of [MASK]." --lens lens',
        'whence lens read "The capital of France is" --model gpt2 --layers 6 --top 10',
        'whence lens read "Paris is the capital of [MASK]." --out page.html',
    ),
    "measure": (
        "whence measure corpus.txt --out run",
        "whence measure 'treebank/*.conllu' --measures mixing,norms --by upos --out run",
        "whence measure reviews.csv --read text=review,label=stars --out run",
        "whence measure corpus.txt --model gpt2 --engine ray --workers 4 --out run",
    ),
    "report": (
        "whence report run",
        "whence report run --out charts",
    ),
    "identify": (
        "whence identify mrpc:dev.tsv --chart rates.svg",
        "whence identify corpus.txt --probe naive --layers 1 6 --out rates.csv",
        "whence identify corpus.txt --probe mlp --model bert-base-uncased --limit 500",
    ),
    "study": (
        "whence study mixing --data corpus.txt --quick --out mixing",
        "whence study lm-head -d lama:squad.jsonl -m bert-base-uncased -o head",
        "whence study mixing -d corpus.txt -m gpt2 -m 'checkpoints/*' -o training",
    ),
    "serve": (
        "whence serve",
        "whence serve gpt2 bert-base-uncased --port 8800",
        "whence serve --host 0.0.0.0 --allow-host lab.example.org --no-browse",
    ),
    "verify": (
        "whence verify",
        "whence verify my/model.gguf",
        "whence verify bert-base-uncased --device cuda --dtype bfloat16",
    ),
    "measures": (
        "whence measures",
        "whence measures | grep norms",
    ),
}


def shown(command: str) -> str:
    return "\n  ".join(["Examples:", *EXAMPLES[command]])
