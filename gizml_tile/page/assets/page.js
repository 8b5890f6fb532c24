// The page: panes of lines, which light up together, and what stands below them.
const page = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);

/** An element with attributes and children; strings become text, never HTML. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== false && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

const ESCAPES = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };
const escaped = (text) => text.replace(/[&<>"']/g, (letter) => ESCAPES[letter]);

// Words in colour: comments and strings, numbers, registers and names with a mark, words of the language.
const WORDS = {
  python: "def return for in if else elif while lambda and or not is import from as with None True False pass class",
  ir: "loop give carries cond then else param copy copy_wait copy_commit barrier mma group_mma roles role when "
    + "read put dot load store bulk_load bulk_store signal_wait signal_arrive matrix_load put fma sum max min",
  llvm: "define declare call load store br phi ret fadd fmul fsub fdiv add mul sub icmp fcmp select getelementptr",
  ptx: "reg visible entry param loc file target version",
  metal: "for if else while return const constexpr device threadgroup constant kernel struct using namespace",
};
const MARKS = { python: "#", ir: "#", llvm: ";", ptx: "//", metal: "//" };

function painter(language) {
  const words = new Set((WORDS[language] || "").split(" "));
  const mark = MARKS[language] || "#";
  const parts = new RegExp(
    `(${mark}.*$)|("(?:[^"\\\\]|\\\\.)*"|'(?:[^'\\\\]|\\\\.)*')|([%$@!][\\w.$]+)|(\\b\\d[\\w.]*)|([A-Za-z_]\\w*)`, "g");
  const kinds = ["c", "s", "v", "d"];
  return (text) => {
    let out = "", last = 0;
    for (const found of text.matchAll(parts)) {
      const kind = kinds[found.slice(1, 5).findIndex(Boolean)] || (words.has(found[5]) ? "w" : "");
      out += escaped(text.slice(last, found.index));
      out += kind ? `<i class="${kind}">${escaped(found[0])}</i>` : escaped(found[0]);
      last = found.index + found[0].length;
    }
    return out + escaped(text.slice(last));
  };
}

// Links: each is a set of places, and lines belong together whose sets meet.
const byPlace = page.places.map(() => []);
page.links.forEach((places, link) => places.forEach((place) => byPlace[place].push(link)));
const related = page.links.map((places) => [...new Set(places.flatMap((place) => byPlace[place]))]);
const elements = page.links.map(() => []);

/** Let an element light up with its link, and answer to the mouse. */
function linked(element, link) {
  if (link < 0) return element;
  element.dataset.link = link;
  elements[link].push(element);
  if (pinned >= 0 && related[pinned].includes(link)) element.classList.add("pin");
  return element;
}

let hovered = -1;
let pinned = -1;

function light(link, name) {
  document.querySelectorAll(`.${name}`).forEach((element) => element.classList.remove(name));
  if (link >= 0) related[link].forEach((each) => elements[each].forEach((element) => element.classList.add(name)));
  drawRulers();
}

function hover(link) {
  if (link === hovered) return;
  hovered = link;
  light(link, "on");
}

/** The first of the rows that are kept where most of them stand together: there the work is done. */
function thick(rows) {
  let best = null, most = 0, first = 0;
  for (let line = 0; line <= rows.length; line++) {
    if (line < rows.length && rows[line].classList.contains("pin")) continue;
    if (line - first > most) {
      most = line - first;
      best = rows[first];
    }
    first = line + 1;
  }
  return best;
}

/** Keep a link lit, bring its lines into view in all panes but the one that it was chosen in. */
function pin(link, origin) {
  pinned = link === pinned ? -1 : link;
  light(pinned, "pin");
  if (pinned >= 0) {
    for (const pane of panes) {
      const row = pane.element === origin ? null : thick(pane.rows);
      if (row) reveal(row);
    }
  }
  location.replace(pinned >= 0 ? `#${words(pinned)}` : "#");
  sheetChanged();
}

function reveal(row) {
  const code = row.closest(".code");
  const top = row.dataset.line * HEIGHT;
  if (top < code.scrollTop || top > code.scrollTop + code.clientHeight - 40) {
    code.scrollTop = top - code.clientHeight / 3;
  }
}

const lineNumbers = (link) => page.links[link].map((place) => page.places[place].line);
const words = (link) => (link < 0 ? "" : `line ${[...new Set(lineNumbers(link))].join(", ")}`);

/** What stands before a line: where in the person's program it comes from. */
function gutter(link) {
  if (link < 0) return "";
  const numbers = lineNumbers(link);
  return numbers.length > 1 ? `${numbers[0]}+` : `${numbers[0]}`;
}

// Panes: rows come in chunks, which are laid out and coloured when they come near to what is seen.

const HEIGHT = 18;
const CHUNK = 128;

function rowOf(data, text, line) {
  const drawn = data.drawings[line] ? " drawn" : "";
  return `<div class="row${drawn}" data-line="${line}" data-link="${data.links[line]}">`
    + `<b>${gutter(data.links[line])}</b><code>${escaped(text)}</code></div>`;
}

function chunksOf(data) {
  const chunks = [];
  for (let first = 0; first < data.lines.length; first += CHUNK) {
    const texts = data.lines.slice(first, first + CHUNK);
    const rows = texts.map((text, number) => rowOf(data, text, first + number));
    chunks.push(`<div class="chunk" style="height:${HEIGHT * texts.length}px">${rows.join("")}</div>`);
  }
  return chunks.join("");
}

function colourWhenSeen(code, chunks, data) {
  const paint = painter(data.language);
  const observer = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      observer.unobserve(target);
      for (const row of target.children) row.lastChild.innerHTML = paint(data.lines[row.dataset.line]);
    }
  }, { root: code, rootMargin: "600px" });
  chunks.forEach((chunk) => observer.observe(chunk));
}

const panes = page.panes.map((data, number) => {
  const lines = make("div", { class: "lines" });
  lines.innerHTML = chunksOf(data);
  const longest = data.lines.reduce((most, text) => Math.max(most, text.length), 0);
  lines.style.width = `max(100%, ${longest + 12}ch)`;
  const rows = [...lines.querySelectorAll(".row")];
  rows.forEach((row, line) => { if (data.links[line] >= 0) elements[data.links[line]].push(row); });
  const code = make("div", { class: "code", tabindex: 0, role: "region", "aria-label": data.title }, lines);
  const ruler = make("canvas", { class: "ruler" });
  const count = `${data.lines.length} lines`;
  const head = make("h2", {}, data.title, make("small", {}, count), make("kbd", {}, `${number + 1}`));
  const element = make("section", { class: "pane", "data-name": data.name }, head, code, ruler);
  colourWhenSeen(code, [...lines.children], data);
  return { data, element, code, rows, ruler, cursor: -1 };
});

function columns() {
  const middle = panes.slice(2, -1);
  const groups = [panes.slice(0, 2), middle, panes.slice(-1)].filter((group) => group.length);
  for (const group of groups) {
    byId("panes").append(make("div", { class: "column" }, ...group.map((pane) => pane.element)));
  }
  const source = panes[0].data.lines.length, explicit = panes[1].data.lines.length;
  panes[0].element.style.flexGrow = Math.min(2, Math.max(0.5, source / Math.max(explicit, 1)));
}

function show(pane, visible) {
  pane.element.hidden = !visible;
  pane.button.setAttribute("aria-pressed", visible);
  const column = pane.element.parentElement;
  column.hidden = [...column.querySelectorAll(".pane")].every((each) => each.hidden);
  drawRulers();
}

/** Marks beside each pane: where its lit lines are in all of it. */
function drawRulers() {
  cancelAnimationFrame(drawRulers.frame);
  drawRulers.frame = requestAnimationFrame(() => {
    const style = getComputedStyle(document.documentElement);
    const colours = ["hit", "on", "pin"].map((name) => style.getPropertyValue(name === "hit" ? "--here" : "--edge"));
    for (const { element, code, rows, ruler } of panes) {
      const height = code.clientHeight;
      if (element.hidden || !height) continue;
      ruler.width = 9;
      ruler.height = height;
      const context = ruler.getContext("2d");
      ["hit", "on", "pin"].forEach((name, layer) => {
        context.fillStyle = colours[layer];
        for (const row of element.getElementsByClassName(name)) {
          const at = row.dataset.line / Math.max(rows.length, 1);
          context.fillRect(layer ? 4 : 0, Math.floor(at * height), layer ? 5 : 4, Math.max(2, height / rows.length));
        }
      });
    }
  });
}
