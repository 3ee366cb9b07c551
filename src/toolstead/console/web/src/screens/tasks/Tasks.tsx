import type { ReactNode } from "react";

import { PageHead } from "../../ui/parts";

export default function Tasks(): ReactNode {
  return (
    <div className="page">
      <PageHead title="Tasks" />
    </div>
  );
}
