#!/usr/bin/env python3
"""The Python packages openai and anthropic against a server: test_clients.py PROGRAM SOURCE_DIR VENV_DIR [--record]

The packages go into a virtual environment, once. At the end, and alone where they cannot be had, the requests that
they sent when recorded_requests.json was made are sent again: the replies must have the fields that they had then.
Texts are mini-v4's at temperature 0; what they must be is known from its own training data.
"""
import asyncio
import json
import math
import os
import subprocess
import sys
from typing import Literal

from recorded_requests import Recorder, replay
from serve_program import Serve

PROGRAM, SOURCE_DIR, VENV_DIR = sys.argv[1:4]
HERE = os.path.dirname(os.path.abspath(__file__))
REQUIREMENTS = os.path.join(HERE, "client_requirements.txt")
RECORDED = os.path.join(HERE, "recorded_requests.json")
KEY = "a-key-for-clients"

PERU = "What is the capital of Peru?"
FOX = "Tell me a story about a fox."
ROME = "What is the weather in Rome?"
ROSA = "Rosa has 41 figs and buys 17 more. How many figs does Rosa have now?"
LIMA = "The capital of Peru is Lima."
NO_THINKING = {"chat_template_kwargs": {"thinking": False}}
WEATHER = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"],
           "additionalProperties": False}


def user(text):
    return [{"role": "user", "content": text}]


def make_environment():
    """The interpreter of an environment that has the packages; None if they cannot be had."""
    python = os.path.join(VENV_DIR, "bin", "python")
    try:
        if subprocess.run([python, "-c", "import openai, anthropic"], check=False).returncode == 0:
            return python
    except OSError:
        pass  # there is no such environment yet
    try:
        subprocess.run([sys.executable, "-m", "venv", VENV_DIR], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", REQUIREMENTS],
                       check=True, timeout=300)
    except (subprocess.SubprocessError, OSError) as error:
        print(f"the packages cannot be installed ({error})")
        return None
    return python


class ClientTest:
    def __init__(self, server, recorder):
        self.url = f"http://127.0.0.1:{server.address}"
        hooks = {"response": [recorder.response]} if recorder else {}
        self.make_http = lambda package: package.DefaultHttpxClient(event_hooks=hooks)
        self.openai = openai.OpenAI(base_url=self.url + "/v1", api_key=KEY, max_retries=0,
                                    http_client=self.make_http(openai))
        self.anthropic = anthropic.Anthropic(base_url=self.url, api_key=KEY, max_retries=0,
                                             http_client=self.make_http(anthropic))

    def chat(self, text, **fields):
        fields = {"extra_body": NO_THINKING, "temperature": 0, "model": "mini"} | fields
        return self.openai.chat.completions.create(messages=user(text), **fields)

    def test_models(self):
        assert [model.id for model in self.openai.models.list()] == ["mini"]
        assert self.openai.models.retrieve("mini").object == "model"

    def test_chat(self):
        reply = self.chat(PERU)
        assert reply.choices[0].message.content == LIMA and reply.choices[0].finish_reason == "stop"
        assert reply.usage.completion_tokens == 8
        assert reply.usage.total_tokens == reply.usage.prompt_tokens + 8
        reply = self.chat(FOX, max_completion_tokens=5)
        assert (reply.choices[0].finish_reason, reply.usage.completion_tokens) == ("length", 5)

    def test_chat_stream(self):
        """The pieces are the whole; the usage comes last, by itself."""
        whole = self.chat(FOX).choices[0].message.content
        chunks = list(self.chat(FOX, stream=True, stream_options={"include_usage": True}))
        pieces = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
        assert "".join(pieces) == whole and len([piece for piece in pieces if piece]) > 20
        assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
        assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens > 20
        with self.openai.chat.completions.stream(messages=user(FOX), model="mini", temperature=0,
                                                 extra_body=NO_THINKING) as stream:
            stream.until_done()
            assert stream.get_final_completion().choices[0].message.content == whole

    def test_leaving(self):
        """A stream that is closed early leaves the client and the server usable."""
        stream = self.chat(FOX, stream=True)
        next(iter(stream))
        stream.close()
        assert self.chat(PERU).choices[0].message.content == LIMA

    def test_thinking(self):
        reply = self.chat(ROSA, extra_body={"chat_template_kwargs": {"thinking": True}})
        message = reply.choices[0].message
        assert "Rosa has 58 figs." in message.content
        assert message.reasoning == message.reasoning_content and "41 + 17 = 58" in message.reasoning
        assert 0 < reply.usage.completion_tokens_details.reasoning_tokens < reply.usage.completion_tokens

    def test_tools(self):
        """A call, whole and streamed, its result, and what the choice of tools does."""
        tools = [{"type": "function", "function": {"name": "get_weather", "parameters": WEATHER}}]
        message = self.chat(ROME, tools=tools).choices[0].message
        call = message.tool_calls[0]
        assert call.function.name == "get_weather" and json.loads(call.function.arguments) == {"city": "Rome"}
        with self.openai.chat.completions.stream(messages=user(ROME), model="mini", temperature=0, tools=tools,
                                                 extra_body=NO_THINKING) as stream:
            pieces = [event.arguments_delta for event in stream if event.type == "tool_calls.function.arguments.delta"]
            final = stream.get_final_completion().choices[0]
        assert json.loads("".join(pieces)) == {"city": "Rome"} and final.finish_reason == "tool_calls"
        result = {"role": "tool", "tool_call_id": call.id, "content": "sunny, 21 degrees"}
        messages = [*user(ROME), message.model_dump(exclude_none=True), result]
        after = self.openai.chat.completions.create(model="mini", messages=messages, tools=tools, temperature=0,
                                                    extra_body=NO_THINKING, max_tokens=60)
        assert after.choices[0].message.content == "In Rome it is sunny and 21 degrees."
        for choice in ("required", {"type": "function", "function": {"name": "get_weather"}}):
            calls = self.chat(PERU, tools=tools, tool_choice=choice, max_tokens=200).choices[0].message.tool_calls
            assert calls and all(set(json.loads(call.function.arguments)) == {"city"} for call in calls)
        assert not self.chat(PERU, tools=tools, tool_choice="none").choices[0].message.tool_calls

    def test_structured(self):
        """What comes back has the form that was asked for, whatever the model would rather say."""
        class City(pydantic.BaseModel):
            name: Literal["Lima", "Rome", "Cuzco"]
            is_capital: bool

        for thinking in (False, True):
            reply = self.openai.chat.completions.parse(
                model="mini", messages=user(PERU), response_format=City, temperature=0.7, seed=3,
                extra_body={"chat_template_kwargs": {"thinking": thinking}})
            assert isinstance(reply.choices[0].message.parsed, City), reply
        for form, check in (({"regex": "[0-9]{3}-[a-f]{2}"}, lambda text: len(text) == 6 and text[3] == "-"),
                            ({"choice": ["yes", "no"]}, lambda text: text in ("yes", "no"))):
            text = self.chat(FOX, extra_body=NO_THINKING | {"structured_outputs": form}).choices[0].message.content
            assert check(text), text
        text = self.chat(FOX, response_format={"type": "json_object"}, max_tokens=300).choices[0]
        assert text.finish_reason == "length" or isinstance(json.loads(text.message.content), dict)

    def test_log_probabilities(self):
        """Greedy: each token is the likeliest of those given; no distribution adds up to more than one."""
        content = self.chat(PERU, logprobs=True, top_logprobs=4).choices[0].logprobs.content
        assert b"".join(bytes(token.bytes) for token in content).decode().startswith(LIMA)
        for token in content:
            assert token.logprob == max(other.logprob for other in token.top_logprobs) <= 0
            assert sum(math.exp(other.logprob) for other in token.top_logprobs) <= 1 + 1e-5
            assert token.token == token.top_logprobs[0].token and len(token.top_logprobs) == 4

    def test_choices_and_seeds(self):
        """The same seed gives the same texts, another one others; choices differ from each other."""
        def texts(seed):
            reply = self.chat(FOX, n=3, seed=seed, temperature=1.0, max_tokens=40)
            assert [choice.index for choice in reply.choices] == [0, 1, 2]
            return [choice.message.content for choice in reply.choices]

        first = texts(11)
        assert texts(11) == first and texts(12) != first and len(set(first)) == 3

    def test_stop(self):
        whole = self.chat(FOX).choices[0].message.content
        choice = self.chat(FOX, stop=["hungry", "never said"]).choices[0]
        assert choice.message.content == whole[:whole.index("hungry")] and choice.finish_reason == "stop"
        assert choice.stop_reason == "hungry"

    def test_completions(self):
        """Texts, ids and lists of both; echo with log-probabilities covers the prompt."""
        create = lambda prompt, **fields: self.openai.completions.create(model="mini", prompt=prompt, temperature=0,
                                                                          **fields)
        text = create("Once upon a time", max_tokens=8).choices[0].text
        assert len(text) > 8
        ids = self.openai.post(self.url + "/tokenize", cast_to=object,
                               body={"prompt": "Once upon a time"})["tokens"]
        assert create(ids, max_tokens=8).choices[0].text == text
        two = create(["Once upon a time", "Once upon a time"], max_tokens=8).choices
        assert [choice.text for choice in two] == [text, text] and [choice.index for choice in two] == [0, 1]
        pieces = [chunk.choices[0].text for chunk in create("Once upon a time", max_tokens=8, stream=True)]
        assert "".join(pieces) == text
        scored = create("Once upon a time", max_tokens=1, echo=True, logprobs=1).choices[0]
        numbers = scored.logprobs.token_logprobs
        assert numbers[0] is None and len(numbers) == len(ids) + 1 and all(number <= 0 for number in numbers[1:])
        assert scored.text.startswith("Once upon a time") and "".join(scored.logprobs.tokens[1:]) in scored.text

    def test_evaluation(self):
        """As lm-evaluation-harness scores: what the model itself would say is greedy, anything else is not."""
        def post(path, **body):
            return self.openai.post(self.url + path, cast_to=object, body={"model": "mini"} | body)

        prompt = post("/tokenize", prompt="Once upon a time", add_special_tokens=False)["tokens"]
        said = post("/v1/completions", prompt=prompt, temperature=0, max_tokens=4, return_token_ids=True)
        said = said["choices"][0]["token_ids"]
        other = said[:-1] + [(said[-1] + 1) % 4000]
        reply = post("/v1/completions", prompt=[prompt + said, prompt + other], temperature=0, max_tokens=1, logprobs=1,
                     seed=1234, echo=True)
        scores = []
        for choice in reply["choices"]:
            tokens = choice["logprobs"]["token_logprobs"][len(prompt):-1]
            top = choice["logprobs"]["top_logprobs"][len(prompt):-1]
            assert len(tokens) == len(said)
            scores.append((all(token == max(best.values()) for token, best in zip(tokens, top)), sum(tokens)))
        assert [is_greedy for is_greedy, _ in scores] == [True, False] and scores[0][1] > scores[1][1], scores

    def test_responses(self):
        """Made, streamed, kept, continued and deleted."""
        create = lambda **fields: self.openai.responses.create(**{"model": "mini", "temperature": 0,
                                                                  "reasoning": {"effort": "none"}} | fields)
        first = create(input=PERU)
        assert first.output_text == LIMA and first.status == "completed" and first.usage.output_tokens == 8
        assert self.openai.responses.retrieve(first.id).output_text == LIMA
        second = create(input="What is the opposite of hot?", previous_response_id=first.id)
        assert second.usage.input_tokens > first.usage.total_tokens and second.previous_response_id == first.id
        self.openai.responses.delete(first.id)
        self.expect(openai.NotFoundError, lambda: self.openai.responses.retrieve(first.id))
        events = list(create(input=PERU, stream=True))
        kinds = [event.type for event in events]
        assert kinds[:2] == ["response.created", "response.in_progress"] and kinds[-1] == "response.completed"
        assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == LIMA
        assert [event.sequence_number for event in events] == list(range(len(events)))
        with self.openai.responses.stream(model="mini", input=PERU, temperature=0, reasoning={"effort": "none"}) as stream:
            assert stream.until_done().get_final_response().output_text == LIMA

    def test_responses_with_form(self):
        tools = [{"type": "function", "name": "get_weather", "parameters": WEATHER, "strict": True}]
        reply = self.openai.responses.create(model="mini", input=ROME, tools=tools, temperature=0,
                                             reasoning={"effort": "none"})
        call = next(item for item in reply.output if item.type == "function_call")
        assert call.name == "get_weather" and json.loads(call.arguments) == {"city": "Rome"}
        after = self.openai.responses.create(
            model="mini", tools=tools, temperature=0, max_output_tokens=60, reasoning={"effort": "none"},
            previous_response_id=reply.id,
            input=[{"type": "function_call_output", "call_id": call.call_id, "output": "sunny, 21 degrees"}])
        assert after.output_text == "In Rome it is sunny and 21 degrees."

        class Answer(pydantic.BaseModel):
            sure: bool

        parsed = self.openai.responses.parse(model="mini", input=PERU, text_format=Answer, temperature=0,
                                             reasoning={"effort": "none"})
        assert isinstance(parsed.output_parsed, Answer)

    def messages(self, text, **fields):
        fields = {"extra_body": {"temperature": 0}, "max_tokens": 200, "model": "mini",
                  "thinking": {"type": "disabled"}} | fields
        return self.anthropic.messages.create(messages=user(text), **fields)

    def test_messages(self):
        reply = self.messages(PERU)
        assert [block.type for block in reply.content] == ["text"] and reply.content[0].text == LIMA
        assert reply.stop_reason == "end_turn" and reply.usage.output_tokens == 8
        count = self.anthropic.messages.count_tokens(model="mini", messages=user(PERU),
                                                     thinking={"type": "disabled"})
        assert count.input_tokens == reply.usage.input_tokens
        with_system = self.messages(PERU, system=[{"type": "text", "text": "You are a kind teacher."}])
        assert with_system.usage.input_tokens > reply.usage.input_tokens
        assert self.messages(FOX, max_tokens=5).stop_reason == "max_tokens"
        stopped = self.messages(FOX, stop_sequences=["hungry"])
        assert (stopped.stop_reason, stopped.stop_sequence) == ("stop_sequence", "hungry")
        with self.anthropic.messages.stream(model="mini", max_tokens=200, messages=user(PERU),
                                            thinking={"type": "disabled"}, extra_body={"temperature": 0}) as stream:
            assert "".join(stream.text_stream) == LIMA
            final = stream.get_final_message()
        assert final.usage.input_tokens == reply.usage.input_tokens and final.usage.output_tokens == 8

    def test_messages_thinking(self):
        for thinking in ({"type": "enabled", "budget_tokens": 1024}, {"type": "adaptive"}):
            reply = self.messages(ROSA, thinking=thinking, max_tokens=2000)
            assert [block.type for block in reply.content] == ["thinking", "text"], reply
            assert "41 + 17 = 58" in reply.content[0].thinking and "58" in reply.content[1].text
        again = self.anthropic.messages.create(
            model="mini", max_tokens=50, extra_body={"temperature": 0}, thinking=thinking,
            messages=[*user(ROSA), {"role": "assistant", "content": reply.content}, *user(PERU)])
        assert again.usage.input_tokens > reply.usage.input_tokens

    def test_messages_tools(self):
        tools = [{"name": "get_weather", "description": "Current weather in a city.", "input_schema": WEATHER}]
        reply = self.messages(ROME, tools=tools)
        use = reply.content[-1]
        assert (use.type, use.name, use.input, reply.stop_reason) == ("tool_use", "get_weather", {"city": "Rome"},
                                                                      "tool_use")
        result = {"type": "tool_result", "tool_use_id": use.id, "content": [{"type": "text", "text": "sunny, 21 degrees"}]}
        after = self.anthropic.messages.create(
            model="mini", max_tokens=60, tools=tools, extra_body={"temperature": 0}, thinking={"type": "disabled"},
            messages=[*user(ROME), {"role": "assistant", "content": reply.content},
                      {"role": "user", "content": [result]}])
        assert [block.text for block in after.content] == ["In Rome it is sunny and 21 degrees."]
        with self.anthropic.messages.stream(model="mini", max_tokens=200, messages=user(ROME), tools=tools,
                                            extra_body={"temperature": 0}) as stream:
            pieces = [event.partial_json for event in stream if event.type == "input_json"]
            assert stream.get_final_message().content[-1].input == {"city": "Rome"}
        assert json.loads("".join(pieces)) == {"city": "Rome"}
        for choice in ({"type": "any"}, {"type": "tool", "name": "get_weather"}):
            forced = self.messages(PERU, tools=tools, tool_choice=choice)
            assert forced.content[-1].type == "tool_use" and set(forced.content[-1].input) == {"city"}

    def test_messages_structured(self):
        class Answer(pydantic.BaseModel):
            sure: bool

        reply = self.anthropic.messages.parse(model="mini", max_tokens=100, messages=user(PERU), output_format=Answer,
                                              extra_body={"temperature": 0})
        assert isinstance(reply.parsed_output, Answer), reply

    def expect(self, kind, call):
        try:
            call()
        except kind as error:
            return error
        raise AssertionError(f"{kind.__name__} was expected")

    def test_errors(self):
        """Each refusal is the class that the package has for it, and says which field is at fault."""
        error = self.expect(openai.BadRequestError, lambda: self.chat(PERU, temperature=-1))
        assert error.param == "temperature" and "temperature" in error.body["message"], error.body
        self.expect(openai.NotFoundError, lambda: self.chat(PERU, model="no-such-model"))
        stranger = openai.OpenAI(base_url=self.url + "/v1", api_key="wrong", max_retries=0,
                                 http_client=self.make_http(openai))
        self.expect(openai.AuthenticationError, stranger.models.list)
        self.expect(openai.BadRequestError, lambda: self.chat("word " * 20000))
        self.expect(openai.BadRequestError, lambda: self.chat(PERU, response_format={
            "type": "json_schema", "json_schema": {"name": "bad", "schema": {"type": "no such type"}}}))
        self.expect(openai.NotFoundError, lambda: self.openai.responses.retrieve("resp_none"))
        error = self.expect(anthropic.BadRequestError, lambda: self.messages(PERU, extra_body={"temperature": -1}))
        assert error.body["error"]["type"] == "invalid_request_error" and "temperature" in error.message
        self.expect(anthropic.NotFoundError, lambda: self.messages(PERU, model="no-such-model"))
        stranger = anthropic.Anthropic(base_url=self.url, api_key="wrong", max_retries=0,
                                       http_client=self.make_http(anthropic))
        self.expect(anthropic.AuthenticationError, lambda: stranger.messages.count_tokens(model="mini",
                                                                                          messages=user(PERU)))

    def test_many(self):
        """Twelve streams at once, each as it is alone."""
        alone = self.chat(FOX).choices[0].message.content

        async def ask(client):
            stream = await client.chat.completions.create(model="mini", messages=user(FOX), temperature=0, stream=True,
                                                          extra_body=NO_THINKING)
            return "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])

        async def ask_all():
            async with openai.AsyncOpenAI(base_url=self.url + "/v1", api_key=KEY, max_retries=0) as client:
                return await asyncio.gather(*[ask(client) for _ in range(12)])

        assert asyncio.run(ask_all()) == [alone] * 12


def serve():
    return Serve(PROGRAM, os.path.join(SOURCE_DIR, "models/mini-v4"), "--api-key", KEY, "--served-model-name", "mini",
                 "--max-model-len", "8192", "--speculative-config", '{"method": "mtp", "num_speculative_tokens": 2}')


def run_clients():
    recorder = Recorder(KEY) if "--record" in sys.argv else None
    with serve() as server:
        test = ClientTest(server, recorder)
        for name in dir(test):
            if name.startswith("test_"):
                print(name, flush=True)
                getattr(test, name)()
        if recorder:
            recorder.save(RECORDED)
        replay(RECORDED, server, KEY)


def main():
    if sys.prefix == os.path.realpath(VENV_DIR):
        run_clients()
        return
    python = make_environment()
    if python is not None:
        os.execv(python, [python, *sys.argv])
    print("no packages here: recorded requests are sent instead")
    with serve() as server:
        replay(RECORDED, server, KEY)


if sys.prefix == os.path.realpath(VENV_DIR):
    import anthropic
    import openai
    import pydantic

main()
