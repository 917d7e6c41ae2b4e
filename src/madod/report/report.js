"use strict";
// Sorts a table by a click on a head, filters rows by words, and draws the long list of runs a page at a time.
const number = text => parseFloat(String(text).replace("\u2212", "-").replace(/^< /, ""));
const order = (a, b) => {
  const x = number(a), y = number(b), none = [a, b].map(v => v === null || v === "" || v === "\u2013");
  if (none[0] || none[1]) return none[0] === none[1] ? 0 : none[0] ? Infinity : -Infinity;
  return Number.isNaN(x) || Number.isNaN(y) ? String(a).localeCompare(String(b)) : x - y;
};
const sorted = (rows, key, down) => rows.map((row, place) => [key(row), place, row]).sort((a, b) => {
  const found = order(a[0], b[0]);
  return Number.isFinite(found) ? (down ? -found : found) || a[1] - b[1] : found > 0 ? 1 : -1;  // what is missing is last
}).map(item => item[2]);
const percent = value => value === null ? "\u2013" : (100 * value).toFixed(1);

function still(table) {
  const body = table.tBodies[0], all = [...body.rows];
  const texts = new Map(all.map(row => [row, row.textContent.toLowerCase()]));
  return {
    all: all.length,
    show(words, column, down) {
      const rows = column === null ? all : sorted(all, row => row.cells[column].textContent.trim(), down);
      let count = 0;
      for (const row of rows) {
        row.hidden = !words.every(word => texts.get(row).includes(word));
        count += !row.hidden;
      }
      body.append(...rows);
      return count;
    },
  };
}

function drawn(table, data, more) {
  const body = table.tBodies[0], first = Number(table.dataset.first), texts = data.map(row => row.join(" ").toLowerCase());
  const places = new Map(data.map((row, place) => [row, place]));
  const heads = table.tHead.rows[0].cells;
  let rows = data, shown = 0;
  const draw = count => {
    const part = document.createDocumentFragment();
    for (const row of rows.slice(shown, shown + count)) {
      const line = document.createElement("tr");
      row.forEach((value, place) => {
        const cell = document.createElement(place ? "td" : "th");
        cell.className = heads[place].className;
        cell.textContent = place > 5 && place < 14 ? percent(value) : value === null ? "\u2013" : value;
        line.append(cell);
      });
      part.append(line);
    }
    body.append(part);
    shown = Math.min(rows.length, shown + count);
    more.hidden = shown >= rows.length;
    more.textContent = `Show more (${shown} of ${rows.length.toLocaleString("en")} rows are shown)`;
  };
  more.addEventListener("click", () => draw(5 * first));
  return {
    all: data.length,
    show(words, column, down) {
      rows = data.filter(row => words.every(word => texts[places.get(row)].includes(word)));
      if (column !== null) rows = sorted(rows, row => row[column], down);
      body.replaceChildren();
      shown = 0;
      draw(first);
      return rows.length;
    },
  };
}

for (const table of document.querySelectorAll("table.sortable")) {
  const mine = kind => document.querySelector(`${kind}[data-for="${table.id}"]`);
  const data = document.getElementById(`${table.id}-data`);
  const view = data ? drawn(table, JSON.parse(data.textContent), mine("button")) : still(table);
  const field = mine("input"), count = mine("span"), heads = [...table.tHead.rows[table.tHead.rows.length - 1].cells];
  let column = null, down = false;
  const update = () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = view.show(words, column, down);
    count.textContent = `${found.toLocaleString("en")} of ${view.all.toLocaleString("en")} rows`;
  };
  heads.forEach((head, place) => head.addEventListener("click", () => {
    down = column === place ? !down : !Number.isNaN(number(table.tBodies[0].rows[0]?.cells[place]?.textContent ?? ""));
    column = place;
    heads.forEach(other => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    update();
  }));
  field.addEventListener("input", update);
  if (data) update();
}
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach(part => { part.open = true; }));
