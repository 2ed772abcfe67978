"""What tests share: helpers, stand-ins of what rai talks to, and what they check."""

import sys

if (pytest := sys.modules.get("pytest")) is not None:
    pytest.register_assert_rewrite(
        *(f"tests.kit.{name}" for name in ("contract", "running", "sandboxed"))
    )
