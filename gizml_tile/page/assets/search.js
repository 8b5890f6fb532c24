// Search over all panes, and keys.
let hits = [];
let current = -1;

function search(query) {
  for (const { pane, line } of hits) {
    const row = pane.rows[line];
    row.classList.remove("hit", "here");
  }
  hits = [];
  current = -1;
  const wanted = query.trim().toLowerCase();
  if (wanted) {
    for (const pane of panes) {
      pane.data.lines.forEach((text, line) => {
        if (text.toLowerCase().includes(wanted)) hits.push({ pane, line });
      });
    }
    hits.forEach(({ pane, line }) => pane.rows[line].classList.add("hit"));
  }
  byId("hits").value = wanted ? (hits.length ? `${hits.length} lines` : "nothing") : "";
  drawRulers();
}

function step(direction) {
  if (!hits.length) return;
  if (current >= 0) hits[current].pane.rows[hits[current].line].classList.remove("here");
  current = (current + direction + hits.length) % hits.length;
  const { pane, line } = hits[current];
  if (pane.element.hidden) show(pane, true);
  pane.rows[line].classList.add("here");
  reveal(pane.rows[line]);
  byId("hits").value = `${current + 1} of ${hits.length}`;
}

/** Move the cursor of a pane, and light what its line is linked to. */
function moveCursor(pane, to) {
  if (pane.cursor >= 0) pane.rows[pane.cursor].classList.remove("cursor");
  pane.cursor = Math.max(0, Math.min(pane.rows.length - 1, to));
  const row = pane.rows[pane.cursor];
  row.classList.add("cursor");
  reveal(row);
  hover(Number(row.dataset.link));
}

const KEYS = [
  ["/", "search all panes"],
  ["Enter, Shift+Enter", "the next, the last hit; n and N too"],
  ["1 ... 5", "go to a pane; again: show it alone, and again: all"],
  ["\u2191 \u2193", "move along the lines of a pane; linked lines light up"],
  ["Enter, Space, click", "keep a line lit, and bring what belongs to it into view"],
  ["Esc", "let go: the search, then the kept line"],
  ["l v t p", "layouts, variants, timeline, plan; again: fold away"],
  ["?", "these keys"],
];

function showKeys() {
  const rows = KEYS.map(([key, what]) => make("tr", {}, make("td", {}, make("kbd", {}, key)), make("td", {}, what)));
  byId("keys").replaceChildren(make("table", {}, ...rows));
  byId("keys").showModal();
}

function goTo(pane) {
  const alone = panes.every((each) => each === pane || each.element.hidden);
  if (alone) panes.forEach((each) => show(each, true));
  else if (document.activeElement === pane.code) panes.forEach((each) => show(each, each === pane));
  else show(pane, true);
  pane.code.focus();
}

function letGo() {
  if (byId("search").value) {
    byId("search").value = "";
    search("");
  } else if (pinned >= 0) pin(pinned, null);
  document.activeElement.blur();
}

function pressed(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || byId("keys").open) return;
  const typing = document.activeElement === byId("search");
  if (event.key === "Escape") letGo();
  else if (typing && event.key === "Enter") step(event.shiftKey ? -1 : 1);
  else if (typing) return;
  else if (event.key === "/") byId("search").focus();
  else if (event.key === "n" || event.key === "N") step(event.key === "n" ? 1 : -1);
  else if (event.key === "?") showKeys();
  else if (/^[1-9]$/.test(event.key) && panes[event.key - 1]) goTo(panes[event.key - 1]);
  else if (tabOfKey(event.key)) choose(tabOfKey(event.key), true);
  else {
    const pane = panes.find((each) => each.code === document.activeElement);
    if (!pane) return;
    if (event.key === "ArrowDown") moveCursor(pane, pane.cursor + 1);
    else if (event.key === "ArrowUp") moveCursor(pane, pane.cursor - 1);
    else if ((event.key === "Enter" || event.key === " ") && hovered >= 0) pin(hovered, pane.element);
    else return;
  }
  event.preventDefault();
}
