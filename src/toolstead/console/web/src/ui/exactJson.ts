/**
 * JSON whose numbers stay as they were written. JavaScript has no 9007199254740993 and no 1.0: parsed and written again
 * they are 9007199254740992 and 1. Such a number is kept as its text, in an object that `JSON.stringify` writes as that text.
 */

interface RawJson {
  readonly rawJSON: string;
}

interface ExactJson {
  parse(text: string, reviver: (key: string, value: unknown, context?: { source?: string }) => unknown): unknown;
  rawJSON?(text: string): RawJson;
}

const json = JSON as unknown as ExactJson;

/**
 * Throws a SyntaxError for what is no JSON; and, in a browser that cannot keep numbers as text, for one that it would change.
 */
export function parseExactly(text: string): unknown {
  return json.parse(text, (_, value, context) => {
    if (typeof value !== "number") return value;
    const written = context?.source;
    if (written !== undefined && json.rawJSON) return written === JSON.stringify(value) ? value : json.rawJSON(written);
    if (!Number.isFinite(value) || (Number.isInteger(value) && !Number.isSafeInteger(value))) {
      throw new SyntaxError(`this browser cannot send a number as large as ${value} exactly; a newer one can`);
    }
    return value;
  });
}

export function isExactNumber(value: unknown): value is RawJson {
  return typeof value === "object" && value !== null && Object.getPrototypeOf(value) === null && "rawJSON" in value;
}

/** The value with ordinary numbers, as forms need it; or, as `lost`, a number that would be another one then. */
export function simplify(value: unknown): { value: unknown; lost?: string } {
  if (isExactNumber(value)) {
    const number = Number(value.rawJSON);
    const isSame = Number.isFinite(number) && (Number.isSafeInteger(number) || !Number.isInteger(number));
    return isSame ? { value: number } : { value: number, lost: value.rawJSON };
  }
  if (typeof value !== "object" || value === null) return { value };
  let lost: string | undefined;
  const take = (held: unknown): unknown => {
    const inside = simplify(held);
    lost ??= inside.lost;
    return inside.value;
  };
  const made = Array.isArray(value) ? value.map(take) : Object.fromEntries(Object.entries(value).map(([key, held]) => [key, take(held)]));
  return lost === undefined ? { value: made } : { value: made, lost };
}
