// The description of the API as a page: each path with its parameters, its answers and their fields.

import { read } from "./data.js";
import { card, h, quiet } from "./dom.js";

const content = document.getElementById("content");
const described = await read("v1/openapi.json");
const schemas = described.components.schemas;

const nameOf = (schema) => schema.$ref?.split("/").at(-1);

function kind(schema) {
  if (schema.$ref) return h("a", { href: `#${nameOf(schema)}` }, nameOf(schema));
  if (schema.anyOf) return schema.anyOf.flatMap((each, index) => [index ? " or " : "", kind(each)]);
  if (schema.items) return ["list of ", kind(schema.items)];
  if (schema.enum) return schema.enum.join(" | ");
  if (schema.additionalProperties && schema.type === "object") return ["map to ", kind(schema.additionalProperties)];
  return [schema.type].flat().join(" or ") || "any";
}

const row = (...cells) =>
  h(
    "tr",
    {},
    cells.map((each) => h("td", {}, each)),
  );
const grid = (rows) => h("div", { class: "scroll" }, h("table", {}, h("tbody", {}, rows)));

function operation(path, method, about) {
  const parameters = (about.parameters ?? []).map((each) =>
    row(
      h("code", {}, each.name),
      each.required
        ? "needed"
        : each.schema.default === undefined
          ? ""
          : `default ${JSON.stringify(each.schema.default)}`,
      kind(each.schema),
      each.description ?? "",
    ),
  );
  const responses = Object.entries(about.responses).map(([status, each]) =>
    row(
      h("code", {}, status),
      Object.entries(each.content ?? {}).flatMap(([type, { schema }], index) => [
        index ? ", or " : "",
        type === "application/json" ? kind(schema) : type,
      ]),
      status.startsWith("2") ? "" : each.description,
    ),
  );
  return card(
    `${method} ${path}`,
    `${method.toUpperCase()} ${path}`,
    h("p", {}, about.summary, ". ", about.description),
    parameters.length > 0 && grid(parameters),
    h("h3", {}, "Answers"),
    grid(responses),
  );
}

function shape([name, schema]) {
  const fields = Object.entries(schema.properties ?? {}).map(([field, each]) =>
    row(h("code", {}, field), schema.required?.includes(field) ? "" : "may be absent", kind(each)),
  );
  return h(
    "section",
    { class: "card", id: name },
    h("h2", {}, name),
    schema.description && h("p", {}, schema.description),
    fields.length > 0 && grid(fields),
  );
}

content.replaceChildren(
  h("h1", {}, "API of the console"),
  quiet(described.info.description, " For programs: ", h("a", { href: "v1/openapi.json" }, "v1/openapi.json"), "."),
  ...Object.entries(described.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, about]) => operation(path, method, about)),
  ),
  h("h1", {}, "Shapes"),
  ...Object.entries(schemas).sort().map(shape),
);
document.getElementById(decodeURIComponent(location.hash.slice(1)))?.scrollIntoView();
