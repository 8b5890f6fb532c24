// What stands below the panes: layouts, variants, the timeline of loops, the plan in words.
const SVG = "http://www.w3.org/2000/svg";

function shape(tag, attributes, text) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

function variantSheet(sheet) {
  const box = make("div", { class: "decisions" });
  if (page.costs.length) {
    const costs = page.costs.map(({ text, fix, share, link }) => linked(make(
      "li", { class: "linked" }, make("strong", {}, `${Math.round(100 * share)}% of the time: ${text} `),
      make("span", { class: "quiet" }, `${words(link)}; ${fix}`),
    ), link));
    const head = make("h3", {}, "What costs time here, and what to do");
    sheet.replaceChildren(head, make("ul", { class: "costs" }, ...costs), box);
  } else sheet.replaceChildren(box);
  for (const { title, link, variants, remark } of page.decisions) {
    const table = make("table", {}, ...variants.map(({ name, verdict, reason }) => make(
      "tr", {}, make("td", {}, make("code", {}, name)),
      make("td", { class: verdict === "chosen" ? "yes" : verdict === "no" ? "no" : "quiet" }, verdict),
      make("td", { class: "quiet" }, reason),
    )));
    const head = make("h4", {}, title, " ", make("small", { class: "quiet" }, words(link)));
    box.append(linked(make("div", { class: "decision linked" }, head, remark, table), link));
  }
  box.querySelector(".pin")?.scrollIntoView({ block: "nearest" });
}

const count = (number, what) => `${number} ${what}${number === 1 ? "" : "s"}`;

/** Turns across and slots down: when each block is on its way, read, and kept. */
function chart({ slots, ahead, before, kept }) {
  const turns = Math.max(slots + ahead + 2, 6), wide = turns > 9 ? 48 : 64;
  const high = 26, left = 72 + wide, head = 22;
  const svg = shape("svg", { class: "chart", role: "img" });
  svg.setAttribute("width", left + turns * wide + 10);
  svg.setAttribute("height", head + slots * high + 8);
  svg.append(shape("text", { x: 74, y: 14 }, "before"));
  for (let turn = 0; turn < turns; turn++) {
    const x = left + turn * wide;
    svg.append(shape("text", { x: x + 4, y: 14 }, turn ? `${turn}` : "turn 0"));
    svg.append(shape("line", { x1: x, x2: x, y1: head - 4, y2: head + slots * high, class: "grid" }));
  }
  const bar = (kind, slot, from, to, title, letter) => {
    const x = Math.max(left + from * wide, 72), end = Math.min(left + to * wide, left + turns * wide);
    if (end <= x) return;
    const group = shape("g", {});
    group.append(shape("title", {}, title));
    const y = head + slot * high;
    group.append(shape("rect", { x, y: y + 3, width: end - x - 1, height: high - 6, rx: 3, class: kind }));
    if (letter && end - x > 16) group.append(shape("text", { x: (x + end) / 2, y: y + 17, class: "letter" }, letter));
    svg.append(group);
  };
  for (let slot = 0; slot < slots; slot++) {
    svg.append(shape("text", { x: 4, y: head + slot * high + 17 }, `slot ${slot}`));
  }
  for (let block = 0; block < turns + ahead; block++) {
    const slot = block % slots, begun = block < before ? -1 : block - ahead;
    const from = ahead ? (begun < 0 ? -1 : begun + 0.65) : block + 0.02;
    const read = ahead ? block : block + 0.45;
    const when = begun < 0 ? "before the loop" : `in turn ${begun}`;
    const flight = `block ${block}: begun ${when}, in flight until turn ${block} has waited for it`;
    bar("fill", slot, from, read, flight, `${block}`);
    bar("read", slot, read, block + 0.62, `block ${block}: read in turn ${block}`);
    if (kept) bar("kept", slot, block + 0.62, block + kept + 0.6, `block ${block}: kept until products have read it`);
  }
  return svg;
}

function stepOf({ kind, text, link, times }) {
  const often = times > 1 ? [" ", make("span", { class: "quiet" }, `\u00d7 ${times}`)] : [];
  return linked(make("li", { class: `linked ${kind}` }, text, ...often), link);
}

function timeSheet(sheet) {
  sheet.replaceChildren();
  for (const data of page.timelines) {
    const ahead = `begun ${count(data.ahead, "turn")} before they are read`;
    const copies = data.ahead ? ahead : "copied in the turn that reads them";
    const where = `loop of ${words(data.link)}: ${count(data.slots, "slot")}, ${copies}`;
    sheet.append(make("h3", {}, data.title, " ", make("small", { class: "quiet" }, where)));
    const tracks = data.tracks.map(({ title, steps }) => make(
      "div", { class: "track" }, make("strong", {}, `each turn, ${title}`),
      make("ol", {}, ...steps.map(stepOf)),
    ));
    sheet.append(make("div", { class: "times" }, make("div", {}, chart(data), legend(data)), ...tracks));
  }
}

function legend({ kept }) {
  const entries = [["fill", "in flight"], ["read", "read"]];
  if (kept) entries.push(["kept", "kept for products under way"]);
  return make("div", { class: "quiet" }, ...entries.flatMap(([kind, text]) => {
    const swatch = make("span", { class: "swatch" });
    swatch.style.background = `var(--${kind})`;
    return [swatch, text];
  }));
}

function planSheet(sheet) {
  sheet.replaceChildren(...page.plan.flatMap(({ title, lines }) => {
    const told = make("pre", {}, lines.join("\n"));
    return title ? [make("h3", {}, title), told] : [told];
  }));
}

const TABS = [
  { key: "l", title: "Layouts", count: page.drawings.length, fill: layoutSheet },
  { key: "v", title: "Variants", count: page.decisions.length + page.costs.length, fill: variantSheet },
  { key: "t", title: "Memory timeline", count: page.timelines.length, fill: timeSheet },
  { key: "p", title: "Plan", count: page.plan.length, fill: planSheet },
].filter((tab) => tab.count);
let chosen = TABS[0];

const tabOfKey = (key) => TABS.find((tab) => tab.key === key);

function sheetChanged() {
  if (!chosen || byId("drawer").classList.contains("closed")) return;
  // What the sheet held is gone: so are its elements among those that light up.
  elements.forEach((list, link) => { elements[link] = list.filter((element) => !byId("sheet").contains(element)); });
  chosen.fill(byId("sheet"));
}

/** Show a tab; the one that is shown already folds away where ``fold`` says so. */
function choose(tab, fold) {
  const closed = byId("drawer").classList.contains("closed");
  byId("drawer").classList.toggle("closed", fold && tab === chosen && !closed);
  chosen = tab;
  TABS.forEach((each) => each.button.setAttribute("aria-selected", each === tab));
  sheetChanged();
  drawRulers();
}
