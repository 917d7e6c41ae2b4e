"use strict";
(() => {
  const facts = JSON.parse(document.getElementById("facts").textContent);
  const {kept, limits} = facts;
  const SIMILAR = facts.gallery ? 4 : 0, GROUP = 16, GROUP_BYTES = 8 * 2 ** 20, HEADS = 2 ** 16, AT_ONCE = 2;
  const find = id => document.getElementById(id);
  const entries = [], queue = [];
  let running = 0, threshold = facts.threshold;

  const make = (name, options = {}, ...children) => {
    const node = Object.assign(document.createElement(name), options);
    node.append(...children);
    return node;
  };
  const number = value => Number(value.toPrecision(4)).toString().replace("-", "−");
  const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;

  // Where a score lies on the bar: straight over the scores of known pictures, squeezed beyond them.
  const low = kept[0], high = kept[kept.length - 1];
  const span = Math.max(high - low, 1e-9);
  const place = score => {
    const at = (score - low) / span;
    if (at < 0) return 0.1 * Math.exp(at * 4);
    if (at > 1) return 0.7 + 0.28 * (1 - Math.exp(-(at - 1) * 2));
    return 0.1 + 0.6 * at;
  };

  // Pictures in.
  const add = files => {
    const fresh = [...files].map(file => {
      const entry = {file, state: "waiting", card: make("li", {className: "card waiting"})};
      show(entry);
      if (file.size > limits.image_bytes) fail(entry, `It has more than ${limits.image_bytes / 2 ** 20} MiB.`);
      else queue.push(entry);
      return entry;
    });
    entries.unshift(...fresh);
    arrange();
    pump();
  };

  const pump = () => {
    while (running < AT_ONCE && queue.length) {
      const group = [queue.shift()];
      let bytes = group[0].file.size;
      const most = Math.min(GROUP_BYTES, limits.body_bytes - HEADS);
      while (queue.length && group.length < Math.min(GROUP, limits.images) && bytes + queue[0].file.size <= most) {
        bytes += queue[0].file.size;
        group.push(queue.shift());
      }
      running += 1;
      send(group).finally(() => { running -= 1; pump(); summarise(); });
    }
    summarise();
  };

  const send = async group => {
    const form = new FormData();
    for (const entry of group) form.append("files", entry.file, entry.file.name || "picture");
    let response, answer;
    try {
      response = await fetch(`predict?similar=${SIMILAR}`, {method: "POST", body: form});
      answer = await response.json();
    } catch {
      if (group.length > 1) {  // one of them may be a folder, or gone
        for (const entry of group) await send([entry]);
        return;
      }
      fail(group[0], "It could not be sent: is the server running, and is this a file?");
      return;
    }
    if (response.status === 429) {
      await new Promise(done => setTimeout(done, 1000 * (Number(response.headers.get("Retry-After")) || 1)));
      queue.unshift(...group);
      return;
    }
    group.forEach((entry, at) => {
      const found = (answer.images || [])[at];
      if (!found || found.error) fail(entry, found ? found.error : answer.error);
      else settle(entry, found);
    });
    arrange();
  };

  const fail = (entry, reason) => { Object.assign(entry, {state: "bad", reason}); show(entry); };
  const settle = (entry, found) => { Object.assign(entry, {state: "judged", found}); show(entry); };

  // Cards.
  const preview = entry => {
    if (!entry.shot) {
      const image = make("img", {alt: "", loading: "lazy", src: URL.createObjectURL(entry.file)});
      image.onload = () => image.classList.toggle("tiny", image.naturalWidth <= 64 && image.naturalHeight <= 64);
      image.onerror = () => image.replaceWith(make("span", {textContent: "no preview in this browser"}));
      entry.shot = make("div", {className: "shot"}, image);
    }
    return entry.shot;
  };

  const show = entry => {
    const {card, state} = entry;
    const parts = [preview(entry)];
    if (state === "waiting") parts.push(make("p", {className: "verdict", textContent: "looking"}));
    if (state === "bad") {
      card.className = "card bad";
      parts.push(make("p", {className: "verdict", textContent: "not read"}), make("p", {textContent: entry.reason}));
    }
    if (state === "judged") {
      entry.verdict = make("p", {className: "verdict"});
      entry.title = make("h3");
      entry.sure = make("p");
      entry.fill = make("i");
      entry.tick = make("b");
      entry.gauge = make("div", {className: "gauge"}, entry.fill, entry.tick);
      entry.gauge.setAttribute("role", "img");
      entry.numbers = make("p", {className: "quiet"});
      parts.push(entry.verdict, entry.title, entry.sure, entry.gauge, entry.numbers);
      if (entry.found.similar.length) parts.push(make("h4", {textContent: "Most similar in training"}), near(entry.found.similar));
    }
    parts.push(make("p", {className: "file", textContent: entry.file.name || "pasted picture"}));
    card.replaceChildren(...parts);
    if (state === "judged") judge(entry);
  };

  const near = similar => make("ol", {className: "near"}, ...similar.map(each => make("li", {title: `similarity ${each.similarity.toFixed(3)}`},
    make("img", {src: `similar/${each.index}.png`, alt: `training picture of ${each.label} in ${each.domain}`, loading: "lazy"}),
    make("span", {textContent: `${each.label}, ${each.domain}`, ariaHidden: "true"}))));

  // The verdict follows the threshold; nothing is asked of the server.
  const judge = entry => {
    const {found} = entry, unknown = found.score > threshold;
    entry.unknown = unknown;
    entry.card.className = `card ${unknown ? "unknown" : "known"}`;
    entry.verdict.textContent = unknown ? "unknown" : "known";
    entry.title.textContent = unknown ? "Probably none of its classes" : found.label;
    entry.sure.textContent = unknown ? `nearest: ${found.label}, ${percent(found.confidence)} among the known` : `${percent(found.confidence)} sure among the known`;
    entry.fill.style.width = `${100 * place(found.score)}%`;
    entry.tick.style.left = `${100 * place(threshold)}%`;
    const words = `score ${number(found.score)}, threshold ${number(threshold)}`;
    entry.numbers.textContent = words;
    entry.gauge.setAttribute("aria-label", `${words}: ${unknown ? "above, unknown" : "not above, known"}`);
  };
  const percent = share => share > 0.995 ? "over 99 %" : `${Math.round(100 * share)} %`;

  const arrange = () => {
    const sorted = find("sort").getAttribute("aria-pressed") === "true";
    const score = entry => entry.found ? entry.found.score : -Infinity;
    const order = sorted ? [...entries].sort((a, b) => score(b) - score(a)) : entries;
    find("results").replaceChildren(...order.map(entry => entry.card));
    for (const id of ["sort", "clear"]) find(id).hidden = !entries.length;
    draw();
  };

  const summarise = () => {
    const count = state => entries.filter(entry => entry.state === state).length;
    const unknown = entries.filter(entry => entry.state === "judged" && entry.unknown).length;
    const said = [`${count("judged") - unknown} known`, `${unknown} unknown`];
    if (count("bad")) said.push(`${count("bad")} not read`);
    if (count("waiting")) said.push(`${count("waiting")} to go`);
    const text = entries.length ? `${plural(entries.length, "picture")}: ${said.join(", ")}.` : "Nothing to judge yet.";
    if (find("summary").textContent !== text) find("summary").textContent = text;
  };

  // The strip: how the scores of known pictures lie, the threshold, and the pictures given.
  const svg = (name, attributes, text) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text) node.textContent = text;
    return node;
  };
  const hill = width => {
    const bins = new Array(48).fill(0);
    for (const score of kept) bins[Math.min(47, Math.floor(48 * place(score)))] += 1;
    const smooth = bins.map((_, at) => [-2, -1, 0, 1, 2].reduce((sum, by) => sum + (bins[at + by] || 0) * (3 - Math.abs(by)), 0));
    const top = Math.max(...smooth);
    const points = smooth.map((value, at) => `${((at + 0.5) / 48 * width).toFixed(1)},${(78 - 56 * value / top).toFixed(1)}`);
    return `0,78 ${points.join(" ")} ${width},78`;
  };
  const draw = () => {
    const strip = find("strip");
    const width = strip.clientWidth || 600, at = width * place(threshold);
    const picture = svg("svg", {viewBox: `0 0 ${width} 104`, "aria-hidden": "true"});
    picture.append(
      svg("polygon", {class: "known-area", points: hill(width)}),
      svg("line", {class: "base", x1: 0, x2: width, y1: 78, y2: 78}),
      svg("line", {class: "line", x1: at, x2: at, y1: 8, y2: 78}),
      svg("text", {x: 0, y: 98}, "← known"),
      svg("text", {x: width, y: 98, "text-anchor": "end"}, "unknown →"),
      svg("text", {x: at + (at < width / 2 ? 6 : -6), y: 16, "text-anchor": at < width / 2 ? "start" : "end"}, `threshold ${number(threshold)}`));
    for (const entry of entries) {
      if (entry.state === "judged") picture.append(svg("circle", {class: `dot${entry.unknown ? " unknown" : ""}`, cx: width * place(entry.found.score), cy: 70, r: 5}));
    }
    strip.replaceChildren(picture);
    strip.setAttribute("aria-label", `Scores of held-out known pictures from ${number(low)} to ${number(high)}, the threshold at ${number(threshold)}`);
  };

  const move = (value, share) => {
    threshold = value;
    const flagged = 100 - share;
    find("share").textContent = `${share} %`;
    find("keep").setAttribute("aria-valuetext", `${share} percent of known pictures kept, threshold ${number(threshold)}`);
    find("meaning").textContent = `Of held-out pictures like those it learned from, about ${share} in 100 pass as known and ${flagged} are flagged by mistake. Pictures from a new domain may score higher.`;
    find("command").textContent = find("command").textContent.replace(/keep=[\d.]+/, `keep=${share / 100}`);
    for (const entry of entries) if (entry.state === "judged") judge(entry);
    draw();
    summarise();
  };

  // Ways in.
  find("files").addEventListener("change", event => { add(event.target.files); event.target.value = ""; });
  document.addEventListener("paste", event => { if (event.clipboardData.files.length) add(event.clipboardData.files); });
  let depth = 0;
  const over = by => { depth = Math.max(0, depth + by); document.body.classList.toggle("over", depth > 0); };
  document.addEventListener("dragenter", event => { event.preventDefault(); over(1); });
  document.addEventListener("dragleave", () => over(-1));
  document.addEventListener("dragover", event => event.preventDefault());
  document.addEventListener("drop", event => { event.preventDefault(); over(-depth); add(event.dataTransfer.files); });
  find("clear").addEventListener("click", () => {
    for (const entry of entries) URL.revokeObjectURL(entry.shot.querySelector("img")?.src);
    entries.length = queue.length = 0;
    arrange();
    summarise();
    find("files").focus();
  });
  find("sort").addEventListener("click", event => {
    event.target.setAttribute("aria-pressed", event.target.getAttribute("aria-pressed") !== "true");
    arrange();
  });
  find("command").textContent = find("command").textContent.replace("HOST", location.host);
  const keep = find("keep");
  const own = () => {
    keep.value = Math.max(1, kept.filter(value => value <= facts.threshold).length);  // the most that it keeps
    move(facts.threshold, Number(keep.value));
  };
  keep.addEventListener("input", () => move(kept[keep.value - 1], Number(keep.value)));
  find("reset").addEventListener("click", own);
  addEventListener("resize", draw);
  own();
})();
