import type { ReactNode } from "react";

import { PageHead } from "../../ui/parts";

export default function Runs(): ReactNode {
  return (
    <div className="page">
      <PageHead title="Runs" />
    </div>
  );
}
