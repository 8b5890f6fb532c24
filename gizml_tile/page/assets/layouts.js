// Drawings of layouts, made when they are looked at, from the bases of each.
const MOST = 256; // rows or columns that are drawn
const lit = (number, bases, add) => bases.forEach((basis, bit) => { if (number >> bit & 1) add(basis); });

/** A tile in registers: for each element its thread and register, and by how many it is held. */
function heldGrid({ shape: [rows, columns], layout }) {
  const lanes = 1 << layout.lane.length;
  const holder = new Int32Array(rows * columns).fill(-1);
  const register = new Int32Array(rows * columns);
  const times = new Int32Array(rows * columns);
  const place = (number, bases) => {
    let row = 0, column = 0;
    lit(number, bases, ([down, across]) => { row ^= down; column ^= across; });
    return row * columns + column;
  };
  const slots = layout.register.map((_, bit) => bit).length;
  const ofRegister = Array.from({ length: 1 << slots }, (_, number) => place(number, layout.register));
  for (let warp = 0; warp < 1 << layout.warp.length; warp++) {
    for (let lane = 0; lane < lanes; lane++) {
      // Places are combined by XOR, which rows and columns allow together: their sizes are powers of two.
      const first = place(warp, layout.warp) ^ place(lane, layout.lane);
      ofRegister.forEach((there, number) => {
        const at = first ^ there;
        if (holder[at] < 0) { holder[at] = warp * lanes + lane; register[at] = number; }
        times[at]++;
      });
    }
  }
  return {
    rows, columns,
    caption: `${1 << layout.warp.length} warps of ${lanes} lanes; colour: lane, number: register`,
    cell: (row, column) => {
      const at = row * columns + column, thread = holder[at];
      const lane = thread % lanes, warp = Math.floor(thread / lanes);
      const more = times[at] > 1 ? `\nheld ${times[at]} times` : "";
      return {
        colour: colour(lane / lanes, lane, warp), group: thread, border: warp, label: `${register[at]}`,
        marked: times[at] > 1,
        title: `[${row}, ${column}]  thread ${thread} (warp ${warp}, lane ${lane})  register ${register[at]}${more}`,
      };
    },
  };
}

function offsetOf(layout, row, column) {
  let offset = 0;
  const add = (basis) => { offset ^= basis; };
  lit(row, layout.rows, add);
  lit(column, layout.columns, add);
  return offset;
}

/** A tile in workgroup memory, by its rows and columns: the bank of each element. */
function bankGrid({ shape: [rows, columns], layout }) {
  return {
    rows, columns,
    caption: `colour and number: bank of ${layout.banks}; down a column the same bank is a conflict`,
    cell: (row, column) => {
      const offset = offsetOf(layout, row, column), byte = offset * layout.element_bytes;
      const bank = Math.floor(byte / 4) % layout.banks;
      return {
        colour: colour(bank / layout.banks, bank, 0), group: bank, border: 0, label: `${bank}`,
        title: `[${row}, ${column}]  bank ${bank}  byte ${byte}  16-byte chunk ${Math.floor(byte / 16)}`,
      };
    },
  };
}

/** The same as it lies in memory: a row is what all banks hold once, and shows which row of the tile is where. */
function memoryGrid({ shape: [rows, columns], layout }) {
  const across = Math.max(1, (layout.banks * 4) / layout.element_bytes);
  const down = Math.ceil((rows * columns) / across);
  const chunk = 16 / layout.element_bytes;
  const where = new Int32Array(across * down).fill(-1);
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) where[offsetOf(layout, row, column)] = row * columns + column;
  }
  return {
    rows: down, columns: across,
    caption: `each row: ${layout.banks} banks of 4 bytes; colour: 16-byte chunk of a row of the tile, number: column`,
    cell: (row, column) => {
      const at = where[row * across + column], r = Math.floor(at / columns), c = at % columns;
      const byte = (row * across + column) * layout.element_bytes;
      return {
        colour: colour((Math.floor(c / chunk) % 8) / 8, r, 0), group: r, border: 0,
        label: `${c}`, title: `byte ${byte}, bank ${Math.floor(byte / 4) % layout.banks}  holds [${r}, ${c}]`,
      };
    },
  };
}

function colour(part, number, family) {
  return `hsl(${Math.round(360 * part)} 68% ${84 - 9 * (number % 2) - 6 * (family % 4)}%)`;
}

/** A canvas with a grid's cells; the hover tells about one and outlines those of its thread, bank or row. */
function canvasOf(grid, width, height) {
  const rows = Math.min(grid.rows, MOST), columns = Math.min(grid.columns, MOST);
  const head = 18, side = 34;
  const fitting = Math.floor(Math.min((width - side) / columns, (height - head) / rows));
  const size = Math.max(columns > 64 ? 7 : columns > 32 ? 11 : 22, Math.min(30, fitting));
  const scale = window.devicePixelRatio || 1;
  const canvas = make("canvas", { class: "layout", role: "img", "aria-label": grid.caption });
  canvas.width = (side + columns * size + 2) * scale;
  canvas.height = (head + rows * size + 2) * scale;
  canvas.style.width = `${canvas.width / scale}px`;
  canvas.style.height = `${canvas.height / scale}px`;
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  const cells = [];
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) cells.push(grid.cell(row, column));
  }
  paintAxes(context, rows, columns, size, head, side);
  paintCells(context, cells, columns, size, head, side);
  const still = make("canvas", { width: canvas.width, height: canvas.height });
  still.getContext("2d").drawImage(canvas, 0, 0);
  const at = (event) => {
    const column = Math.floor((event.offsetX - side) / size), row = Math.floor((event.offsetY - head) / size);
    return column >= 0 && row >= 0 && column < columns && row < rows ? row * columns + column : -1;
  };
  canvas.addEventListener("mousemove", (event) => {
    const number = at(event);
    tip(number < 0 ? "" : cells[number].title, event);
    context.save();
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.drawImage(still, 0, 0);
    context.restore();
    if (number < 0) return;
    context.strokeStyle = "#16181d";
    context.lineWidth = 2;
    cells.forEach((cell, each) => {
      if (cell.group !== cells[number].group) return;
      const x = side + (each % columns) * size, y = head + Math.floor(each / columns) * size;
      context.strokeRect(x + 0.5, y + 0.5, size - 2, size - 2);
    });
  });
  canvas.addEventListener("mouseleave", () => {
    tip("");
    context.save();
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.drawImage(still, 0, 0);
    context.restore();
  });
  return canvas;
}

function paintAxes(context, rows, columns, size, head, side) {
  context.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--quiet");
  context.font = "10px ui-monospace, Menlo, monospace";
  const every = (room) => 2 ** Math.max(0, Math.ceil(Math.log2(room / size)));
  context.textAlign = "center";
  for (let column = 0; column < columns; column += every(24)) {
    context.fillText(column, side + column * size + size / 2, head - 6);
  }
  context.textAlign = "right";
  for (let row = 0; row < rows; row += every(12)) context.fillText(row, side - 5, head + row * size + size / 2 + 3);
}

function paintCells(context, cells, columns, size, head, side) {
  context.textAlign = "center";
  context.font = `${Math.min(11, size / 2.1)}px ui-monospace, Menlo, monospace`;
  const gap = size > 9 ? 1 : 0;
  cells.forEach((cell, number) => {
    const x = side + (number % columns) * size, y = head + Math.floor(number / columns) * size;
    context.fillStyle = cell.colour;
    context.fillRect(x, y, size - gap, size - gap);
    context.fillStyle = "#16181d";
    if (size >= 18) context.fillText(cell.label, x + size / 2, y + size / 2 + 4);
    if (cell.marked && size >= 11) context.fillRect(x + size - gap - 3, y, 3, 3);
    // Where another warp begins.
    const before = number % columns ? cells[number - 1] : cell, above = cells[number - columns] || cell;
    if (before.border !== cell.border) context.fillRect(x - 1, y, 1, size);
    if (above.border !== cell.border) context.fillRect(x, y - 1, size, 1);
  });
}

function tip(text, event) {
  const box = byId("tip");
  box.hidden = !text;
  if (!text) return;
  box.textContent = text;
  box.style.left = `${Math.min(event.clientX + 14, innerWidth - box.offsetWidth - 8)}px`;
  box.style.top = `${Math.min(event.clientY + 16, innerHeight - box.offsetHeight - 8)}px`;
}

let drawing = 0;
let asItLies = false;

/** The numbers of the drawings of a link's lines. */
function drawingsOf(link) {
  const found = [];
  for (const { data } of panes) {
    for (const [line, numbers] of Object.entries(data.drawings)) {
      if (link >= 0 && related[link].includes(data.links[line])) found.push(...numbers);
    }
  }
  return [...new Set(found)];
}

function layoutSheet(sheet) {
  const own = drawingsOf(pinned);
  if (own.length && !own.includes(drawing)) drawing = own[0];
  const list = make("div", { class: "list" });
  page.drawings.forEach((data, number) => {
    const lines = [...new Set(data.links.flatMap(lineNumbers))].sort((a, b) => a - b);
    const what = `${data.uses.join(", ")}: [${data.shape.join(", ")}] ${data.dtype}, line ${lines.join(", ")}`;
    const button = make("button", {
      "aria-pressed": number === drawing,
      onclick: () => { drawing = number; sheetChanged(); },
    }, data.title, make("small", {}, what));
    if (own.includes(number)) button.classList.add("pin");
    data.links.forEach((link) => linked(button, link));
    list.append(button);
  });
  const picture = make("div", { class: "picture" });
  sheet.replaceChildren(make("div", { class: "layouts" }, list, picture));
  const chosen = page.drawings[drawing];
  const inMemory = "banks" in chosen.layout;
  const grid = inMemory ? (asItLies ? memoryGrid(chosen) : bankGrid(chosen)) : heldGrid(chosen);
  const quiet = (text) => make("span", { class: "quiet" }, text);
  const caption = make("div", { class: "caption" }, make("strong", {}, chosen.title), quiet(grid.caption));
  if (inMemory) {
    for (const [name, value] of [["by rows of the tile", false], ["as it lies in memory", true]]) {
      const onclick = () => { asItLies = value; sheetChanged(); };
      caption.append(make("button", { "aria-pressed": asItLies === value, onclick }, name));
    }
  }
  if (grid.rows > MOST || grid.columns > MOST) {
    const rows = Math.min(grid.rows, MOST), columns = Math.min(grid.columns, MOST);
    caption.append(quiet(`the first ${rows} rows and ${columns} columns`));
  }
  picture.append(caption);
  picture.append(canvasOf(grid, picture.clientWidth - 20, picture.clientHeight - 50));
}
