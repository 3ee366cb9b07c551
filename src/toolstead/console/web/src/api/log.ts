import { api, take, type Shape } from "./client";

export interface LogQuery {
  thread?: string;
  run?: string;
  root?: string;
  task?: string;
  type?: string;
  tool?: string;
  before?: string;
  after?: string;
  limit?: string;
}

const MOST_PAGES = 20;

/** A page of stored events. The server looks at so many for each; what is rare may need several looks. */
export async function readLog(query: LogQuery, signal?: AbortSignal): Promise<Shape<"EventLogPage">> {
  let page = await take(api.GET("/api/events/log", { params: { query }, ...(signal ? { signal } : {}) }));
  for (let looks = 1; page.events.length === 0 && page.before && query.after === undefined && looks < MOST_PAGES; looks += 1) {
    page = await take(api.GET("/api/events/log", { params: { query: { ...query, before: page.before } }, ...(signal ? { signal } : {}) }));
  }
  return page;
}
