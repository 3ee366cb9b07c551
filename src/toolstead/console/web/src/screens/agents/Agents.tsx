import type { ReactNode } from "react";

import { PageHead } from "../../ui/parts";

export default function Agents(): ReactNode {
  return (
    <div className="page">
      <PageHead title="Agents" />
    </div>
  );
}
