import type { ReactNode } from "react";

import { PageHead } from "../../ui/parts";

export default function Chat(): ReactNode {
  return (
    <div className="page">
      <PageHead title="Chat" />
    </div>
  );
}
