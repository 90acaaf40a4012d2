"""Where tasks come from: kinds of work, each three functions behind `posttrain.types.Domain`.

`DOMAINS` is the literal table of short names. `use = "generated:chain_sum"` looks up what stands before
the colon and calls it with what stands after it; a user's own domain is `use = "my_package.module:name"`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

DOMAINS: Mapping[str, str] = MappingProxyType(
    {
        "extraction": "posttrain.domains.extraction:extraction",
        "generated": "posttrain.domains.generated:generated",
        "rows": "posttrain.domains.rows:rows",
    }
)
"""Short name → `module:function`, as text, so that reading the table imports nothing."""
