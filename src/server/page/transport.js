
/* Requests to this server, and the API key they may need. */

const element = (id) => document.getElementById(id);

/* An element with a class, a text and children. */
function make(tag, className, ...children) {
  const node = document.createElement(tag);
  if (className) {
    node.className = className;
  }
  node.append(...children);
  return node;
}

function announce(text) {
  element("announcer").textContent = text;
}

class RequestError extends Error {
  constructor(status, message, retryAfter) {
    super(message);
    this.status = status;
    this.retryAfter = retryAfter;
  }
}

/* The key lives as long as the tab. `asked` is the question on the screen, which all who need a key wait for. */
const apiKey = {
  asked: null,

  get() {
    return sessionStorage.getItem("sluice.key") ?? "";
  },

  set(key) {
    if (key === "") {
      sessionStorage.removeItem("sluice.key");
    } else {
      sessionStorage.setItem("sluice.key", key);
    }
  },

  /* Resolves to whether there is a new key. */
  ask(problem) {
    if (this.asked === null) {
      this.asked = new Promise((resolve) => this.show(problem, resolve)).finally(() => {
        this.asked = null;
      });
    }
    return this.asked;
  },

  show(problem, resolve) {
    const dialog = element("key-dialog");
    let isGiven = false;
    element("key").value = "";
    element("key-problem").textContent = problem;
    element("key-form").onsubmit = (event) => {
      event.preventDefault();
      const key = element("key").value.trim();
      if (key === "") {
        element("key-problem").textContent = "Enter the key, or cancel.";
        element("key").focus();
        return;
      }
      this.set(key);
      isGiven = true;
      dialog.close();
    };
    element("cancel-key").onclick = () => dialog.close();
    dialog.onclose = () => resolve(isGiven);
    dialog.showModal();
  },
};

/* The sentence in an error's body. */
async function errorOf(response) {
  let message = `The server answered with status ${response.status}.`;
  try {
    const body = await response.json();
    message = body.error?.message ?? message;
  } catch {
    /* no JSON: the status has to do */
  }
  return new RequestError(response.status, message, Number(response.headers.get("retry-after")) || 0);
}

/* A successful response. Asks for a key, until one fits, unless the request is `silent`. */
async function request(path, { body, signal, silent = false } = {}) {
  for (;;) {
    const key = apiKey.get();
    const headers = key === "" ? {} : { authorization: `Bearer ${key}` };
    if (body !== undefined) {
      headers["content-type"] = "application/json";
    }
    const response = await fetch(path, {
      method: body === undefined ? "GET" : "POST",
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal,
      cache: "no-store",
    });
    if (response.ok) {
      return response;
    }
    const error = await errorOf(response);
    if (response.status !== 401 || silent) {
      throw error;
    }
    /* Another request may have brought a new key while this one was under way. */
    if (apiKey.get() === key && !(await apiKey.ask(key === "" ? "" : "That key does not fit."))) {
      throw error;
    }
  }
}

/* The data of a response's server-sent events, up to [DONE]; comments are skipped. */
async function* readEvents(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let data = [];
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) {
        return;
      }
      const lines = (rest + value).split("\n");
      rest = lines.pop();
      for (const full of lines) {
        const line = full.endsWith("\r") ? full.slice(0, -1) : full;
        if (line.startsWith("data:")) {
          data.push(line.slice(line[5] === " " ? 6 : 5));
        } else if (line === "" && data.length > 0) {
          const text = data.join("\n");
          data = [];
          if (text === "[DONE]") {
            return;
          }
          yield JSON.parse(text);
        }
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
