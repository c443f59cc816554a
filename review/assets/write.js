// Checks the text as one types. Whatever the server says is put into the page as text, never as HTML.
"use strict";

const form = document.getElementById("writing");
const field = document.getElementById("text");
const count = document.getElementById("count");
let waiting = 0;
let asked = 0;

function element(name, text, kind) {
  const made = document.createElement(name);
  made.textContent = text;
  if (kind) made.className = kind;
  return made;
}

function problem(each) {
  const item = element("li", "", each.kind);
  const place = element("button", `line ${each.line}, column ${each.column}`, "place");
  place.type = "button";
  place.addEventListener("click", () => {
    field.focus();
    field.setSelectionRange(each.start, each.end);
  });
  item.append(place, ` ${each.message} `);
  if (each.hint) item.append(element("span", `hint: ${each.hint}`, "soft"));
  return item;
}

function query(each) {
  const list = document.createElement("ul");
  for (const [column, type, progress] of each.columns) {
    const item = document.createElement("li");
    item.append(element("code", column), ` ${type} `);
    if (progress) item.append(element("span", progress, "soft"));
    list.append(item);
  }
  return [element("h3", each.name), list];
}

function show(found) {
  const number = found.problems.length;
  count.textContent = found.error || (number ? `${number} found.` : "No mistake.");
  document.getElementById("problems").replaceChildren(...found.problems.map(problem));
  document.getElementById("columns").replaceChildren(...found.queries.flatMap(query));
  document.getElementById("explained").textContent = found.explained;
}

async function check() {
  const number = ++asked;
  const wanted = new URLSearchParams({ text: field.value, set: form.elements.set.value });
  try {
    const answer = await fetch(`check?${wanted}`, { headers: { Accept: "application/json" } });
    const found = answer.ok ? await answer.json() : { error: `The server answers ${answer.status}.` };
    if (number === asked) show({ problems: [], queries: [], explained: "", ...found });
  } catch {
    if (number === asked) count.textContent = "The server does not answer.";
  }
}

function soon() {
  clearTimeout(waiting);
  waiting = setTimeout(check, 300);
}

field.addEventListener("input", soon);
form.elements.set.addEventListener("change", soon);
field.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    form.requestSubmit(document.getElementById("try"));
  }
});
if (location.hash === "#result") document.getElementById("result").focus();
check();
