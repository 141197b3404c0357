
/* The live view: numbers of /live, once a second while somebody can see them. */

const LIVE_SECONDS = 120; /* that rates look back */
const LANE_SAMPLES = 60;
const RATE_SECONDS = 1.9; /* that a rate is over, at least: workers tell what they did once a second */
const LIVE_PERIOD_MS = 1000;
const LIVE_RETRY_MS = 5000;
const SVG = "http://www.w3.org/2000/svg";

/* What a step's time goes to. */
const LANES = {
  planning: (steps) => steps.planning_seconds,
  layers: (steps) => steps.seconds - steps.planning_seconds - steps.draft_seconds,
  drafts: (steps) => steps.draft_seconds,
};

/* What a stage does: drawn one above the other. */
const STAGE_PARTS = {
  busy: (stage) => stage.compute_seconds + stage.send_seconds,
  wait: (stage) => stage.wait_seconds,
};

const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);
const percent = (share) => (share === null ? "–" : `${Math.round(100 * share)} %`);
const bytesText = (rate) => {
  const unit = ["B", "kB", "MB", "GB"].findLast((_, i) => i === 0 || rate >= 0.9995 * 1000 ** i);
  return `${rateText(rate / 1000 ** ["B", "kB", "MB", "GB"].indexOf(unit))} ${unit}/s`;
};
const rateText = (rate) => (rate === null ? "–" : rate.toFixed(rate < 9.95 ? 1 : 0));

const live = {
  samples: [], /* what came, oldest first */
  lanes: new Map(), /* by name */
  stages: [],
  timer: 0,
  isWatching: false,

  start() {
    document.addEventListener("visibilitychange", () => this.poll());
    this.poll();
  },

  async poll() {
    clearTimeout(this.timer);
    if (this.isWatching || document.hidden) {
      return;
    }
    this.isWatching = true;
    let delay = LIVE_PERIOD_MS;
    try {
      const response = await request("live", { silent: true });
      this.take(await response.json());
    } catch (error) {
      this.fail(error);
      delay = LIVE_RETRY_MS;
    }
    this.isWatching = false;
    this.timer = setTimeout(() => this.poll(), delay);
  },

  fail(error) {
    if (error instanceof RequestError && error.status === 401) {
      this.setState("wait", "needs a key");
      element("live-note").textContent = "The numbers need the server's API key (Settings).";
    } else if (error instanceof RequestError) {
      this.setState("down", "not answering");
      element("live-note").textContent = error.message;
    } else {
      this.setState("down", "not reachable");
      element("live-note").textContent = "The server cannot be reached.";
    }
  },

  setState(kind, text) {
    if (element("state-text").textContent !== text) {
      element("state").dataset.kind = kind;
      element("state-text").textContent = text;
    }
  },

  take(answer) {
    const sample = { ...answer, time: answer.uptime_seconds };
    const last = this.samples.at(-1);
    if (last !== undefined && (sample.time < last.time || sample.tokens.output < last.tokens.output)) {
      this.samples = []; /* it is another server now */
    }
    this.samples.push(sample);
    while (sample.time - this.samples[0].time > LIVE_SECONDS) {
      this.samples.shift();
    }
    const isReady = sample.ready;
    this.setState(isReady ? "ready" : "down", isReady ? "ready" : "not ready");
    element("live-note").textContent = isReady ? this.workersText(sample.workers)
      : `The model cannot answer yet: ${this.workersText(sample.workers)}.`;
    this.showRates();
    this.showNumbers(sample);
    this.showLanes();
    this.showStages(sample);
    this.showLinks(sample);
  },

  workersText(workers) {
    const restarts = workers.restarts === 1 ? "1 restart" : `${workers.restarts} restarts`;
    const noun = workers.count === 1 ? "worker" : "workers";
    return `${workers.ready} of ${workers.count} ${noun} ready, ${restarts}`;
  },

  /* How fast a counter grew up to a sample; null where nothing old enough is before it. */
  rateAt(i, count) {
    const to = this.samples[i];
    const from = this.samples.slice(0, Math.max(i, 0)).findLast((sample) => to.time - sample.time >= RATE_SECONDS);
    return from === undefined ? null : (count(to) - count(from)) / (to.time - from.time);
  },

  /* What share of one counter's growth another one's is; null while there was none. */
  shareOver(part, whole) {
    const [from, to] = [this.samples[0], this.samples.at(-1)];
    const growth = whole(to) - whole(from);
    return growth > 0 ? (part(to) - part(from)) / growth : null;
  },

  showRates() {
    const output = (sample) => sample.tokens.output;
    const all = this.samples.map((_, i) => this.rateAt(i, output));
    const rates = all.filter((rate) => rate !== null); /* of the newest samples */
    const peak = Math.max(0, ...rates);
    element("rate").textContent = rateText(rates.at(-1) ?? null);
    element("spark-peak").textContent = rates.length > 0 ? `peak ${rateText(peak)}` : "peak –";
    const end = this.samples.at(-1).time;
    const points = rates.map((rate, i) => {
      const x = 120 - (end - this.samples[i + all.length - rates.length].time) * (120 / LIVE_SECONDS);
      return `${x.toFixed(2)},${(39 - (peak > 0 ? rate / peak : 0) * 36).toFixed(2)}`;
    });
    if (points.length > 0) {
      const line = points.join("L");
      element("spark-line").setAttribute("d", `M${line}`);
      element("spark-area").setAttribute("d", `M${points[0].split(",")[0]},40L${line}L120,40Z`);
    }
    element("spark").setAttribute("aria-label",
      `Tokens per second over the last two minutes: now ${rateText(rates.at(-1) ?? null)}, peak ${rateText(peak)}`);
  },

  showNumbers(sample) {
    const last = this.samples.length - 1;
    const rows = this.shareOver((s) => s.steps.rows, (s) => s.steps.count);
    element("running").textContent = sample.requests.running;
    element("waiting").textContent = sample.requests.waiting;
    element("prefill").textContent = rateText(this.rateAt(last, (s) => s.tokens.prompt - s.tokens.cached_prompt));
    element("rows").textContent = rateText(rows);
    this.showShare("accepted", this.shareOver((s) => sum(s.drafts.accepted), (s) => sum(s.drafts.verified)));
    if (sample.drafts.limit === 0) {
      element("accepted").textContent = "off";
    }
    this.showShare("hits", this.shareOver((s) => s.tokens.cached_prompt, (s) => s.tokens.prompt));
    this.showShare("pages", sample.kv.used_share);
    element("totals").textContent = `${sample.requests.finished} requests and ${sample.tokens.output} tokens ` +
      `since the server started; ${sample.prefix_cache.pages} of ${sample.kv.pages} cache pages kept for reuse.`;
  },

  showShare(name, share) {
    element(name).textContent = percent(share);
    element(`${name}-meter`).value = share ?? 0;
  },

  makeLane(list, name, parts) {
    const svg = document.createElementNS(SVG, "svg");
    svg.setAttribute("viewBox", `0 0 ${LANE_SAMPLES} 20`);
    svg.setAttribute("preserveAspectRatio", "none");
    svg.setAttribute("role", "img");
    const bars = parts.map((part) => Array.from({ length: LANE_SAMPLES }, (_, i) => {
      const bar = document.createElementNS(SVG, "rect");
      bar.setAttribute("class", `bar-${part}`);
      bar.setAttribute("x", i);
      bar.setAttribute("width", 1);
      svg.append(bar);
      return bar;
    }));
    const share = make("span", "lane-share", "–");
    element(list).append(make("div", "lane", make("span", "lane-name", name), svg, share));
    return { svg, bars, share };
  },

  /* Draws shares of the time, one above the other; returns the newest. */
  drawLane(lane, counters) {
    const first = this.samples.length - LANE_SAMPLES;
    let latest = counters.map(() => null);
    for (let i = 0; i < LANE_SAMPLES; i++) {
      let top = 20;
      latest = counters.map((counter) => this.rateAt(first + i, counter));
      latest.forEach((share, part) => {
        const height = Math.min(20 * Math.max(share ?? 0, 0), top);
        top -= height;
        lane.bars[part][i].setAttribute("y", top.toFixed(2));
        lane.bars[part][i].setAttribute("height", height.toFixed(2));
      });
    }
    return latest;
  },

  showLanes() {
    for (const [name, seconds] of Object.entries(LANES)) {
      if (!this.lanes.has(name)) {
        this.lanes.set(name, this.makeLane("lanes", name, ["busy"]));
      }
      const lane = this.lanes.get(name);
      const [share] = this.drawLane(lane, [(sample) => seconds(sample.steps)]);
      lane.share.textContent = percent(share);
      lane.svg.setAttribute("aria-label", `${name}: busy for ${percent(share)} of the last seconds`);
    }
  },

  /* One lane for each stage of the pipeline. Before workers tell anything there is none. */
  showStages(sample) {
    if (this.stages.length !== sample.stages.length) {
      element("stages").replaceChildren();
      this.stages = sample.stages.map((_, i) => this.makeLane("stages", `stage ${i}`, Object.keys(STAGE_PARTS)));
    }
    const counters = (i) => Object.values(STAGE_PARTS).map((part) => (at) => (i < at.stages.length ? part(at.stages[i]) : 0));
    this.stages.forEach((lane, i) => {
      const [busy, wait] = this.drawLane(lane, counters(i));
      lane.share.textContent = percent(busy);
      lane.svg.setAttribute("aria-label", `Stage ${i} of ${this.stages.length}: works for ${percent(busy)} and waits ` +
        `for others for ${percent(wait)} of the last seconds`);
    });
    const total = (part) => (at) => sum(at.stages.map(part));
    const bubbles = this.shareOver(total(STAGE_PARTS.wait), (at) => sum(Object.values(STAGE_PARTS).map((part) => total(part)(at))));
    element("bubbles").textContent = `bubbles ${percent(bubbles)}`;
  },

  /* What goes over links now: from one stage to the next, and inside of stages with several ranks. */
  showLinks(sample) {
    const last = this.samples.length - 1;
    const names = [...new Set(sample.links.map((link) => `${link.from} ${link.to}`))];
    const texts = names.map((name) => {
      const [from, to] = name.split(" ");
      const bytes = (at) => sum(at.links.filter((link) => `${link.from} ${link.to}` === name).map((link) => link.bytes));
      const rate = this.rateAt(last, bytes);
      return `${from === to ? `inside ${from}` : `${from} to ${to}`} ${rate === null ? "–" : bytesText(rate)}`;
    });
    element("links").hidden = texts.length === 0;
    element("links").textContent = `Links: ${texts.join(", ")}`;
  },
};
