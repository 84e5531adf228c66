"""Answers each line of standard input, as it comes."""

import sys

import ember

with ember.Context(ember.Model(sys.argv[1])) as context:
    chat = ember.Conversation(context, max_tokens=32)
    for line in sys.stdin:
        for event in chat.send(line.rstrip("\n")):
            print(event.text, end="", flush=True)
        print()
