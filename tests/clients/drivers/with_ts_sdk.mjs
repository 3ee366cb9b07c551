// The official TypeScript SDK: 1.x (`sdk`), or the client of 2.x by its way of choosing a protocol version.

import { command, args, drive, isStdio, logHas, expect, runChecks, stage } from "./probe.mjs";

const IS_OLD = stage.variant === "sdk";

async function open() {
  const root = "@modelcontextprotocol";
  let Client, Stdio, Http, onElicit, onSample;
  if (IS_OLD) {
    ({ Client } = await import(`${root}/sdk/client/index.js`));
    ({ StdioClientTransport: Stdio } = await import(`${root}/sdk/client/stdio.js`));
    ({ StreamableHTTPClientTransport: Http } = await import(`${root}/sdk/client/streamableHttp.js`));
    const types = await import(`${root}/sdk/types.js`);
    [onElicit, onSample] = [types.ElicitRequestSchema, types.CreateMessageRequestSchema];
  } else {
    ({ Client, StreamableHTTPClientTransport: Http } = await import(`${root}/client`));
    ({ StdioClientTransport: Stdio } = await import(`${root}/client/stdio`));
    [onElicit, onSample] = ["elicitation/create", "sampling/createMessage"];
  }
  const heard = [];
  const mode = { legacy: "legacy", auto: "auto", pinned: { pin: "2026-07-28" } }[stage.variant];
  const client = new Client(
    { name: "laboratory", version: "1.0.0" },
    {
      capabilities: { elicitation: { form: {} }, sampling: {} },
      listChanged: { tools: { onChanged: () => heard.push("tools") } },
      ...(mode ? { versionNegotiation: { mode } } : {}),
    },
  );
  client.setRequestHandler(onElicit, async () => ({ action: "accept", content: { name: "Ada" } }));
  client.setRequestHandler(onSample, async () => ({
    role: "assistant",
    content: { type: "text", text: "seven" },
    model: "scripted",
  }));
  const transport = isStdio ? new Stdio({ command, args, env: stage.environ }) : new Http(new URL(stage.url));
  await client.connect(transport);
  const request = (name, input, options) =>
    IS_OLD
      ? client.callTool({ name, arguments: input }, undefined, options)
      : client.callTool({ name, arguments: input }, options);
  return {
    client,
    heard,
    async tools() {
      return Object.fromEntries((await client.listTools()).tools.map((tool) => [tool.name, tool.inputSchema]));
    },
    async call(name, input, signal) {
      const result = await request(name, input, { signal });
      const text = result.content.map((part) => part.text ?? "").join("");
      return { isError: result.isError ?? false, text, kinds: result.content.map((part) => part.type) };
    },
    async follow(name) {
      const seen = [];
      await request(name, {}, { onprogress: (step) => seen.push(`${step.progress}/${step.total}`) });
      return seen;
    },
    prompts: async () => (await client.request({ method: "prompts/list" }, ...(await schema("Prompts")))).prompts.length,
    resources: async () =>
      (await client.request({ method: "resources/list" }, ...(await schema("Resources")))).resources.length,
  };
}

async function schema(kind) {
  if (!IS_OLD) return [];
  const types = await import("@modelcontextprotocol/sdk/types.js");
  return [types[`List${kind}ResultSchema`]];
}

await drive(
  async () => {
    const connection = await open();
    await runChecks(connection);
    await connection.client.close();
  },
  async () => {
    const connection = await open();
    const call = connection.call("lab__wait", { tag: "abandoned" }).catch(() => undefined);
    expect(await logHas("began abandoned", 10), "it never began");
    await connection.client.close();
    await call;
  },
);
