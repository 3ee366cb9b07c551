/** The operations of an OpenAPI document, and a form's schema and a request for each. */
import { isExactNumber } from "../../ui/exactJson";

type Json = Readonly<Record<string, unknown>>;

export interface ApiDocument {
  paths: Readonly<Record<string, Readonly<Record<string, Json>>>>;
  components: { schemas: Json };
}

export interface Operation {
  id: string;
  method: string;
  path: string;
  summary: string;
  description: string;
  isPrivate: boolean;
  parameters: readonly Parameter[];
  body: Json | undefined;
  /** What the form begins with. */
  example: Json;
}

interface Parameter {
  name: string;
  in: "path" | "query" | "header";
  required?: boolean;
  description?: string;
  schema?: Json;
  example?: unknown;
}

export function listOperations(document: ApiDocument): Operation[] {
  return Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, held]) => {
      const parameters = (held["parameters"] ?? []) as Parameter[];
      const content = ((held["requestBody"] as Json | undefined)?.["content"] as Record<string, Json> | undefined)?.["application/json"];
      const example: Record<string, unknown> = {};
      for (const one of parameters) if (one.in === "path" && one.example !== undefined) example[one.name] = one.example;
      if (content?.["example"] !== undefined) example["body"] = content["example"];
      return {
        id: String(held["operationId"] ?? `${method} ${path}`),
        method: method.toUpperCase(),
        path,
        summary: String(held["summary"] ?? ""),
        description: String(held["description"] ?? ""),
        isPrivate: Array.isArray(held["security"]) && JSON.stringify(held["security"]).includes("rivate"),
        parameters,
        body: content?.["schema"] as Json | undefined,
        example,
      };
    }),
  );
}

/** One schema for all that a request takes: its parameters by name, and its body. */
export function makeSchema(operation: Operation, document: ApiDocument): Record<string, unknown> {
  const properties: Record<string, unknown> = {};
  const required: string[] = [];
  for (const one of operation.parameters) {
    properties[one.name] = { ...(one.schema ?? { type: "string" }), title: `${one.name} (${one.in})`, description: one.description };
    if (one.required) required.push(one.name);
  }
  if (operation.body) {
    properties["body"] = { title: "body", ...operation.body };
    required.push("body");
  }
  const schema = { type: "object", properties, required, $defs: document.components.schemas };
  return JSON.parse(JSON.stringify(schema).replaceAll("#/components/schemas/", "#/$defs/")) as Record<string, unknown>;
}

const writeParameter = (value: unknown): string => (isExactNumber(value) ? value.rawJSON : String(value));

export function writeRequest(operation: Operation, value: unknown): { address: string; init: RequestInit } {
  const given = (typeof value === "object" && value !== null ? value : {}) as Json;
  const query = new URLSearchParams();
  const headers: Record<string, string> = {};
  let address = operation.path;
  for (const one of operation.parameters) {
    const said = given[one.name];
    if (one.in === "path") address = address.replace(`{${one.name}}`, encodeURIComponent(writeParameter(said ?? "")));
    else if (said === undefined || said === "" || said === null) continue;
    else if (one.in === "query") query.set(one.name, writeParameter(said));
    else headers[one.name] = writeParameter(said);
  }
  const body = operation.body ? JSON.stringify(given["body"] ?? {}) : undefined;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const text = query.toString();
  return { address: address + (text ? `?${text}` : ""), init: { method: operation.method, headers, ...(body === undefined ? {} : { body }) } };
}
