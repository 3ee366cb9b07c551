import type { ReactNode } from "react";

import { PageHead } from "../../ui/parts";

export default function Sessions(): ReactNode {
  return (
    <div className="page">
      <PageHead title="Sessions" />
    </div>
  );
}
