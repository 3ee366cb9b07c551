const DEFINES_LINK = /^ {0,3}\[[^\]\n]+\]:/m;

/** Splits markdown where one part cannot change the other: at blank lines outside of fences and lists. */
export function splitBlocks(text: string): string[] {
  if (DEFINES_LINK.test(text)) return [text]; // links anywhere may mean it
  const blocks: string[] = [];
  let block: string[] = [];
  let fence = "";
  for (const line of text.split("\n")) {
    const mark = /^\s{0,3}(`{3,}|~{3,})/.exec(line)?.[1];
    if (mark) fence = fence ? (mark[0] === fence[0] && mark.length >= fence.length ? "" : fence) : mark;
    const startsAnew = !fence && block.length > 0 && block.at(-1)?.trim() === "" && !/^\s*([-*+]|\d+[.)])\s|^\s{2,}|^\s*[>|]/.test(line) && line.trim() !== "";
    if (startsAnew && !mark) {
      blocks.push(block.join("\n"));
      block = [];
    }
    block.push(line);
  }
  if (block.length > 0) blocks.push(block.join("\n"));
  return blocks;
}
