"""Where tasks come from: kinds of work, each three functions behind `posttrain.types.Domain`.

`DOMAINS` is the literal table of short names. `use = "generated:chain_sum"` looks up what stands before
the colon and calls it with what stands after it; a user's own domain is `use = "my_package.module:name"`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

DOMAINS: Mapping[str, str] = MappingProxyType(
    {
        "code": "posttrain.domains.code:code",
        "extraction": "posttrain.domains.extraction:extraction",
        "generated": "posttrain.domains.generated:generated",
        "guarded": "posttrain.domains.guarded:guarded",
        "harbor": "posttrain.domains.code_script:harbor",
        "math": "posttrain.domains.math:math",
        "mined": "posttrain.domains.mined:mined",
        "mixed": "posttrain.domains.mixed:mixed",
        "optimise": "posttrain.domains.optimise:optimise",
        "rows": "posttrain.domains.rows:rows",
        "tools": "posttrain.domains.tools:tools",
    }
)
"""Short name → `module:function`, as text, so that reading the table imports nothing."""
