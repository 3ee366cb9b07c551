// The checks for clients in JavaScript; `probe.py` says what each is about. Only Node's own modules may be imported here.

import { copyFileSync, existsSync, readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

const ITEMS = { items: [{ sku: "AB-1", count: 2 }, { sku: "CD-22", count: 3 }] };
const BAD_STOCK = { items: [{ sku: "wrong", count: 2 }] };
const ORDER = { ...ITEMS, payment: { kind: "card", number: "7" }, speed: "fast" };
const TREE = { root: { name: "a", children: [{ name: "b", children: [{ name: "c" }] }] } };
const FIXED = ["lab__echo", "lab__stock", "say-word"];
const SECONDS = 30;

export class Partly extends Error {}
export class Untried extends Error {}

export const stage = JSON.parse(readFileSync(process.argv[2], "utf8"));
export const isStdio = stage.transport === "stdio";
export const [command, ...args] = stage.command;

export function expect(condition, otherwise) {
  if (!condition) throw new Error(typeof otherwise === "string" ? otherwise : JSON.stringify(otherwise));
}

const reported = new Set(["close"]);

function report(check, verdict, note = "") {
  reported.add(check);
  console.log(JSON.stringify({ check, verdict, note: note.slice(0, 500) }));
}

export async function tryOne(name, run) {
  if (!stage.checks.includes(name)) return;
  const late = new AbortController();
  try {
    const timeout = sleep(SECONDS * 1000, undefined, { signal: late.signal }).then(() => {
      throw new Error(`nothing within ${SECONDS} s`);
    });
    const noted = await Promise.race([run(), timeout]);
    report(name, "W", typeof noted === "string" ? noted : "");
  } catch (error) {
    const text = `${error.name}: ${error.message}`;
    if (error instanceof Partly) report(name, "P", error.message);
    else if (error instanceof Untried) report(name, "-", error.message);
    else if (["prompts", "resources"].includes(name) && /method not found|does not support/i.test(text))
      report(name, "-", "the server offers none");
    else report(name, "F", text);
  } finally {
    late.abort();
  }
}

export async function logHas(line, seconds = 5) {
  for (let tries = 0; tries < seconds * 20; tries += 1) {
    if (existsSync(stage.log) && readFileSync(stage.log, "utf8").split("\n").includes(line)) return true;
    await sleep(50);
  }
  return false;
}

async function expectText(connection, name, input, text) {
  const answer = await connection.call(name, input);
  if (answer.text.includes("did not declare")) throw new Untried("it does not declare that it can");
  expect(answer.text.includes(text) && !answer.isError, answer);
}

/** Runs every check over a connection, which has the methods of `Connection` in `probe.py`; some may be missing. */
export async function runChecks(connection) {
  const checks = {
    async list() {
      const tools = await connection.tools();
      expect(FIXED.every((name) => name in tools), Object.keys(tools));
    },
    async call() {
      await expectText(connection, "lab__echo", { text: "hi" }, "echo: hi");
      await expectText(connection, "say-word", { word: "yes" }, "said yes");
    },
    async errors() {
      const answer = await connection.call("lab__stock", BAD_STOCK);
      expect(answer.isError && answer.text.includes("/items/0/sku"), answer);
    },
    async nested() {
      const tools = await connection.tools();
      await expectText(connection, "lab__order", ORDER, "5 pieces by card");
      await expectText(connection, "lab__tree", TREE, "depth 3");
      expect(JSON.stringify(tools.lab__tree).includes('"children"'), tools.lab__tree);
    },
    async union() {
      expect("lab__union" in (await connection.tools()), "not listed");
      await expectText(connection, "lab__union", { phone: "555" }, "reached by phone");
    },
    async progress() {
      if (!connection.follow) throw new Untried("it shows no progress");
      const seen = await connection.follow("lab__slow");
      if (seen.length > 0 && seen.length < 4) throw new Partly(`${seen.length} of 4`);
      expect(seen.length === 4, seen);
      return "4 of 4";
    },
    async image() {
      expect((await connection.call("lab__picture", {})).kinds.includes("image"), "no image");
    },
    ask: () => expectText(connection, "lab__ask", {}, '"name": "Ada"'),
    sample: () => expectText(connection, "lab__think", {}, "thought: seven"),
    async prompts() {
      return `${await connection.prompts()} listed`;
    },
    async resources() {
      return `${await connection.resources()} listed`;
    },
    async reload() {
      copyFileSync(...stage.hot);
      for (let tries = 0; tries < 50 && !connection.heard?.length; tries += 1) await sleep(100);
      expect("hot" in (await connection.tools()), "not listed");
      await expectText(connection, "hot", {}, "hot indeed");
      if (connection.heard && !connection.heard.length) throw new Partly("listed on request, but list_changed was not heard");
      return connection.heard ? "heard" : "listed on request";
    },
    async cancel() {
      const giveUp = new AbortController();
      const call = connection.call("lab__wait", { tag: "task" }, giveUp.signal).catch(() => undefined);
      expect(await logHas("began task", 10), "it never began");
      giveUp.abort();
      await Promise.race([call, sleep(3000)]);
      expect(await logHas("cancelled task"), "the tool runs on");
    },
  };
  for (const [name, run] of Object.entries(checks)) await tryOne(name, run);
}

/** Runs a driver: what a failed connection left out has failed, too. */
export async function drive(run, close) {
  try {
    await run();
  } catch (error) {
    console.error(error);
    for (const name of stage.checks) if (!reported.has(name)) report(name, "F", `${error.name}: ${error.message}`);
  }
  if (close) await tryOne("close", close);
  process.exit(0);
}
