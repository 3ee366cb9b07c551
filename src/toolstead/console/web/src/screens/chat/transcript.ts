/**
 * A conversation as its events tell it: what is shown, built from the stored events and continued by the live ones.
 *
 * Events come in pages from the end of the log backwards, and new ones as they happen; each has its place by its id, so
 * that a page that is read again, or an event that comes by both ways, counts once. Items that do not change keep their
 * identity: only what an event touches is drawn again.
 */
import type { LiveEvent } from "../../live/connection";

export interface MessageItem {
  kind: "message";
  key: string;
  role: string;
  /** `text`, or what an agent has sent: `checkin`, `result`, `signal`. */
  sort: string;
  text: string;
  at: number;
  runId: string;
}

export interface StreamItem {
  kind: "stream";
  key: string;
  text: string;
  at: number;
  runId: string;
}

export interface ThinkingItem {
  kind: "thinking";
  key: string;
  text: string;
  at: number;
  runId: string;
}

export interface CallItem {
  kind: "call";
  key: string;
  callId: string;
  name: string;
  input: unknown;
  at: number;
  runId: string;
  result?: { text: string; isError: boolean; durationMs: number; handle: string };
  /** What a gate or a person put in place of the arguments. */
  edited?: unknown;
  /** What it has delegated. */
  tasks: readonly { id: string; agent: string; state: string }[];
}

export interface NoteItem {
  kind: "note";
  key: string;
  tone: "bad" | "quiet" | "warn";
  text: string;
  at: number;
  runId: string;
}

export type Item = MessageItem | StreamItem | ThinkingItem | CallItem | NoteItem;

export interface PlanStep {
  step: string;
  status: string;
}

export interface Transcript {
  items: readonly Item[];
  /** The plan of the last run that has one. */
  plan: readonly PlanStep[];
  /** The run that is under way, as far as the events say. */
  runId: string;
  agent: string;
  model: string;
}

export const EMPTY: Transcript = { items: [], plan: [], runId: "", agent: "", model: "" };

/** A transcript that events are added to. */
export class TranscriptBuilder {
  private items: Item[] = [];
  private readonly places = new Map<string, number>();
  private plan: readonly PlanStep[] = [];
  private runId = "";
  private agent = "";
  private model = "";
  private lastId = "";

  constructor(events: readonly LiveEvent[] = []) {
    this.add(events);
  }

  /** The id of the last event that counts. */
  get end(): string {
    return this.lastId;
  }

  add(events: readonly LiveEvent[]): Transcript {
    for (const event of events) {
      if (event.id) {
        if (event.id <= this.lastId) continue;
        this.lastId = event.id;
      }
      this.apply(event);
    }
    return { items: [...this.items], plan: this.plan, runId: this.runId, agent: this.agent, model: this.model };
  }

  private apply(event: LiveEvent): void {
    const { data, time: at } = event;
    const runId = event.runId ?? "";
    switch (event.type) {
      case "run.started":
        this.runId = runId;
        this.agent = text(data["agent"]);
        this.model = text(data["model"]);
        this.plan = [];
        break;
      case "message": {
        const role = text(data["role"]);
        const id = text(data["messageId"]) || (event.id ?? String(at));
        const place = role === "assistant" ? this.places.get(`stream ${runId}`) : undefined;
        // What has grown becomes the message, in its place and under its key: what is drawn of it stays.
        const key = place === undefined ? id : (this.items[place]?.key ?? id);
        if (place !== undefined) this.places.delete(`stream ${runId}`);
        this.put({ kind: "message", key, role, sort: text(data["kind"]) || "text", text: text(data["content"]), at, runId });
        break;
      }
      case "message.delta": {
        const attempt = Number(data["attempt"] ?? 1);
        const before = this.find(`stream ${runId}`);
        const isNew = before?.kind !== "stream" || (attempt > 1 && this.attempts.get(runId) !== attempt);
        this.attempts.set(runId, attempt);
        const said = (isNew || before?.kind !== "stream" ? "" : before.text) + text(data["text"]);
        const key = before?.key ?? `said ${runId} ${this.countSaid(runId)}`;
        this.put({ kind: "stream", key, text: said, at: before?.at ?? at, runId });
        this.places.set(`stream ${runId}`, this.places.get(key) as number);
        break;
      }
      case "thinking": {
        const retry = data["retry"] as Record<string, unknown> | undefined;
        if (retry) {
          this.put({ kind: "note", key: `retry ${runId} ${at}`, tone: "warn", text: `The model is asked again: ${text(retry["reason"])}`, at, runId });
          break;
        }
        // What it thinks belongs to the request that is under way: a call or a message in between begins another.
        const last = this.items.at(-1);
        if (last?.kind === "thinking" && last.runId === runId) this.put({ ...last, text: last.text + text(data["text"]) });
        else this.put({ kind: "thinking", key: `thinking ${event.id ?? at} ${this.items.length}`, text: text(data["text"]), at, runId });
        break;
      }
      case "tool_use":
        this.endStream(runId);
        this.putCall(text(data["callId"]), { name: text(data["name"]), input: data["input"], at, runId });
        break;
      case "tool_result":
        this.putCall(text(data["callId"]), {
          name: text(data["name"]),
          result: { text: text(data["content"]), isError: data["isError"] === true, durationMs: Number(data["durationMs"] ?? 0), handle: text(data["handle"]) },
          ...(data["input"] === undefined ? {} : { edited: data["input"] }),
          ...(this.find(`call ${text(data["callId"])}`) ? {} : { at, runId }),
        });
        break;
      case "delegate.started":
      case "delegate.completed":
      case "delegate.failed":
        this.putTask(data, event.type.slice("delegate.".length), event);
        break;
      case "task.created":
      case "task.completed":
      case "task.failed":
        this.putTaskNote(event);
        break;
      case "plan.updated":
        this.plan = Array.isArray(data["plan"]) ? (data["plan"] as PlanStep[]) : [];
        break;
      case "error": {
        this.endRun(runId);
        const code = text(data["code"]);
        this.put({ kind: "note", key: `end ${runId}`, tone: "bad", text: `The run ended with an error${code ? ` (${code})` : ""}: ${text(data["message"])}`, at, runId });
        break;
      }
      case "cancelled":
        this.endRun(runId);
        this.put({ kind: "note", key: `end ${runId}`, tone: "quiet", text: "Stopped.", at, runId });
        break;
      case "completed":
        this.endRun(runId);
        break;
      default:
        break;
    }
  }

  private readonly attempts = new Map<string, number>();
  private readonly said = new Map<string, number>();

  /** Texts of a run are numbered: a call between two of them ends the first. */
  private countSaid(runId: string): number {
    const number = (this.said.get(runId) ?? 0) + 1;
    this.said.set(runId, number);
    return number;
  }

  /** What was said before a call is a message of its own: what comes after it begins anew. */
  private endStream(runId: string): void {
    const key = `stream ${runId}`;
    const said = this.find(key);
    if (said?.kind !== "stream" || said.text.trim() === "") return;
    this.places.delete(key);
    this.put({ kind: "message", key: said.key, role: "assistant", sort: "text", text: said.text, at: said.at, runId });
  }

  private endRun(runId: string): void {
    if (this.runId === runId) this.runId = "";
    this.endStream(runId);
  }

  private putCall(callId: string, part: Partial<CallItem>): void {
    const key = `call ${callId}`;
    const before = this.find(key);
    const base: CallItem = before?.kind === "call" ? before : { kind: "call", key, callId, name: "", input: undefined, at: 0, runId: "", tasks: [] };
    this.put({ ...base, ...part });
  }

  private putTask(data: LiveEvent["data"], state: string, event: LiveEvent): void {
    const callId = text(data["callId"]);
    const id = text(data["runId"]) || (event.taskId ?? "");
    const before = this.find(`call ${callId}`);
    if (before?.kind !== "call" || !id) return;
    const word = state === "started" ? "running" : text(data["status"]) || state;
    const known = before.tasks.find((task) => task.id === id);
    const now = { id, agent: text(data["agentId"]) || known?.agent || "", state: word };
    this.put({ ...before, tasks: known ? before.tasks.map((task) => (task === known ? now : task)) : [...before.tasks, now] });
  }

  private putTaskNote(event: LiveEvent): void {
    const { data, time: at, taskId = "" } = event;
    const agent = text(data["agent"]);
    if (event.type === "task.created" && data["mode"] !== "detached") return; // its call shows it
    if (event.type !== "task.created" && !this.find(`task ${taskId}`)) return;
    const outcome = text(data["outcome"]);
    const said = event.type === "task.created" ? `${agent} works on it in the background` : `${agent}: ${outcome}`;
    this.put({ kind: "note", key: `task ${taskId}`, tone: event.type === "task.failed" ? "bad" : "quiet", text: said, at, runId: "" });
  }

  private find(key: string): Item | undefined {
    const place = this.places.get(key);
    return place === undefined ? undefined : this.items[place];
  }

  private put(item: Item): void {
    const place = this.places.get(item.key);
    if (place === undefined) {
      this.places.set(item.key, this.items.length);
      this.items.push(item);
    } else {
      this.items[place] = item;
    }
  }
}

const text = (value: unknown): string => (typeof value === "string" ? value : value === undefined || value === null ? "" : JSON.stringify(value));
