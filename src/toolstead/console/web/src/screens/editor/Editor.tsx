import type { ReactNode } from "react";

import { PageHead } from "../../ui/parts";

export default function Editor(): ReactNode {
  return (
    <div className="page">
      <PageHead title="Editor" />
    </div>
  );
}
