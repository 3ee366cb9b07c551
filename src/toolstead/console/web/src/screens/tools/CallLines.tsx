import { useState, type ReactNode } from "react";

import { Code } from "../../ui/parts";
import { writeCurl, writeCli, writePython } from "./callText";

const WAYS = { CLI: writeCli, curl: writeCurl, Python: writePython } as const;

/** The same call for a terminal, for curl and for Python, to copy. */
export function CallLines({ tool, input }: { tool: string; input: unknown }): ReactNode {
  const [way, setWay] = useState<keyof typeof WAYS>("CLI");
  return (
    <details className="stack tight">
      <summary>The same call elsewhere</summary>
      <div className="row" role="radiogroup" aria-label="Where">
        {(Object.keys(WAYS) as (keyof typeof WAYS)[]).map((one) => (
          <label key={one} className="row">
            <input type="radio" name="way" checked={one === way} onChange={() => setWay(one)} /> {one}
          </label>
        ))}
      </div>
      <Code text={WAYS[way](tool, input, window.location.origin)} wrap label={`The call as ${way}`} />
    </details>
  );
}
