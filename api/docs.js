"use strict";
(function () {
  const make = (tag, text, parent) => {
    const e = document.createElement(tag);
    if (text) e.textContent = text;
    if (parent) parent.append(e);
    return e;
  };
  const table = (parent, head, rows) => {
    if (!rows.length) return;
    const t = make("table", "", parent);
    const h = make("tr", "", make("thead", "", t));
    head.forEach((c) => make("th", c, h));
    const b = make("tbody", "", t);
    rows.forEach((r) => {
      const tr = make("tr", "", b);
      r.forEach((c, i) => make(i ? "span" : "code", c, make("td", "", tr)));
    });
  };
  const schema = (doc, s, seen) => {
    if (!s) return "";
    if (s.$ref) {
      const name = s.$ref.split("/").pop();
      return seen.includes(name) ? name : schema(doc, doc.components.schemas[name], seen.concat(name));
    }
    if (s.anyOf) return s.anyOf.map((o) => schema(doc, o, seen)).join(" | ");
    if (s.enum) return s.enum.join(" | ");
    const types = [].concat(s.type || "any");
    if (types.includes("array")) return [schema(doc, s.items, seen)];
    if (s.properties) {
      const out = {};
      Object.keys(s.properties).forEach((k) => {
        out[(s.required || []).includes(k) ? k : k + "?"] = schema(doc, s.properties[k], seen);
      });
      return out;
    }
    return types.join(" | ") + (s.format ? " (" + s.format + ")" : "");
  };
  const bodies = (doc, parent, title, content) => {
    Object.keys(content || {}).forEach((type) => {
      make("h4", title + " " + type, parent);
      make("pre", JSON.stringify(schema(doc, content[type].schema, []), null, 2), parent);
    });
  };
  const operation = (doc, parent, path, method, op) => {
    const d = make("details", "", parent);
    const s = make("summary", "", d);
    make("span", method.toUpperCase(), s).className = "method";
    make("code", path, s);
    make("span", " " + (op.summary || ""), s);
    if (op.responses["501"]) d.className = "later";
    const body = make("div", "", d);
    if (op.description) make("p", op.description, body);
    table(body, ["parameter", "in", ""], (op.parameters || []).map((p) => [p.name, p.in, p.description || ""]));
    bodies(doc, body, "Request", op.requestBody && op.requestBody.content);
    Object.keys(op.responses).sort().forEach((status) => {
      bodies(doc, body, "Answer " + status, op.responses[status].content);
    });
  };
  fetch("/openapi.json").then((r) => r.json()).then((doc) => {
    document.getElementById("about").textContent = doc.info.description + " Version " + doc.info.version + ".";
    const sections = {};
    Object.keys(doc.paths).sort().forEach((path) => {
      Object.keys(doc.paths[path]).forEach((method) => {
        const op = doc.paths[path][method];
        const tag = op.tags[0];
        if (!sections[tag]) {
          sections[tag] = make("section", "", document.getElementById("routes"));
          make("h2", tag, sections[tag]);
        }
        operation(doc, sections[tag], path, method, op);
      });
    });
  }).catch((e) => {
    document.getElementById("about").textContent = "openapi.json could not be read: " + e;
  });
})();
