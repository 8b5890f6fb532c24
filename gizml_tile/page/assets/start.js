// Put the page together.
byId("title").append(page.title, " ", make("small", {}, `for ${page.target}`));
byId("facts").append(page.facts.join(" \u00b7 "));
columns();
for (const pane of panes) {
  pane.button = make("button", {
    "aria-pressed": "true", onclick: () => show(pane, pane.element.hidden),
  }, pane.data.title.split(",")[0]);
  byId("shown").append(pane.button);
}
for (const tab of TABS) {
  const onclick = () => choose(tab, true);
  tab.button = make("button", { role: "tab", onclick }, tab.title, " ", make("kbd", {}, tab.key));
  byId("tabs").append(tab.button);
}
byId("tabs").append(make("span", { class: "note" }, "hover a line to see what it became; click to keep it lit"));
if (TABS.length) choose(TABS[0], false);
else byId("drawer").hidden = true;

const linkOf = (target) => {
  const element = target instanceof Element ? target.closest("[data-link]") : null;
  return element ? Number(element.dataset.link) : -1;
};
document.addEventListener("mouseover", (event) => hover(linkOf(event.target)));
document.addEventListener("click", (event) => {
  const link = linkOf(event.target);
  if (link >= 0 && !event.target.closest("button") && !String(getSelection())) pin(link, event.target.closest(".pane"));
});
document.addEventListener("keydown", pressed);
byId("search").addEventListener("input", (event) => search(event.target.value));
byId("help").addEventListener("click", showKeys);
byId("keys").addEventListener("click", () => byId("keys").close());
addEventListener("resize", () => { drawRulers(); sheetChanged(); });

/** While a handle is dragged: what its place changes. */
function drag(handle, move) {
  handle.addEventListener("pointerdown", (event) => {
    event.preventDefault();
    handle.setPointerCapture(event.pointerId);
    handle.addEventListener("pointermove", move);
    handle.addEventListener("pointerup", () => {
      handle.removeEventListener("pointermove", move);
      sheetChanged();
    }, { once: true });
  });
}

drag(document.querySelector(".handle"), ({ clientY }) => {
  byId("drawer").style.height = `${Math.max(40, Math.min(innerHeight - 160, innerHeight - clientY))}px`;
  drawRulers();
});

/** A border between two boxes: dragging it gives the first one another size, a double click their own again. */
function splitter(box, across) {
  const border = make("div", { class: across ? "split across" : "split", role: "separator" });
  drag(border, ({ clientX, clientY }) => {
    const { left, top } = box.getBoundingClientRect();
    box.style.flex = `0 0 ${Math.max(60, across ? clientY - top : clientX - left)}px`;
    drawRulers();
  });
  border.addEventListener("dblclick", () => { box.style.flex = ""; drawRulers(); });
  return border;
}

const columnsOfPanes = [...byId("panes").children];
columnsOfPanes.slice(0, -1).forEach((column) => column.after(splitter(column, false)));
columnsOfPanes.forEach((column) => {
  [...column.children].slice(0, -1).forEach((pane) => pane.after(splitter(pane, true)));
});
document.documentElement.dataset.ready = Math.round(performance.now());
