"use strict";
// The table of questions. Texts are inserted as text nodes only, so that no question can become markup.
(async () => {
  const PER_PAGE = 50;
  const MOST_OPTIONS = 1000;
  const [RUN, ID, SUBJECT, OUTCOME, KEY, CHOICE, CONFIDENCE, LATENCY, QUESTION, CHOICES] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9];
  const COLUMNS = [
    ["question", QUESTION], ["id", ID], ["subject", SUBJECT], ["outcome", OUTCOME], ["key", KEY], ["chosen", CHOICE],
    ["confidence", CONFIDENCE], ["latency ms", LATENCY],
  ];
  const LABELS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
  const at = (id) => document.getElementById(id);
  const index = at("index");
  const runs = JSON.parse(index.dataset.runs);
  const perParcel = Number(index.dataset.perParcel);
  const parcels = document.getElementsByClassName("parcel");

  async function unpack(element) {
    const bytes = Uint8Array.from(atob(element.textContent), (each) => each.charCodeAt(0));
    const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Response(plain).json();
  }

  function make(tag, text, properties) {
    const element = Object.assign(document.createElement(tag), properties);
    if (text !== undefined && text !== null) element.textContent = text;
    return element;
  }

  // The questions are stored once, in columns; then for each run the number of its first question, and its columns.
  const [[ids, subjects, keys, texts, choicesOf, firstRows], asked] = await unpack(index);
  const haystacks = (ids ?? []).map((id, at) => [id, subjects[at], texts[at], ...choicesOf[at]].join("\n").toLowerCase());
  const rows = asked.flatMap(([start, [outcomes, chosen, confidences, latencies]], run) => (outcomes ?? []).map((outcome, place) => {
    const at = start + place;
    const row = [run, ids[at], subjects[at], outcome, keys[at], chosen[place], confidences[place], latencies[place], texts[at], choicesOf[at]];
    return Object.assign(row, { haystack: haystacks[at], first: firstRows[at], asked: at });
  }));
  rows.forEach((row, number) => { row.number = number; });
  if (runs.length > 1) COLUMNS.splice(1, 0, ["run", RUN]);
  const state = { page: 0, sort: null, falling: false };

  // Grouped by question, not by id, as another file may use the same id for another question.
  // Includes the choice, as two wrong answers may differ.
  const answers = new Map();
  for (const row of rows) {
    const seen = answers.get(row.asked) ?? new Set();
    answers.set(row.asked, seen.add(`${row[OUTCOME]} ${row[CHOICE]}`));
  }
  for (const [id, column] of [["outcome", OUTCOME], ["subject", SUBJECT]]) {
    const counts = new Map();
    for (const row of rows) counts.set(row[column], (counts.get(row[column]) ?? 0) + 1);
    if (counts.size > MOST_OPTIONS) {
      at(id).parentElement.hidden = true; // the search looks at subjects, too
      continue;
    }
    for (const [value, count] of [...counts].sort()) {
      at(id).append(make("option", `${value || "(none)"} (${count})`, { value: `=${value}` }));
    }
  }

  function found() {
    const words = at("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    const [run, outcome, subject] = ["run", "outcome", "subject"].map((id) => at(id).value);
    const kept = rows.filter((row) =>
      (run === "" || row[RUN] === Number(run)) &&
      (outcome === "" || `=${row[OUTCOME]}` === outcome) &&
      (subject === "" || `=${row[SUBJECT]}` === subject) &&
      (!at("differing").checked || answers.get(row.asked).size > 1) &&
      words.every((word) => row.haystack.includes(word)));
    if (state.sort === null) return kept;
    const sign = state.falling ? -1 : 1;
    const missing = (value) => value === null || value === "";
    return kept.sort((a, b) => {
      const [one, other] = [a[state.sort], b[state.sort]];
      if (missing(one) || missing(other)) return missing(one) - missing(other);
      return sign * (one < other ? -1 : one > other ? 1 : 0);
    });
  }

  function heads() {
    at("heads").replaceChildren(...COLUMNS.map(([name, column]) => {
      const head = make("th", null, { scope: "col", className: name.split(" ")[0] });
      const sorted = state.sort === column;
      if (sorted) head.setAttribute("aria-sort", state.falling ? "descending" : "ascending");
      const button = make("button", name + (sorted ? (state.falling ? " ↓" : " ↑") : ""), { type: "button" });
      button.addEventListener("click", () => {
        state.falling = sorted && !state.falling;
        state.sort = column;
        state.page = 0;
        show();
        at("heads").children[COLUMNS.findIndex((each) => each[1] === column)].firstChild.focus();
      });
      head.append(button);
      return head;
    }));
  }

  function cell(row, name, column) {
    const value = row[column];
    if (column === QUESTION) {
      const button = make("button", value, { type: "button", className: "open" });
      button.setAttribute("aria-expanded", "false");
      button.addEventListener("click", () => toggle(row, button));
      const made = make("td");
      made.append(button);
      return made;
    }
    const shown = column === RUN ? runs[value] : column === CONFIDENCE && typeof value === "number" ? value.toFixed(3) : value;
    const made = make("td", shown ?? "");
    made.dataset.name = name;
    if (column === OUTCOME) made.className = `outcome ${value}`;
    return made;
  }

  async function toggle(row, button) {
    const line = button.closest("tr");
    if (button.getAttribute("aria-expanded") === "true") {
      button.setAttribute("aria-expanded", "false");
      line.nextElementSibling.remove();
      return;
    }
    button.setAttribute("aria-expanded", "true");
    const place = make("tr", null, { className: "detail" });
    const inside = make("td", "…", { colSpan: COLUMNS.length });
    place.append(inside);
    line.after(place);
    inside.replaceChildren(...parts(row, await detail(row)));
  }

  // Details of the first run with a question apply to all others, unless they have their own.
  async function detail(row) {
    const { context, metadata, prompts } = await packed(row.first);
    return { context, metadata, prompts, ...(await packed(row.number)) };
  }

  async function packed(number) {
    return (await unpack(parcels[Math.floor(number / perParcel)]))[number % perParcel];
  }

  function* parts(row, detail) {
    yield make("p", row[QUESTION], { className: "text" });
    if (detail.context) {
      yield make("h3", "Context");
      yield make("p", detail.context, { className: "text" });
    }
    yield make("h3", "Choices");
    yield choices(row, detail.scores ?? {});
    if (detail.raw) {
      yield make("h3", "Generated text");
      yield make("pre", detail.raw, { tabIndex: 0 });
    }
    if (detail.passages) {
      yield make("h3", "Passages");
      for (const [name, text] of detail.passages) yield make("p", `[${name}] ${text}`, { className: "text" });
    }
    yield make("h3", "Prompt");
    for (const pieces of detail.prompts) yield make("pre", pieces.join(row[QUESTION]), { tabIndex: 0 });
    const facts = make("dl", null, { className: "facts" });
    for (const [name, value] of [...(detail.facts ?? []), ...Object.entries(detail.metadata ?? {})]) {
      facts.append(make("dt", name), make("dd", value));
    }
    yield facts;
  }

  function choices(row, scores) {
    const table = make("table", null, { className: "choices" });
    row[CHOICES].forEach((text, place) => {
      const label = LABELS[place];
      const marks = [row[KEY].split(",").includes(label) ? "key" : "", label === row[CHOICE] ? "chosen" : ""].filter(Boolean).join(", ");
      const line = make("tr", null, { className: label === row[CHOICE] ? "chosen" : "" });
      line.append(make("td", label), make("td", text), make("td", scores[label] ?? "", { className: "number" }), make("td", marks));
      table.append(line);
    });
    return table;
  }

  function show() {
    const kept = found();
    const pages = Math.max(1, Math.ceil(kept.length / PER_PAGE));
    state.page = Math.min(state.page, pages - 1);
    const start = state.page * PER_PAGE;
    at("rows").replaceChildren(...kept.slice(start, start + PER_PAGE).map((row) => {
      const line = make("tr");
      line.append(...COLUMNS.map(([name, column]) => cell(row, name, column)));
      return line;
    }));
    heads();
    at("found").textContent = `${kept.length.toLocaleString("en")} of ${rows.length.toLocaleString("en")} ${runs.length > 1 ? "rows, one for each question and run" : "questions"}`;
    at("page").textContent = `page ${state.page + 1} of ${pages}`;
    at("previous").disabled = state.page === 0;
    at("next").disabled = state.page === pages - 1;
  }

  function again() {
    state.page = 0;
    show();
  }
  at("filters").addEventListener("input", again);
  at("filters").addEventListener("submit", (event) => event.preventDefault());
  at("previous").addEventListener("click", () => { state.page -= 1; show(); });
  at("next").addEventListener("click", () => { state.page += 1; show(); });
  show();
})();
