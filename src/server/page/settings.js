
/* What the user chose; kept in the browser. The model's own sampling holds where a field is empty. */

const NUMBER_FIELDS = [
  "max_tokens", "temperature", "top_p", "top_k", "min_p", "presence_penalty", "frequency_penalty",
  "repetition_penalty", "seed",
];
const TEXT_FIELDS = ["system", "thinking", "tools"];

const settings = {
  values: {},

  load() {
    try {
      this.values = JSON.parse(localStorage.getItem("sluice.settings")) ?? {};
    } catch {
      this.values = {};
    }
  },

  save() {
    localStorage.setItem("sluice.settings", JSON.stringify(this.values));
  },

  /* The names that the server answers to; the one chosen before, if it is among them. */
  setModels(names) {
    const select = element("model");
    select.replaceChildren(...names.map((name) => new Option(name, name)));
    if (!names.includes(this.values.model)) {
      this.values.model = names[0];
    }
    select.value = this.values.model;
    element("welcome-model").textContent = this.values.model;
  },

  /* The fields of a chat request that are not messages. */
  fields() {
    const fields = { model: this.values.model, stream: true, stream_options: { include_usage: true } };
    for (const name of NUMBER_FIELDS) {
      if (this.values[name] !== undefined) {
        fields[name] = this.values[name];
      }
    }
    const thinking = this.values.thinking ?? "";
    if (thinking !== "") {
      fields.chat_template_kwargs = { thinking: thinking !== "off" };
    }
    if (thinking === "high" || thinking === "max") {
      fields.reasoning_effort = thinking;
    }
    if (this.values.tools) {
      fields.tools = JSON.parse(this.values.tools);
    }
    return fields;
  },

  show() {
    for (const name of [...NUMBER_FIELDS, ...TEXT_FIELDS]) {
      const field = element(name);
      field.value = this.values[name] ?? "";
      field.removeAttribute("aria-invalid");
    }
    element("model").value = this.values.model ?? "";
    element("settings-key").value = apiKey.get();
    element("settings-problem").textContent = "";
  },

  /* Takes the form's fields, or says what is wrong with one of them. */
  read() {
    const values = { model: element("model").value || this.values.model };
    for (const name of NUMBER_FIELDS) {
      const field = element(name);
      if (!field.checkValidity()) {
        return this.refuse(field, `${field.labels[0].textContent}: ${field.validationMessage}`);
      }
      if (field.value !== "") {
        values[name] = Number(field.value);
      }
    }
    for (const name of TEXT_FIELDS) {
      if (element(name).value.trim() !== "") {
        values[name] = element(name).value;
      }
    }
    try {
      if (values.tools !== undefined && !Array.isArray(JSON.parse(values.tools))) {
        return this.refuse(element("tools"), "Tools: this must be an array: [ … ].");
      }
    } catch (error) {
      return this.refuse(element("tools"), `Tools: this is no JSON (${error.message}).`);
    }
    this.values = values;
    return true;
  },

  refuse(field, problem) {
    element("settings-problem").textContent = problem;
    field.setAttribute("aria-invalid", "true");
    field.focus();
    return false;
  },

  /* `changed` is called when something was saved. */
  connect(changed) {
    const dialog = element("settings");
    element("open-settings").addEventListener("click", () => {
      this.show();
      dialog.showModal();
    });
    element("cancel-settings").addEventListener("click", () => dialog.close());
    element("reset-settings").addEventListener("click", () => {
      for (const name of [...NUMBER_FIELDS, ...TEXT_FIELDS]) {
        element(name).value = "";
      }
      announce("All fields are empty now; nothing is saved yet.");
    });
    element("settings-form").addEventListener("submit", (event) => {
      event.preventDefault();
      if (this.read()) {
        apiKey.set(element("settings-key").value.trim());
        this.save();
        dialog.close();
        changed();
      }
    });
  },
};
