#!/usr/bin/env python3
"""`sluice chat` as a person sees it, on a pseudo terminal. Usage: test_chat_terminal.py PROGRAM SOURCE_DIR"""
import json
import os
import pathlib
import pty
import re
import select
import subprocess
import sys
import tempfile
import time

PROGRAM, SOURCE_DIR = sys.argv[1], pathlib.Path(sys.argv[2])
MODEL = str(SOURCE_DIR / "models/mini-v4")
PROMPT = "\x1b[?2004h> "
FOX = "Tell me a story about a fox."


class Terminal:
    """A chat on a terminal of its own; `screen` is what it has written since the last wait."""

    def __init__(self, home, *options, **environment):
        self.process, self.descriptor = pty.fork()
        if self.process == 0:
            environment = {**os.environ, "TERM": "xterm", "HOME": home, **environment}
            environment.pop("XDG_STATE_HOME", None)
            os.execve(PROGRAM, [PROGRAM, "chat", "--model", MODEL, "--temperature", "0", *options], environment)
        self.screen = ""

    def read_until(self, is_there, what):
        """Reads until the screen satisfies `is_there`."""
        deadline = time.monotonic() + 60
        while not is_there(self.screen):
            ready, _, _ = select.select([self.descriptor], [], [], max(0, deadline - time.monotonic()))
            assert ready, f"{what} does not appear after {self.screen!r}"
            try:
                self.screen += os.read(self.descriptor, 65536).decode(errors="replace")
            except OSError:
                raise AssertionError(f"the chat ended before {what}: {self.screen!r}") from None

    def wait(self, text):
        """Returns the screen up to `text`, which must appear."""
        self.read_until(lambda screen: text in screen, repr(text))
        shown, self.screen = self.screen.split(text, 1)
        return shown

    def wait_for_answer(self):
        """Waits until the model has said something to the line that was typed."""
        self.wait("\x1b[?2004l")
        self.read_until(lambda screen: re.search(r"\w", screen.rsplit("\x1b[K", 1)[-1])
                        and "reading" not in screen.rsplit("\x1b[K", 1)[-1], "an answer")

    def type(self, keys):
        os.write(self.descriptor, keys.encode())

    def end(self):
        """Reads to the end; returns the exit code."""
        try:
            while os.read(self.descriptor, 65536):
                pass
        except OSError:
            pass
        os.close(self.descriptor)
        return os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])


def generate(messages, *options):
    """The answer of `generate` to a conversation."""
    command = [PROGRAM, "generate", "--model", MODEL, "--temperature", "0", "--messages", "-", *options]
    return subprocess.run(command, input=json.dumps(messages), capture_output=True, text=True, check=True).stdout


def check_conversation(home):
    """Streams, dims reasoning and numbers, survives mistakes and Ctrl-C at the prompt, remembers lines."""
    chat = Terminal(home)
    greeting = chat.wait(PROMPT)
    assert "/help lists the commands" in greeting, greeting
    chat.type("What is 37 + 48?\n")
    answer = chat.wait(PROMPT)
    assert re.search(r"\x1b\[2m[^\x1b]+\x1b\[0m\r\n\r\n[^\x1b]+", answer), answer
    assert re.search(r"\x1b\[2m\d+ prompt tokens \(0 cached\), \d+ new at [\d.]+ tokens/s[^\x1b]*\x1b\[0m", answer), answer
    chat.type("/hepl\n")
    assert "did you mean /help?" in chat.wait(PROMPT)
    chat.type("/load ~/none.json\n")
    assert f"{home}/none.json" in chat.wait(PROMPT)
    chat.type("/save\n")
    assert "name a file" in chat.wait(PROMPT), "a file that could not be loaded is no file to save to"
    chat.type("never sent\x03")
    assert "^C" in chat.wait(PROMPT)
    chat.type("/nothink\n")
    assert "Thinking is off." in chat.wait(PROMPT)
    chat.type("\x04")
    assert chat.end() == 0
    history = pathlib.Path(home, ".local/state/sluice/chat_history")
    assert "/nothink" in history.read_text() and "never" not in history.read_text(), history.read_text()

    chat = Terminal(home, NO_COLOR="1")
    chat.wait(PROMPT)
    chat.type("\x1b[A\n")  # the line before, from the file
    assert "Thinking is off." in chat.wait(PROMPT)
    chat.type("/quit\n")
    assert chat.end() == 0


def assert_stopped(message, asked, *options):
    """What was said of an endless answer is its beginning, as far as `generate` is asked for it.

    When it was stopped is chance, and so is what the model says after a stopped answer: damaged markup of a tool
    call is dropped, and a sentence takes its place if nothing else has been said by then.
    """
    said, start = message["content"], generate(asked, *options, "--max-tokens", "200").rstrip("\n")
    assert message["role"] == "assistant" and said, message
    dropped = "[The model's tool call was damaged"
    if not said.startswith(dropped) and not start.startswith(dropped):
        assert said.startswith(start) or start.startswith(said), (said, start)


def check_interrupt(home):
    """Ctrl-C stops an answer; what was said is part of the conversation, in the file and for the model."""
    # Without the token for the end an answer goes on until the context is full.
    endless = ("--no-thinking", "--logit-bias", "1=-100")
    chat = Terminal(home, *endless, "--max-model-len", "8192", "--history", "none")
    chat.wait(PROMPT)
    for question in (FOX, "Hi"):
        chat.type(question + "\n")
        chat.wait_for_answer()
        chat.type("\x03")
        assert "stopped: " in chat.wait(PROMPT)
    chat.type("/save ~/stopped.json\n")
    chat.wait(PROMPT)
    messages = json.loads(pathlib.Path(home, "stopped.json").read_text())["messages"]
    assert [message["content"] for message in messages[::2]] == [FOX, "Hi"], messages
    assert_stopped(messages[1], messages[:1], *endless)
    assert_stopped(messages[3], messages[:3], *endless)
    chat.type("\x04")
    assert chat.end() == 0
    assert not os.path.exists(os.path.join(home, ".local/state/sluice/chat_history"))


def main():
    for check in (check_conversation, check_interrupt):
        with tempfile.TemporaryDirectory() as home:
            check(home)
    print("all passed")


if __name__ == "__main__":
    main()
