
/*
 * The part of Markdown that models write, as nodes: never as HTML, so that what a model says cannot become
 * part of the page. Pictures are left as text: the page asks no other server for anything.
 */

/* A block with more characters than this is shown as it is: patterns must not take a second per frame. */
const INLINE_LIMIT = 20000;

const INLINE = new RegExp(
  [
    "(`+)(?<code>[^`]|[^`].*?[^`])\\1(?!`)",
    "\\*\\*(?<strong>\\S|\\S.*?\\S)\\*\\*",
    "(?<![\\w*])[*_](?<em>[^\\s*_]|[^\\s*_][^*_]*?[^\\s*_])[*_](?![\\w*])",
    "(?<!!)\\[(?<label>[^\\]]+)\\]\\((?<target>https?://[^\\s)]+)\\)",
  ].join("|"),
  "s",
);

function appendInline(parent, text) {
  let rest = text;
  while (rest !== "") {
    const match = rest.length > INLINE_LIMIT ? null : INLINE.exec(rest);
    if (match === null) {
      parent.append(rest);
      return;
    }
    parent.append(rest.slice(0, match.index));
    const { code, strong, em, label, target } = match.groups;
    if (code !== undefined) {
      parent.append(make("code", "", code.trim()));
    } else if (target !== undefined) {
      const link = make("a", "", label);
      link.href = target;
      link.rel = "noopener noreferrer";
      link.target = "_blank";
      parent.append(link);
    } else {
      const node = make(strong === undefined ? "em" : "strong");
      appendInline(node, strong ?? em);
      parent.append(node);
    }
    rest = rest.slice(match.index + match[0].length);
  }
}

function makeInline(tag, text) {
  const node = make(tag);
  appendInline(node, text);
  return node;
}

function makeCodeBlock(language, code) {
  const copy = make("button", "quiet", "Copy");
  copy.type = "button";
  copy.setAttribute("aria-label", "Copy code");
  copy.addEventListener("click", () => copyText(copy, code));
  const pre = make("pre", "", make("code", "", code));
  pre.tabIndex = 0;
  return make("div", "block", make("div", "block-head", make("span", "", language || "text"), copy), pre);
}

/* Shows on the button that it worked. */
async function copyText(button, text) {
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Not allowed";
  }
  announce(button.textContent);
  setTimeout(() => {
    button.textContent = "Copy";
  }, 1500);
}

const FENCE = /^ {0,3}(```+|~~~+)\s*(\S*)/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const HEADING = /^(#{1,6})\s+(.*?)\s*#*$/;
const RULE = /^ {0,3}([-*_])(\s*\1){2,}\s*$/;
const TABLE_RULE = /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/;

const cellsOf = (line) => line.trim().replace(/^\||\|$/g, "").split("|").map((cell) => cell.trim());

/* Where the block that begins at a line ends, and how it is made. */
const blockReaders = [
  function readFence(lines, start) {
    const fence = FENCE.exec(lines[start]);
    if (fence === null) {
      return null;
    }
    let end = start + 1;
    while (end < lines.length && !lines[end].trimStart().startsWith(fence[1])) {
      end++;
    }
    return { end: end + 1, node: makeCodeBlock(fence[2], lines.slice(start + 1, end).join("\n")) };
  },

  function readHeading(lines, start) {
    const heading = HEADING.exec(lines[start]);
    /* The page's own headings are above. */
    return heading && { end: start + 1, node: makeInline(`h${Math.min(heading[1].length + 2, 5)}`, heading[2]) };
  },

  function readRule(lines, start) {
    return RULE.test(lines[start]) ? { end: start + 1, node: make("hr") } : null;
  },

  function readList(lines, start) {
    if (!ITEM.test(lines[start])) {
      return null;
    }
    let end = start;
    while (end < lines.length && lines[end].trim() !== "" && (ITEM.test(lines[end]) || /^\s/.test(lines[end]))) {
      end++;
    }
    return { end, node: makeList(lines.slice(start, end)) };
  },

  function readQuote(lines, start) {
    let end = start;
    while (end < lines.length && lines[end].startsWith(">")) {
      end++;
    }
    const quoted = lines.slice(start, end).map((line) => line.replace(/^> ?/, ""));
    return end === start ? null : { end, node: makeInline("blockquote", quoted.join("\n")) };
  },

  function readTable(lines, start) {
    if (!lines[start].includes("|") || !TABLE_RULE.test(lines[start + 1] ?? "")) {
      return null;
    }
    let end = start + 2;
    while (end < lines.length && lines[end].includes("|")) {
      end++;
    }
    const row = (tag, line) => make("tr", "", ...cellsOf(line).map((cell) => makeInline(tag, cell)));
    const body = make("tbody", "", ...lines.slice(start + 2, end).map((line) => row("td", line)));
    const table = make("table", "", make("thead", "", row("th", lines[start])), body);
    return { end, node: make("div", "table", table) };
  },
];

/* Lists within lists by their indent. */
function makeList(lines) {
  const open = [];
  let root = null;
  for (const line of lines) {
    const item = ITEM.exec(line);
    if (item === null) {
      open.at(-1).list.lastElementChild.append(" ", line.trim());
      continue;
    }
    while (open.length > 1 && item[1].length < open.at(-1).indent) {
      open.pop();
    }
    if (open.length === 0 || item[1].length > open.at(-1).indent + 1) {
      const list = make(/\d/.test(item[2]) ? "ol" : "ul");
      if (list.tagName === "OL") {
        list.start = parseInt(item[2], 10);
      }
      if (open.length === 0) {
        root = list;
      } else {
        open.at(-1).list.lastElementChild.append(list);
      }
      open.push({ list, indent: item[1].length });
    }
    open.at(-1).list.append(makeInline("li", item[3]));
  }
  return root;
}

/* The nodes of a text. */
function renderMarkdown(text) {
  const lines = text.split("\n");
  const nodes = [];
  let paragraph = [];
  const endParagraph = () => {
    if (paragraph.length > 0) {
      nodes.push(makeInline("p", paragraph.join("\n")));
      paragraph = [];
    }
  };
  for (let i = 0; i < lines.length; ) {
    const block = blockReaders.reduce((found, read) => found ?? read(lines, i), null);
    if (block !== null) {
      endParagraph();
      nodes.push(block.node);
      i = block.end;
    } else if (lines[i].trim() === "") {
      endParagraph();
      i++;
    } else {
      paragraph.push(lines[i]);
      i++;
    }
  }
  endParagraph();
  return nodes;
}

/*
 * A text that grows: what stands before the last empty line outside of a code block is rendered once, only the
 * rest again with each change.
 */
class GrowingText {
  constructor(parent) {
    this.parent = parent;
    this.text = "";
    this.settled = 0; /* characters of finished blocks */
    this.tail = [];
  }

  append(text) {
    this.text += text;
  }

  render() {
    const end = this.endOfSettled();
    this.tail.forEach((node) => node.remove());
    if (end > this.settled) {
      this.parent.append(...renderMarkdown(this.text.slice(this.settled, end)));
      this.settled = end;
    }
    this.tail = renderMarkdown(this.text.slice(this.settled));
    this.parent.append(...this.tail);
  }

  endOfSettled() {
    let end = this.settled;
    let fence = null;
    let offset = this.settled;
    for (const line of this.text.slice(this.settled).split("\n").slice(0, -1)) {
      offset += line.length + 1;
      const match = FENCE.exec(line);
      if (fence !== null) {
        fence = line.trimStart().startsWith(fence) ? null : fence;
      } else if (match !== null) {
        fence = match[1];
      } else if (line.trim() === "") {
        end = offset;
      }
    }
    return end;
  }
}
