import type { ReactNode } from "react";

import { PageHead } from "../../ui/parts";

export default function Approvals(): ReactNode {
  return (
    <div className="page">
      <PageHead title="Approvals" />
    </div>
  );
}
