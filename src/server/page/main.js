
/* What begins when the page has loaded. */

async function loadModels() {
  try {
    const response = await request("v1/models");
    const { data } = await response.json();
    settings.setModels(data.map((model) => model.id));
  } catch (error) {
    announce(chat.sentence(error));
  }
}

function toggleLive() {
  const isLive = document.body.dataset.view !== "live";
  document.body.dataset.view = isLive ? "live" : "chat";
  element("show-live").setAttribute("aria-pressed", String(isLive));
}

settings.load();
settings.connect(() => {
  loadModels();
  live.poll();
});
chat.connect();
element("show-live").addEventListener("click", toggleLive);
element("prompt").focus();
loadModels().then(() => live.start());
