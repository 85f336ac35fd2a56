"""What the gate costs: a kilobyte of prose, of mathematics and of code, and a prompt with its tokenizer.

    python benchmarks/gate.py [--rounds 15]

Prints CPU microseconds (medians of interleaved rounds).
"""

import argparse
import statistics
import sys
import time
from pathlib import Path

from mars_env.gate import Marks, break_control_tokens
from mars_env.models.token_gate import gate_of

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "helpers"))
from dialects import Writer, dialect, plain_ids

PROSE = "The quick brown fox jumps over the lazy dog and computes x = 12 + 5. "
MATHS = "We have $a < b$ and $c > d$, so $\\frac{1}{2} \\le 3$ [see (1)]. "
CODE = "if (a[i] < b[j]) { cout << x << endl; } // <div>\n"
TEXTS = {
    name: (text * 40)[:1024] for name, text in (("prose", PROSE), ("mathematics", MATHS), ("code", CODE))
}


def cpu_microseconds(function, argument, repeats):
    begun = time.process_time()
    for _ in range(repeats):
        function(argument)
    return (time.process_time() - begun) / repeats * 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    tokenizer = dialect("chatml")
    guarded = Marks("<problem></problem><solution></solution>").guarded
    calls = {
        "marks of a template": (guarded, str, 2000),
        "control tokens, for a server": (break_control_tokens, str, 2000),
        "control tokens, for a tokenizer": (gate_of(tokenizer).is_plain, _chat, 2000),
        "template and tokenizer alone": (lambda chat: plain_ids(tokenizer, chat), _chat, 100),
        "the same behind the gate": (Writer(tokenizer).encode, _chat, 100),
    }
    seconds = {}
    for _ in range(rounds):
        for name, (function, make, repeats) in calls.items():
            for kind, text in TEXTS.items():
                seconds.setdefault((name, kind), []).append(cpu_microseconds(function, make(text), repeats))
    for (name, kind), values in seconds.items():
        print(f"{name:31} {kind:12} {statistics.median(values):8.2f} µs")


def _chat(text):
    return [
        {"role": "system", "content": "You solve problems of mathematics."},
        {"role": "user", "content": text},
    ]


if __name__ == "__main__":
    main()
