#!/bin/bash
set -uxo pipefail
cd /testbed
git config --global --add safe.directory /testbed
git checkout bb28f14de6cb10c87c9aa69dfe4f67572e09280c tests/test_budget.py
git apply -v - <<'EOF_114329324912'
diff --git a/tests/test_budget.py b/tests/test_budget.py
index bd9892a..6db1f54 100644
--- a/tests/test_budget.py
+++ b/tests/test_budget.py
@@ -31,5 +31,9 @@ def test_warning_stays_quiet_below_the_share():
     assert not warning(Line("rent", 100, 10), 0.5)
 
 
+def test_warning_exactly_at_the_share():
+    assert warning(Line("rent", 100, 50), 0.5)
+
+
 def test_warning_without_a_plan():
     assert not warning(Line("rent", 0, 50), 0.5)
EOF_114329324912
: '>>>>> Start Test Output'
python3 -m pytest -rA -p no:cacheprovider tests/test_budget.py
: '>>>>> End Test Output'
git checkout bb28f14de6cb10c87c9aa69dfe4f67572e09280c tests/test_budget.py
