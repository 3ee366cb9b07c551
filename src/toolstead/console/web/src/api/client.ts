/** The server's REST interface, typed by its OpenAPI document: a field that changed there fails the build here. */
import createClient from "openapi-fetch";

import type { components, paths } from "./schema";

/** The shapes of bodies, by the name that the OpenAPI document gives them: `Shape<"Run">`. */
export type Shape<Name extends keyof components["schemas"]> = components["schemas"][Name];

/** What the server refused, in its own words. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly title: string,
    readonly detail: string,
    /** The other members of the problem document. */
    readonly more: Readonly<Record<string, unknown>> = {},
  ) {
    super(detail || title);
    this.name = "Problem";
  }
}

export const api = createClient<paths>({ baseUrl: "", credentials: "same-origin" });

interface Answered<Data> {
  data?: Data;
  error?: unknown;
  response: Response;
}

/** The body of an answer; what the server refused is thrown as a `Problem`. */
export async function take<Data>(asked: Promise<Answered<Data>>): Promise<Data> {
  let answered: Answered<Data>;
  try {
    answered = await asked;
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Problem(0, "The server cannot be reached", "It may have been stopped: look at its terminal.");
  }
  const { data, error, response } = answered;
  if (response.ok) return data as Data;
  const document = typeof error === "object" && error !== null ? (error as Record<string, unknown>) : {};
  throw new Problem(
    response.status,
    typeof document["title"] === "string" ? document["title"] : `The server answered ${response.status}`,
    typeof document["detail"] === "string" ? document["detail"] : "",
    document,
  );
}
