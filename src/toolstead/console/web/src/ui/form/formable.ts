/** Whether a form can be made of a schema at all: one that holds itself would be drawn without an end. */

type Schema = Readonly<Record<string, unknown>>;

const DEEPEST = 40;
const MOST_PARTS = 3_000;

/** What a form begins with, followed from the root; throws at what no form can have. */
class Walk {
  private parts = 0;

  constructor(private readonly root: Schema) {}

  /** `open` are the references that are drawn as soon as the form is: one of them again is an endless form. */
  visit(schema: unknown, open: readonly string[], depth = 0): void {
    if (!isSchema(schema)) return;
    this.parts += 1;
    if (this.parts > MOST_PARTS || depth > DEEPEST) throw new Error("it is too large");
    if ("$dynamicRef" in schema) throw new Error("it has a $dynamicRef");
    const reference = schema["$ref"];
    if (typeof reference === "string") {
      if (open.includes(reference)) throw new Error(`${reference} holds itself`);
      this.visit(this.resolve(reference), [...open, reference], depth + 1);
    }
    for (const key of ["properties", "dependentSchemas"]) {
      const held = schema[key];
      if (isSchema(held)) for (const part of Object.values(held)) this.visit(part, open, depth + 1);
    }
    for (const key of ["if", "then", "else", "not"]) this.visit(schema[key], open, depth + 1);
    for (const part of listOf(schema["allOf"])) this.visit(part, open, depth + 1);
    for (const key of ["anyOf", "oneOf", "prefixItems"]) for (const part of listOf(schema[key])) this.visit(part, open, depth + 1);
    const items = schema["items"];
    // Items are drawn when there are any: those that must be there from the start.
    if (typeof schema["minItems"] === "number" && schema["minItems"] > 0) this.visit(items, open, depth + 1);
  }

  private resolve(reference: string): unknown {
    if (reference === "#") return this.root;
    if (!reference.startsWith("#/")) throw new Error(`${reference} is not in it`);
    let place: unknown = this.root;
    for (const part of reference.slice(2).split("/")) {
      const name = decodeURIComponent(part).replaceAll("~1", "/").replaceAll("~0", "~");
      place = Array.isArray(place) ? place[Number(name)] : isSchema(place) ? place[name] : undefined;
    }
    if (place === undefined) throw new Error(`${reference} is not in it`);
    return place;
  }
}

const isSchema = (value: unknown): value is Schema => typeof value === "object" && value !== null && !Array.isArray(value);

const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);

/** Why there can be no form of a schema, in words; empty where there can. */
export function explainNoForm(schema: Schema): string {
  try {
    new Walk(schema).visit(schema, ["#"]);
    return "";
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}
