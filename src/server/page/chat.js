
/* A conversation: what was said, and its turns on the screen. */

/* Closer than this to the end, in pixels, the conversation follows what comes. */
const FOLLOW_DISTANCE = 80;

/* One answer of the model on the screen, while it comes and afterwards. */
class AnswerView {
  constructor(follow) {
    this.follow = follow;
    this.reasoning = "";
    this.calls = [];
    this.isDrawing = false;
    this.isFinished = false;
    this.summary = make("summary", "", "Thinking …");
    this.thoughts = make("div", "thoughts");
    this.details = make("details", "", this.summary, this.thoughts);
    this.details.hidden = true;
    this.answer = make("div", "answer caret");
    this.callList = make("div", "calls");
    this.notes = make("div", "turn-notes");
    this.root = make("article", "turn model", make("h2", "who", "Model"), this.details, this.answer,
                     this.callList, this.notes);
    this.root.setAttribute("aria-busy", "true");
    this.content = new GrowingText(this.answer);
    this.startTime = performance.now();
    this.thinkingEnd = null;
  }

  /* Takes a delta of a chat chunk. */
  take(delta) {
    const reasoning = delta.reasoning ?? delta.reasoning_content;
    if (reasoning) {
      this.reasoning += reasoning;
    }
    if (delta.content) {
      this.endThinking();
      this.content.append(delta.content);
    }
    for (const part of delta.tool_calls ?? []) {
      this.endThinking();
      this.takeCall(part);
    }
    this.draw();
  }

  takeCall(part) {
    const call = (this.calls[part.index] ??= { id: "", name: "", arguments: "", view: null });
    call.id ||= part.id ?? "";
    call.name += part.function?.name ?? "";
    call.arguments += part.function?.arguments ?? "";
    if (call.view === null) {
      call.view = { name: make("span", "code"), arguments: make("code") };
      call.view.root = make("section", "call", make("p", "call-head", "Calls ", call.view.name),
                            make("pre", "", call.view.arguments));
      this.callList.append(call.view.root);
    }
  }

  endThinking() {
    if (this.reasoning !== "" && this.thinkingEnd === null) {
      this.thinkingEnd = performance.now();
      this.summary.textContent = `Thought for ${((this.thinkingEnd - this.startTime) / 1000).toFixed(1)} s`;
    }
  }

  /* Once per frame, however many chunks come. A page in the background has no frames. */
  draw() {
    if (!this.isDrawing) {
      this.isDrawing = true;
      const drawNow = () => {
        this.isDrawing = false;
        if (!this.isFinished) {
          this.drawNow();
        }
      };
      if (document.hidden) {
        setTimeout(drawNow, 200);
      } else {
        requestAnimationFrame(drawNow);
      }
    }
  }

  drawNow() {
    this.follow(() => {
      this.details.hidden = this.reasoning === "";
      this.thoughts.textContent = this.reasoning;
      this.content.render();
      for (const call of this.calls.filter(Boolean)) {
        call.view.name.textContent = call.name;
        call.view.arguments.textContent = call.arguments;
      }
    });
  }

  /* Nothing comes any more; `notes` say how it ended. */
  finish(notes) {
    this.isFinished = true;
    this.endThinking();
    this.answer.classList.remove("caret");
    this.answer.hidden = this.content.text === "";
    this.root.setAttribute("aria-busy", "false");
    for (const call of this.calls.filter(Boolean)) {
      try {
        call.view.arguments.textContent = JSON.stringify(JSON.parse(call.arguments), null, 2);
      } catch {
        /* cut off: as far as it came */
      }
    }
    if (this.content.text !== "") {
      const copy = make("button", "quiet", "Copy");
      copy.type = "button";
      copy.setAttribute("aria-label", "Copy answer");
      copy.addEventListener("click", () => copyText(copy, this.content.text));
      this.notes.append(copy);
    }
    if (notes !== "") {
      this.notes.append(make("span", "", notes));
    }
  }

  fail(problem) {
    const sentence = make("p", "problem", problem);
    sentence.setAttribute("role", "alert");
    this.notes.before(sentence);
  }

  message() {
    const message = { role: "assistant", content: this.content.text };
    if (this.reasoning !== "") {
      message.reasoning_content = this.reasoning;
    }
    const calls = this.calls.filter(Boolean);
    if (calls.length > 0) {
      message.tool_calls = calls.map((call) => ({
        id: call.id, type: "function", function: { name: call.name, arguments: call.arguments },
      }));
    }
    return message;
  }
}

const chat = {
  messages: [],
  unanswered: [], /* calls that wait for a result: {id, field} */
  abort: null,    /* of the answer under way */

  connect() {
    const prompt = element("prompt");
    element("composer").addEventListener("submit", (event) => {
      event.preventDefault();
      this.sendPrompt();
    });
    prompt.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        this.sendPrompt();
      }
    });
    prompt.addEventListener("input", () => this.fitPrompt());
    element("stop").addEventListener("click", () => this.abort?.abort());
    element("new-chat").addEventListener("click", () => this.clear());
    element("ideas").addEventListener("click", (event) => {
      if (event.target.tagName === "BUTTON") {
        prompt.value = event.target.textContent;
        this.sendPrompt();
      }
    });
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && document.querySelector("dialog[open]") === null) {
        this.abort?.abort();
      }
    });
  },

  fitPrompt() {
    const prompt = element("prompt");
    prompt.style.height = "";
    if (prompt.scrollHeight > prompt.clientHeight) {
      prompt.style.height = `${prompt.scrollHeight}px`;
    }
  },

  clear() {
    this.abort?.abort();
    this.messages = [];
    this.unanswered = [];
    element("turns").replaceChildren();
    element("welcome").hidden = false;
    element("prompt").focus();
    announce("New chat.");
  },

  sendPrompt() {
    const prompt = element("prompt");
    const text = prompt.value;
    if (text.trim() === "" || this.abort !== null) {
      return;
    }
    prompt.value = "";
    this.fitPrompt();
    this.takeResults();
    this.messages.push({ role: "user", content: text });
    const said = make("div", "said", text);
    this.addTurn(make("article", "turn user", make("h2", "sr-only", "You"), said));
    this.answer();
  },

  /* What the user gave as results of calls; one is needed for each before the conversation can go on. */
  takeResults() {
    for (const { id, field } of this.unanswered) {
      field.value ||= "no result";
      this.messages.push({ role: "tool", tool_call_id: id, content: field.value });
      field.readOnly = true;
    }
    this.unanswered = [];
    document.querySelectorAll(".send-results").forEach((button) => button.remove());
  },

  addTurn(turn) {
    element("welcome").hidden = true;
    element("turns").append(turn);
    const scroller = element("scroller");
    scroller.scrollTop = scroller.scrollHeight;
  },

  /* Changes the conversation's last turn and stays at its end, if that is where the user looks. */
  follow(change) {
    const scroller = element("scroller");
    const isAtEnd = scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < FOLLOW_DISTANCE;
    change();
    if (isAtEnd) {
      scroller.scrollTop = scroller.scrollHeight;
    }
  },

  setBusy(isBusy) {
    const hadFocus = document.activeElement === element(isBusy ? "send" : "stop");
    element("send").hidden = isBusy;
    element("stop").hidden = !isBusy;
    if (hadFocus) {
      element(isBusy ? "stop" : "prompt").focus();
    }
  },

  async answer() {
    const messages = this.messages;
    const view = new AnswerView((change) => this.follow(change));
    const end = { reason: null, usage: null, firstTime: null };
    const abort = new AbortController();
    this.abort = abort;
    this.setBusy(true);
    this.addTurn(view.root);
    announce("The model is answering.");
    let problem = "";
    try {
      await this.stream(view, end, abort.signal);
      if (end.reason === null) {
        problem = "The connection ended before the answer did.";
      }
    } catch (error) {
      problem = abort.signal.aborted ? "" : this.sentence(error);
    }
    this.abort = null;
    this.setBusy(false);
    this.follow(() => {
      view.drawNow();
      view.finish(this.notes(view, end, abort.signal.aborted));
      if (problem !== "") {
        view.fail(problem);
      }
      this.offerRetry(view);
    });
    if (messages === this.messages) {
      this.keep(view, abort.signal.aborted);
      announce(problem || (abort.signal.aborted ? "Stopped." : `The model says: ${view.answer.textContent}`));
    }
  },

  async stream(view, end, signal) {
    const system = settings.values.system;
    const messages = system ? [{ role: "system", content: system }, ...this.messages] : this.messages;
    const response = await request("v1/chat/completions", { body: { ...settings.fields(), messages }, signal });
    for await (const chunk of readEvents(response)) {
      if (chunk.error !== undefined) {
        throw new RequestError(0, chunk.error.message);
      }
      end.usage = chunk.usage ?? end.usage;
      for (const choice of chunk.choices ?? []) {
        view.take(choice.delta);
        end.firstTime ??= performance.now();
        end.reason = choice.finish_reason ?? end.reason;
      }
    }
  },

  sentence(error) {
    if (!(error instanceof RequestError)) {
      return "The server cannot be reached, or the connection broke.";
    }
    return error.retryAfter > 0 ? `${error.message} Try again in ${error.retryAfter} s.` : error.message;
  },

  notes(view, end, isStopped) {
    const notes = [];
    if (isStopped) {
      notes.push("stopped");
    } else if (end.reason === "stop" && view.content.text === "") {
      notes.push("the model ended without an answer");
    } else if (end.reason === "length") {
      notes.push("cut off at the token limit");
    }
    if (end.usage !== null) {
      const seconds = (performance.now() - end.firstTime) / 1000;
      const count = end.usage.completion_tokens;
      notes.push(`${count} tokens`);
      if (count > 1 && seconds > 0) {
        notes.push(`${((count - 1) / seconds).toFixed(1)} tokens/s`);
      }
      const cached = end.usage.prompt_tokens_details?.cached_tokens ?? 0;
      notes.push(`prompt ${end.usage.prompt_tokens}${cached > 0 ? `, ${cached} from cache` : ""}`);
    }
    return notes.join(" · ");
  },

  /* What came becomes part of the conversation; of an answer that was cut off no calls. */
  keep(view, isStopped) {
    const message = view.message();
    if (isStopped) {
      delete message.tool_calls;
    }
    if (message.content === "" && message.tool_calls === undefined) {
      return;
    }
    this.messages.push(message);
    if (message.tool_calls !== undefined) {
      this.askForResults(view);
    }
  },

  askForResults(view) {
    const calls = view.calls.filter(Boolean);
    this.follow(() => {
      calls.forEach((call, i) => {
        const field = make("textarea");
        field.id = `result-${call.id}-${this.messages.length}-${i}`;
        field.rows = 2;
        const label = make("label", "", `Result of ${call.name}`);
        label.htmlFor = field.id;
        call.view.root.append(make("div", "call-reply", label, field));
        this.unanswered.push({ id: call.id, field });
      });
      const send = make("button", "primary send-results", calls.length > 1 ? "Send results" : "Send result");
      send.type = "button";
      send.addEventListener("click", () => {
        if (this.abort === null) {
          this.takeResults();
          this.answer();
        }
      });
      view.notes.prepend(send);
    });
  },

  /* The last answer, and only that one, can be asked for again. */
  offerRetry(view) {
    document.querySelectorAll(".retry").forEach((button) => button.remove());
    const retry = make("button", "quiet retry", "Try again");
    retry.type = "button";
    retry.addEventListener("click", () => {
      if (this.abort === null) {
        if (this.messages.at(-1)?.role === "assistant") {
          this.messages.pop();
        }
        this.unanswered = [];
        view.root.remove();
        this.answer();
      }
    });
    view.notes.insertBefore(retry, view.notes.querySelector("span"));
  },
};
