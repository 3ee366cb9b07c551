/** A call of a tool as it is typed elsewhere. */
import { isExactNumber } from "../../ui/exactJson";

const quote = (text: string): string => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`);

export function writeCli(tool: string, input: unknown): string {
  const pairs = Object.entries(isObject(input) ? input : {});
  const simple = pairs.every(([key]) => /^[\w-]+$/.test(key));
  const given = simple
    ? pairs.map(([key, value]) => (typeof value === "string" ? quote(`${key}=${value}`) : quote(`${key}:=${JSON.stringify(value)}`)))
    : ["--input", quote(JSON.stringify(input))];
  return ["toolstead tools call", quote(tool), ...given].join(" ");
}

export function writeCurl(tool: string, input: unknown, origin: string): string {
  const address = `${origin}/api/tools/${encodeURIComponent(tool)}/call`;
  return `curl -s ${quote(address)} -H 'Content-Type: application/json' -d ${quote(JSON.stringify({ input }))}`;
}

export function writePython(tool: string, input: unknown): string {
  return [
    "import asyncio",
    "from toolstead import Toolstead",
    "",
    "async def main():",
    "    async with Toolstead() as stead:",
    `        print((await stead.call(${writeValue(tool)}, ${writeValue(input)})).text)`,
    "",
    "asyncio.run(main())",
  ].join("\n");
}

/** A JSON value as Python has it. */
function writeValue(value: unknown): string {
  if (value === null || value === undefined) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (isExactNumber(value)) return value.rawJSON;
  if (Array.isArray(value)) return `[${value.map(writeValue).join(", ")}]`;
  if (isObject(value)) return `{${Object.entries(value).map(([key, held]) => `${JSON.stringify(key)}: ${writeValue(held)}`).join(", ")}}`;
  return JSON.stringify(value);
}

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null && !Array.isArray(value);
